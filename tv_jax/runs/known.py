"""Answers that other runs have, and that this one would give again.

What is decoded follows from the config, from what was read, from the code and
from where it runs. A run that is alike in all of that, but for the points of
its grid, has the very lines of the methods that both have: to the byte, where a
program that is compiled twice is the same. Of code that is no commit nobody
knows whether it is the same, and in a run that was begun elsewhere a second
turn would follow another first: nothing is taken.
"""

import dataclasses
import itertools
import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence

from tv_jax.runs import asking
from tv_jax.runs.records import AXES, Answer, Key
from tv_jax.runs.settings import Run, to_dict
from tv_jax.runs.store import checks
from tv_jax.runs.store import unit as unit_lib

# In these runs may differ.
_FREE = {"experiment", "plain", "timing", *(f"{axis}s" for axis in AXES)}
# Of what is read, that is used by some methods of a grid alone.
_OF_METHODS = "trees/", "proposals/", "verifiers/"


def answers(
  settings: Run,
  environments: Sequence[Mapping],
  sources: Mapping[str, str],
  folders: Iterable[pathlib.Path],
) -> dict[Key, Answer]:
  """The answers of all runs that are alike, where all of them are there.

  Args:
    settings: Of the run that wants them.
    environments: Where it runs, and has run.
    sources: The hashes of what it reads.
    folders: Of other runs; one that cannot be read is left out.

  Returns:
    By key; those of other points of a grid too.
  """
  place, *others = map(_place, environments)
  revision = place.get("revision")
  if not revision or revision.endswith("-dirty"):
    return {}
  if any(other != place for other in others):
    return {}
  config = _fixed(json.loads(json.dumps(to_dict(settings))))
  found = {}
  for folder in folders:
    try:
      own = unit_lib.load(folder / unit_lib.CONFIG, dict) or {}
      if _fixed(own) != config:
        continue
      places = _alike_programs(settings, own.get("verifiers") or ())
      unit = checks.read(folder)
      theirs = unit_lib.load(folder / unit_lib.SOURCES, dict) or {}
    except (ValueError, OSError):  # whoever runs it is told
      continue
    here = [_place(one) == place for one in unit.environments]
    if unit.answered and here and all(here) and _alike(sources, theirs):
      found |= {
        one.key: one
        for one in unit.items
        if one.error is None
        and (
          one.method.plain or (one.method.tree, one.method.proposal) in places
        )
      }
  return found


def _alike_programs(settings, theirs) -> set[tuple[str, str]]:
  """The trees and proposals on which the same rules are defined.

  All of these are in one program, and others would be in another.
  """
  other = dataclasses.replace(settings, verifiers=tuple(theirs))
  return {
    place
    for place in itertools.product(settings.trees, settings.proposals)
    if asking.rules_on(settings, *place) == asking.rules_on(other, *place)
  }


def _fixed(config: Mapping) -> dict:
  """A config without what it may have of its own."""
  return {name: config[name] for name in config if name not in _FREE}


def _place(environment: Mapping) -> dict:
  return {name: environment[name] for name in environment if name != "date"}


def _alike(ours: Mapping[str, str], theirs: Mapping[str, str]) -> bool:
  """Whether the same was read, apart from what one of the two did not need."""
  return all(
    ours.get(name) == theirs.get(name)
    for name in {*ours, *theirs}
    if not name.startswith(_OF_METHODS) or (name in ours and name in theirs)
  )
