"""Hashes of everything that a run reads, by name: a changed input is refused.

The config names files; the hashes are of their content. No name contains a
folder or a date, so a copy on another machine has the same hashes.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence

import jax

from tv_jax import tree as tree_lib
from tv_jax.io import digests, names
from tv_jax.io.reading import path_of
from tv_jax.models import native
from tv_jax.models.checkpoint import Checkpoint
from tv_jax.runs.questions import Question
from tv_jax.runs.settings import Run


def hashes(
  settings: Run, questions: Sequence[Question], finished: bool = False
) -> dict[str, str]:
  """Returns the hashes; the part of a name before a slash is its group.

  A finished run's models may be gone: then they are left out.
  """
  result = {"questions": of_questions(questions)}
  for name in settings.trees:
    result[f"trees/{name}"] = digests.of_value(tree_lib.parse(name).parents)
  rules = (*settings.verifiers, settings.baseline)
  for group, given in (("rules", rules), ("proposals", settings.proposals)):
    for name in given:
      if digest := names.source_hash(name):  # "" for a built-in
        result[f"{group}/{name}"] = digest
  # Native products sum in another order, which changes last digits of logits.
  if not finished and jax.default_backend() == "cpu":
    result[native.SWITCH] = str(int(native.used()))
  models = settings.models
  for name, place, revision in (
    ("target", models.target, models.revision),
    ("draft", models.draft, models.draft_revision),
  ):
    if place and (not finished or _is_here(place)):
      checkpoint = Checkpoint.open(place, revision or None)
      result |= checkpoint.digests(name, tokenizer=name == "target")
  return result


def _is_here(place: str) -> bool:
  """Returns whether a model is a file or a directory that exists."""
  try:
    return os.path.exists(os.path.expanduser(path_of(place)))
  except ValueError:  # its package is not installed any more
    return False


def of_questions(questions: Sequence[Question]) -> str:
  """Returns the hash of the questions."""
  return digests.of_value([*map(dataclasses.asdict, questions)])
