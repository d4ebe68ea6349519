"""A picture of a run's loss curves."""

import json
import pathlib

# What each stage's axis shows: the entry of its log, and its name.
SHOWN = {
  "target": ("answer", "nats per token of an answer"),
  "draft": ("answer", "nats per token of an answer"),
  "draft_weak": ("answer", "nats per token of an answer"),
  "eagle": ("accepted", "share of drafted tokens accepted"),
}


def draw(workdir: pathlib.Path, path: pathlib.Path) -> None:
  """Draws the logs in `workdir` to an SVG file, always the same bytes."""
  import matplotlib
  from matplotlib.figure import Figure

  with matplotlib.rc_context({"svg.hashsalt": "tv_jax", "font.size": 9}):
    figure = Figure(figsize=(11, 2.6), layout="constrained")
    panels = figure.subplots(1, len(SHOWN))
    for panel, (stage, (entry, label)) in zip(
      panels, SHOWN.items(), strict=True
    ):
      text = (workdir / stage / "log.jsonl").read_text()
      lines = [json.loads(line) for line in text.splitlines()]
      panel.plot(
        [line["step"] for line in lines],
        [line[entry] for line in lines],
        linewidth=1,
      )
      panel.set(title=stage, xlabel="step", ylabel=label)
      panel.grid(alpha=0.3)
    figure.savefig(path, format="svg", metadata={"Date": None})
