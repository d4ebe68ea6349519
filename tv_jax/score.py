"""Scores a draft on its target's text: `python -m tv_jax.score --draft= ..`.

Computes the expected acceptance lengths of chains under both rules from
forward passes of both models over text that the target sampled. Nothing is
decoded. If several drafts are given, each is compared with the first, answer by
answer.
"""

import pathlib

from absl import flags

from tv_jax import distill, probs
from tv_jax.distill import scoring
from tv_jax.distill.chances import RULES
from tv_jax.engine import pair as pairs
from tv_jax.io import cli, progress

_TARGET = flags.DEFINE_string("target", "bundled/target", "The target.")
_DRAFT = flags.DEFINE_multi_string(
  "draft", ["bundled/draft"], "The draft; repeat the flag to compare drafts."
)
_TEXT = flags.DEFINE_string(
  "text",
  None,
  "Text that the target sampled: a folder of tv_jax.distill (its --data), or a"
  ' file with lines {"prompt": [tokens], "answer": [tokens]}. Default: the'
  " target writes some, in runs/score.",
)
_CONVERSATIONS = flags.DEFINE_integer(
  "conversations",
  0,
  "Score only this number of conversations. Default: all of --text, or 48 if"
  " the target writes them. A draft of tv_jax.distill was trained on all of its"
  " --data but the first --held_out (48): give 48.",
  lower_bound=0,
)
_DEPTH = flags.DEFINE_integer(
  "depth",
  None,
  f"Depth of the longest chain. Default: {scoring.LONGEST}, or the block size"
  " of a DSpark draft.",
)
_TEMPERATURE = flags.DEFINE_float(
  "temperature",
  1.0,
  "Temperature of the target, at which the text was sampled.",
  lower_bound=probs.COLDEST,
)


def main() -> None:
  """Prints the table."""
  text = first = None
  if _TEXT.value:
    text = distill.read(pathlib.Path(_TEXT.value))
    text = text[: _CONVERSATIONS.value or None]
  for draft in _DRAFT.value:
    pair = pairs.load(_TARGET.value, draft)
    text = _written(pair) if text is None else text
    scores = distill.score(
      pair, text, depth=_DEPTH.value, temperature=_TEMPERATURE.value
    )
    print(f"{draft}: {len(text)} conversations, {scores.tokens} tokens")
    print(scores)
    first = first or scores
    if scores is not first:
      gains = (
        f"{rule} {scores.over(first, rule)[-1]:+.1f} %" for rule in RULES
      )
      depth = min(len(scores.gain), len(first.gain))
      print(f"over the first draft, depth {depth}: {', '.join(gains)}")
    del pair  # two targets may not fit


def _written(pair: pairs.Pair) -> list[distill.Conversation]:
  """Returns text that the target writes, or wrote before."""
  writing = distill.Writing(
    conversations=_CONVERSATIONS.value or 48,
    temperature=_TEMPERATURE.value,
    # Not the seed of tv_jax.distill: no draft was trained on this text.
    seed=1,
  )
  name = f"{_TARGET.value.strip('/').replace('/', '-')}-{writing.temperature:g}"
  with progress.bar() as bar:
    folder = pathlib.Path("runs", "score", name)
    return distill.write(pair, folder, writing, progress=bar)


if __name__ == "__main__":
  cli.run("tv_jax.score", main)
