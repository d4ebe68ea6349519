"""A run as DataFrames: a row for each cycle, each answer, each timed answer.

Columns of names are categories in the order of the runs' configs, which groups
and tables keep.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from tv_jax.io.errors import UserError
from tv_jax.runs import store
from tv_jax.runs.records import (
  ALL,
  DRAFTED_AXES,
  KEY,
  NONE,
  PLAIN,
  TASKS,
)
from tv_jax.runs.store import StoredRun

Run = str | os.PathLike | StoredRun
Runs = Run | Iterable[Run]


def frame(folders: Runs) -> pd.DataFrame:
  """Returns a row for each cycle of runs.

  An answer that failed has no cycles. `answers` has a row for it.

  Args:
    folders: A run's folder, a folder that contains runs, or several of these.

  Returns:
    A frame with these columns:
      run: The run's folder.
      task, question, turn: What was asked; turns count from 0.
      tree, proposal, verifier, temperature, seed: How it was decoded. Plain
        decoding has "plain" as its verifier, "none" as tree and proposal.
      cycle: Number of the cycle in its answer, from 0.
      gained: Tokens that the cycle gained, the bonus token included.
      drafted: Nodes that were drafted, without the root; NaN without a draft.
      expected: The tokens that the rule that ran expects to gain from this
        draft; NaN where this is not known.
      expected_RULE: The same for each rule whose expected length was computed.
      fault: Whether any cycle of the answer had a NaN or an invalid decision.

  Raises:
    UserError: There is no run in a folder.
  """
  units = _runs(folders)
  made = _flat(unit.items for unit in units)
  lengths = [line.get("accepted", ()) for line in made]
  counts = [*map(len, lengths)]
  whole = _keys(units).loc[np.arange(len(made)).repeat(counts)]
  whole = whole.reset_index(drop=True)
  starts = np.cumsum([0, *counts])[:-1]
  whole["cycle"] = np.arange(len(whole)) - np.repeat(starts, counts)
  whole["gained"] = np.array(_flat(lengths), int)

  def numbers(values) -> np.ndarray:
    """Returns numbers by cycle; None, for an answer or a cycle, is NaN."""
    pairs = zip(values, counts, strict=True)
    return np.array(_flat(x or [None] * n for x, n in pairs), float)

  whole["drafted"] = numbers(line.get("drafted") for line in made)
  whole["expected"] = np.nan
  panels = [line.get("expected", {}) for line in made]
  rules = [*_flat(panels), *(unit.config["baseline"] for unit in units)]
  for rule in dict.fromkeys(rules):
    expected = numbers(panel.get(rule) for panel in panels)
    whole[f"expected_{rule}"] = expected
    own = (whole["verifier"] == rule).to_numpy()
    whole.loc[own, "expected"] = expected[own]
  faults = [line.get("faults", 0) > 0 for line in made]
  whole["fault"] = np.repeat(faults, counts)
  return whole.astype({"fault": bool})


def answers(folders: Runs) -> pd.DataFrame:
  """Returns a row for each answer of runs.

  Args:
    folders: As for `frame`.

  Returns:
    A frame with the columns of `frame` up to seed, and these:
      text: The answer.
      tokens: Its token ids, a list.
      cycles: Number of cycles.
      faults: Number of cycles with a NaN or an invalid decision.
      right: Whether it equals a reference; NA without a reference.
      error: The reason why the answer is missing, or None.
  """
  units = _runs(folders)
  made = _flat(unit.items for unit in units)
  result = _keys(units)
  # What an answer that failed has; its other fields are missing.
  failed = {"text": "", "tokens": (), "error": None, "right": None}
  for name, default in failed.items():
    values = [line.get(name, default) for line in made]
    result[name] = pd.Series(values, dtype=object)
  result["faults"] = [line.get("faults", 0) for line in made]
  result["cycles"] = [len(line.get("accepted", ())) for line in made]
  return result.astype({"right": "boolean"})


def timings(folders: Runs) -> pd.DataFrame:
  """Returns a row for each answer whose time was measured.

  Args:
    folders: As for `frame`.

  Returns:
    A frame with the columns run, task, question, tree, proposal, verifier,
    temperature; `asked`, the number of the question in the order of all timed
    questions; `tokens`, `seconds` and `cycles` of the answer; and
    `compile_seconds` of its method.
  """
  units = _runs(folders)
  columns = ["run", *(x for x in KEY if x not in ("turn", "seed"))]
  columns += ["asked", "tokens", "seconds", "cycles", "compile_seconds"]
  found = [
    pd.DataFrame({"run": str(unit.folder)} | timed).assign(
      asked=range(len(timed["seconds"]))
    )
    for unit in units
    for timed in (unit.timing or {"methods": []})["methods"]
  ]
  whole = pd.concat(found or [pd.DataFrame(columns=columns)], ignore_index=True)
  whole = whole.rename(columns={"questions": "question", "tasks": "task"})
  return _ordered(whole[columns], units)


def with_all(table: pd.DataFrame) -> pd.DataFrame:
  """Adds a copy of each row whose task is `ALL`."""
  tasks = [*table["task"].cat.categories, ALL]
  both = pd.concat([table, table.assign(task=ALL)], ignore_index=True)
  return both.assign(task=pd.Categorical(both["task"], tasks))


def _runs(folders: Runs) -> list[StoredRun]:
  """Reads the runs in folders; runs that are read already stay as they are."""
  if isinstance(folders, StoredRun):
    return [folders]
  if not isinstance(folders, str | os.PathLike):
    found = _flat(map(_runs, folders))  # each run once
    return [*{unit.folder.resolve(): unit for unit in found}.values()]
  found = store.read_many(folders)
  if not found:
    raise UserError(f"{folders}: there is no run in it")
  return [*found]


def _keys(units: Sequence[StoredRun]) -> pd.DataFrame:
  """Returns the columns that tell answers apart, with a row for each."""
  made = _flat(unit.items for unit in units)
  columns = {"run": [str(unit.folder) for unit in units for _ in unit.items]}
  columns |= {name: [line[name] for line in made] for name in KEY}
  return _ordered(pd.DataFrame(columns), units)


def _ordered(table: pd.DataFrame, units: Sequence[StoredRun]) -> pd.DataFrame:
  """Makes categories of names and questions, in the order of the configs."""
  first: dict[str, list] = {
    "task": [*TASKS],
    **{
      name: [PLAIN, NONE, *_flat(unit.config[f"{name}s"] for unit in units)]
      for name in DRAFTED_AXES
    },
  }
  for name in ("run", "task", "question", *DRAFTED_AXES):
    there = table[name].unique().tolist()
    rest = sorted(there) if name == "task" else there
    order = dict.fromkeys([*first.get(name, []), *rest])
    # As objects: a question is a number or a text.
    known = pd.Index(order, dtype=object).intersection(there, sort=False)
    table[name] = pd.Categorical(table[name], categories=known)
  return table


def _flat(lists: Iterable[Iterable]) -> list:
  return [*itertools.chain.from_iterable(lists)]
