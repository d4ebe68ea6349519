"""Makes a draft for a target: `python -m tv_jax.distill --target= --out=`.

The target writes text, its features are kept on disk, and the draft learns the
target's probabilities. After an interruption the same command continues.
"""

import dataclasses
import functools
import pathlib

from absl import flags

from tv_jax import distill
from tv_jax.distill import Training, Writing
from tv_jax.engine import pair as pairs
from tv_jax.engine.programs import keep_programs
from tv_jax.io import cli, progress
from tv_jax.io.errors import UserError
from tv_jax.runs import questions

_TARGET = flags.DEFINE_string(
  "target", None, "The target: a directory, a .gguf file or a repository."
)
_REVISION = flags.DEFINE_string(
  "target_revision", None, "The commit of a repository."
)
_OUT = flags.DEFINE_string("out", None, "The directory of the new draft.")
_DATA = flags.DEFINE_string(
  "data",
  None,
  "The folder of the target's text and features, some gigabytes."
  " Default: runs/distill/TARGET, or TARGET-text with --text.",
)
_PROMPTS = flags.DEFINE_string(
  "prompts",
  None,
  "A questions file (docs/reproduce.md), whose first turns the target answers."
  " Default: the target also writes the questions.",
)
_TEXT = flags.DEFINE_string(
  "text",
  None,
  "A file of text to train on, in place of the target's. Its lines are"
  ' {"prompt": [tokens], "answer": [tokens]}.',
)
_BATCH = flags.DEFINE_integer(
  "batch_size", 48, "Conversations that are written together.", lower_bound=1
)
_FIELDS = {
  field.name: field
  for kind in (Writing, Training)
  for field in dataclasses.fields(kind)
}
_DEFINE = {
  int: functools.partial(flags.DEFINE_integer, lower_bound=0),
  float: functools.partial(flags.DEFINE_float, lower_bound=0),
  str: flags.DEFINE_string,
}
_SETTINGS = {
  name: _DEFINE[type(field.default)](
    name, field.default, field.metadata["help"]
  )
  for name, field in _FIELDS.items()
}


def _settings(kind: type):
  """Makes `Training` or `Writing` from the flags."""
  names = [field.name for field in dataclasses.fields(kind)]
  return kind(**{name: _SETTINGS[name].value for name in names})


def main() -> None:
  """Makes the draft, and prints its expected lengths."""
  target, out = _TARGET.value, _OUT.value
  if not target or not out:
    raise UserError("give --target and --out")
  prompts = text = None
  if _TEXT.value:
    text = distill.read(pathlib.Path(_TEXT.value))
  elif _PROMPTS.value:
    asked = questions.load_questions(_PROMPTS.value)
    prompts = [question.turns[:1] for question in asked]
  keep_programs()
  pair = pairs.load(target, revision=_REVISION.value)
  folder = f"runs/distill/{target.strip('/').replace('/', '-')}"
  folder += "-text" * bool(_TEXT.value)
  with progress.bar() as bar:
    scores = distill.distill(
      pair,
      out,
      _settings(Training),
      data_folder=_DATA.value or folder,
      writing=_settings(Writing),
      prompts=prompts,
      text=text,
      batch_size=_BATCH.value,
      progress=bar,
    )
  print(scores)
  print(f"written: {out}")


if __name__ == "__main__":
  cli.run("tv_jax.distill", main)
