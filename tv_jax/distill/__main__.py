"""Makes a draft for a target: `python -m tv_jax.distill --target= --out=`.

The target writes text; its features are kept on disk; the draft learns its laws
there. Run the same command again after an interruption and it goes on.
"""

import dataclasses
import pathlib
import sys

from absl import flags, logging

from tv_jax.distill import distilling, drafts, estimate, losses
from tv_jax.distill import text as texts
from tv_jax.distill.chances import RULES
from tv_jax.distill.text import Writing
from tv_jax.edge import cli, progress
from tv_jax.engine import pair as pairs
from tv_jax.runs import questions

_TARGET = flags.DEFINE_string(
  "target", None, "The target: a directory, a .gguf file or a repository."
)
_REVISION = flags.DEFINE_string(
  "target_revision", None, "Of a repository: a commit."
)
_KIND = flags.DEFINE_enum(
  "kind",
  "eagle",
  [*drafts.KINDS],
  "An EAGLE head, an EAGLE-3 head, a DSpark draft of one pass, or a small"
  " model.",
)
_BEGIN = flags.DEFINE_string(
  "begin",
  None,
  "A draft of this kind, which training begins with. Default: one that begins"
  " as a part of the target.",
)
_OUT = flags.DEFINE_string("out", None, "The draft's directory.")
_DATA = flags.DEFINE_string(
  "data",
  None,
  "Where the target's text, and what is read of it, is kept: gigabytes."
  " Default: runs/distill and the target's name.",
)
_PROMPTS = flags.DEFINE_string(
  "prompts",
  None,
  "A questions file (docs/runs.md), whose first turns the target answers."
  " Default: the target writes what a user might ask.",
)
_TEXT = flags.DEFINE_string(
  "text",
  None,
  "A file of others' conversations to train on instead, all of them; a line:"
  ' {"messages": [{"role": "user", "content": ..}, ..]}.',
)
_CONVERSATIONS = flags.DEFINE_integer(
  "conversations", 4096, "How many the target writes."
)
_TEMPERATURE = flags.DEFINE_float(
  "temperature", 1.0, "At which the target writes; above 0."
)
_TOKENS = flags.DEFINE_integer("tokens", 192, "Most tokens of an answer.")
_TEMPLATE = flags.DEFINE_string("template", "chat", "As in configs.")
_BATCH = flags.DEFINE_integer(
  "batch_size",
  48,
  "Conversations that are written together.",
  lower_bound=1,
)
_LOSS = flags.DEFINE_enum(
  "loss",
  distilling.Training.loss,
  [*losses.LOSSES],
  "The loss: see docs/distill.md.",
)
_KL = flags.DEFINE_float(
  "kl", distilling.Training.kl, "Weight of a KL term that is added."
)
_RULE = flags.DEFINE_enum(
  "rule", distilling.Training.rule, [*RULES], "The rule that is to verify."
)
_DEPTH = flags.DEFINE_integer(
  "depth",
  distilling.Training.depth,
  "Levels of the chains that it learns; a DSpark draft has no more.",
)
_LAYERS = flags.DEFINE_list(
  "layers",
  None,
  "The target's layers that it begins with, such as 0,29. Default: the first"
  " and the last; of a head the last, of a DSpark draft the last two.",
)
_VOCABULARY = flags.DEFINE_integer(
  "vocabulary",
  None,
  "So many of the text's most frequent tokens the draft knows; 0: all. Default:"
  f" {distilling.VOCABULARY}, or those of the draft that it begins with.",
)
_RANK = flags.DEFINE_integer(
  "rank",
  None,
  "Of a DSpark draft's Markov head; 0: none, which is DFlash. Default:"
  f" {distilling.RANK}.",
)
_ROOTS = flags.DEFINE_integer(
  "roots",
  None,
  "So many places of a conversation, drawn anew, a step drafts from. Default:"
  f" all; of a DSpark draft {distilling.ROOTS}.",
)
_STEPS = flags.DEFINE_integer(
  "steps", distilling.Training.steps, "Of training."
)
_ROWS = flags.DEFINE_integer(
  "rows", distilling.Training.rows, "Conversations of a step."
)
_RATE = flags.DEFINE_float(
  "rate", distilling.Training.rate, "The highest learning rate."
)
_LENGTH = flags.DEFINE_integer(
  "length",
  distilling.Training.length,
  "Conversations of more tokens, prompt and answer, are left out.",
)
_HELD_OUT = flags.DEFINE_integer(
  "held_out",
  distilling.Training.held_out,
  "Conversations to score the draft on, that it does not see.",
)
_SEED = flags.DEFINE_integer("seed", 0, "Of all random draws.")


def main(arguments: list[str]) -> None:
  """Makes the draft, and prints how long its chains are."""
  logging.set_verbosity(logging.WARNING)
  cli.no_arguments(arguments)
  target, out = _TARGET.value, _OUT.value
  if not target or not out:
    raise ValueError("give --target and --out")
  layers = [int(x) for x in _LAYERS.value or ()]
  how = distilling.Training(
    kind=_KIND.value,
    loss=_LOSS.value,
    kl=_KL.value,
    rule=_RULE.value,
    depth=_DEPTH.value,
    layers=tuple(layers),
    vocabulary=_VOCABULARY.value,
    rank=_RANK.value,
    roots=_ROOTS.value,
    steps=_STEPS.value,
    rows=_ROWS.value,
    rate=_RATE.value,
    length=_LENGTH.value,
    held_out=_HELD_OUT.value,
    seed=_SEED.value,
  )
  writing = Writing(
    conversations=_CONVERSATIONS.value,
    temperature=_TEMPERATURE.value,
    answer_tokens=_TOKENS.value,
    seed=_SEED.value,
    template=_TEMPLATE.value,
  )
  prompts = None
  for flag in (_PROMPTS, _CONVERSATIONS):
    if _TEXT.value and flag.present:
      raise ValueError(f"--{flag.name} is not for --text: leave it out")
  if _PROMPTS.value:
    found = questions.load_questions(_PROMPTS.value)
    prompts = [one.turns[:1] for one in found]
  pair = pairs.load(
    _BEGIN.value,
    target,
    draft_kind=how.kind if _BEGIN.value else "none",
    revision=_REVISION.value,
  )
  config = pair.target.config
  settled = distilling.settled(how, pair)
  count = len(settled.layers)
  if pair.draft is not None:
    count = pair.draft.config.num_hidden_layers
  given = None
  if _TEXT.value:
    given = texts.conversations(
      pathlib.Path(_TEXT.value),
      pair.tokenizer,
      writing.answer_tokens,
      writing.template,
    )
    writing = dataclasses.replace(writing, conversations=len(given))
  least = estimate.hours(
    config,
    settled,
    writing,
    count,
    _BATCH.value,
    estimate.measure(config),
    asks=prompts is None and given is None,
    answers=given is None,
  )
  print(estimate.line(least), file=sys.stderr)
  with progress.bar(1) as bar:
    found = distilling.distill(
      pair,
      out,
      how,
      data_folder=_DATA.value or _folder(target),
      writing=writing,
      prompts=prompts,
      given=given,
      batch_size=_BATCH.value,
      say=bar.show,
    )
  print(found)
  print(f"written: {out}")


def _folder(target: str) -> str:
  """Returns the folder of a target's text."""
  return f"runs/distill/{target.strip('/').replace('/', '-')}"


if __name__ == "__main__":
  cli.run("tv_jax.distill", main)
