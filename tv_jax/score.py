"""Scores a draft on its target's text: `python -m tv_jax.score --draft= ..`.

The expected acceptance lengths of chains under both rules, from passes of both
models over text that the target sampled; nothing is decoded. Of several
drafts, each is compared with the first, conversation by conversation.
"""

import pathlib

from absl import flags

from tv_jax import distill, probs
from tv_jax.distill import drafts, scoring
from tv_jax.distill.chances import RULES
from tv_jax.edge import cli, progress
from tv_jax.engine import pair as pairs

_TARGET = flags.DEFINE_string("target", "bundled/target", "The target.")
_DRAFT = flags.DEFINE_multi_string(
  "draft", ["bundled/draft"], "Its draft; given again: another of that kind."
)
_KIND = flags.DEFINE_enum(
  "draft_kind", "independent", [*drafts.KINDS], "Of the draft."
)
_TEXT = flags.DEFINE_string(
  "text",
  None,
  "A folder that tv_jax.distill wrote text to (its --data), or a file of such"
  ' lines: {"prompt": [tokens], "answer": [tokens]}, which the target sampled.'
  " Default: the target writes some, in runs/score and its name.",
)
_CONVERSATIONS = flags.DEFINE_integer(
  "conversations",
  0,
  "Score only the first so many. Default: all of --text, or 48 if the target"
  " writes them. In a folder of tv_jax.distill a draft was trained on all but"
  " the first --held_out, which are 48: give 48.",
  lower_bound=0,
)
_DEPTH = flags.DEFINE_integer(
  "depth",
  None,
  f"Of the longest chain. Default: {scoring.LONGEST}, or as many levels as a"
  " DSpark draft has.",
)
_TEMPERATURE = flags.DEFINE_float(
  "temperature",
  1.0,
  "Of the target, as the text was sampled.",
  lower_bound=probs.COLDEST,
)
_DRAFT_TEMPERATURE = flags.DEFINE_float(
  "draft_temperature",
  None,
  "Of the draft. Default: the target's, 0.1 at least.",
)


def main() -> None:
  """Prints the table."""
  text = first = None
  if _TEXT.value:
    text = distill.read(pathlib.Path(_TEXT.value))
    text = text[: _CONVERSATIONS.value or None]
  for draft in _DRAFT.value:
    pair = pairs.load(draft, _TARGET.value, draft_kind=_KIND.value)
    text = _written(pair) if text is None else text
    scores = distill.score(
      pair,
      text,
      depth=_DEPTH.value,
      temperature=_TEMPERATURE.value,
      draft_temperature=_DRAFT_TEMPERATURE.value,
    )
    print(f"{draft}: {len(text)} conversations, {scores.tokens} tokens")
    print(scores)
    first = first or scores
    if scores is not first:
      gains = (
        f"{rule} {scores.over(first, rule)[-1]:+.1f} %" for rule in RULES
      )
      depth = len(scores.gain)
      print(f"over the first draft, depth {depth}: {', '.join(gains)}")
    del pair  # two targets may not fit


def _written(pair: pairs.Pair) -> list[distill.Conversation]:
  """Returns what the target writes, or has written already."""
  writing = distill.Writing(
    conversations=_CONVERSATIONS.value or 48,
    temperature=_TEMPERATURE.value,
    # Not tv_jax.distill's: no draft was trained on this text.
    seed=1,
  )
  name = f"{_TARGET.value.strip('/').replace('/', '-')}-{writing.temperature:g}"
  with progress.bar(1) as bar:
    folder = pathlib.Path("runs", "score", name)
    return distill.write(pair, folder, writing, say=bar.show)


if __name__ == "__main__":
  cli.run("tv_jax.score", main)
