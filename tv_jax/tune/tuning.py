"""Finds the best tree for a pair of models, a rule and a machine.

A run with a wide tree gives W(v) of each of its nodes in every cycle: the sum
of the rule's stopping distribution over v and all nodes below. Half of the
prompts choose the trees, the other half measures them. Then each tree is timed.

Axes: B batch, C cycles, N nodes of the wide tree.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
import pandas as pd

from tv_jax import tree as tree_lib
from tv_jax import verifiers
from tv_jax.engine.config import PLAIN, DecodeConfig, Options, decode_config
from tv_jax.engine.decode import Batch, Prompt
from tv_jax.engine.generate import Prompts, decode_all, read_prompts
from tv_jax.engine.pair import Pair
from tv_jax.engine.results import Estimate
from tv_jax.io import disk, reading
from tv_jax.io.errors import UserError
from tv_jax.io.progress import Progress, silent
from tv_jax.runs import stats, tables
from tv_jax.runs.timing import time_in_turn
from tv_jax.tree import Tree
from tv_jax.tune import choosing
from tv_jax.verifiers import Draft, Verifier

SIZES = (8, 16, 32, 64)
TREES = ("chain:5", "kary:2x5", "eagle")
SHORT = Options(max_new_tokens=32)

# The wide tree is made for at least this many nodes, and for this many times
# the largest size: otherwise there is little to choose from.
_LEAST, _TIMES = 64, 1.2
_TIMED = 12  # prompts that trees are timed on


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tuned:
  """The trees that `tune` compared; print it for a table.

  Attributes:
    name: Name of the chosen tree: the best one of the requested size.
    trees: All trees by name.
    frame: A row for each tree by name; with times, also one for plain decoding.
      Columns: `nodes`; `length`, the acceptance length on prompts that were not
      tuned on, NaN if the wide tree does not contain the tree; `gain`, the
      length minus the chosen tree's, on the same cycles; `decoded`, the length
      when the tree itself decodes a few prompts; `ms` of a cycle; `speed` in
      tokens per second without prefill. Columns with _error and _n have the
      means' errors, and the numbers of prompts.
    check: Realised minus expected length of the wide tree: 0 within its error.
    settings: The rule, proposal and other options, as saved in the file.
    notes: Limitations of these numbers.
  """

  name: str
  trees: dict[str, Tree]
  frame: pd.DataFrame
  check: Estimate
  settings: dict
  notes: tuple[str, ...]

  @property
  def tree(self) -> Tree:
    """Returns the chosen tree."""
    return self.trees[self.name]

  def __repr__(self) -> str:
    """Returns the table, with the check and the notes below it."""
    table = self.frame
    levels = {k: map(len, tree.levels[1:]) for k, tree in self.trees.items()}
    gain = _estimates(table.drop(self.name), "gain")
    cells = {
      "nodes": table["nodes"].map("{:.0f}".format),
      "by depth": {k: " ".join(map(str, x)) for k, x in levels.items()},
      "length": tables.texts(_estimates(table, "length"), ".3f"),
      f"minus {self.name}": tables.texts(gain, "+.3f"),
    }
    if PLAIN in table.index:
      over = table["speed"] / table["speed"][PLAIN]
      cells |= {
        "decoded": tables.texts(_estimates(table, "decoded"), ".3f"),
        "ms a cycle": table["ms"].map("{:.2f}".format),
        "tokens/s": table["speed"].map("{:.1f}".format),
        "over plain": over.map("{:.2f}".format),
      }
    shown = pd.DataFrame(cells, table.index).replace("nan", np.nan)
    title = "{verifier} with {proposal} at temperature {temperature:g}"
    parts = [
      title.format_map(self.settings),
      shown.fillna(tables.NOTHING).to_markdown(disable_numparse=True),
      f"check: realised - expected = {self.check:+.3f}",
      *self.notes,
    ]
    return "\n\n".join(parts)

  def save(self, path: str | os.PathLike) -> None:
    """Writes the chosen tree as a JSON file, which `tree=` reads."""
    row: Any = _estimates(self.frame, "length").loc[self.name]
    mean, error, n = row
    measured = {
      "length": mean,
      "error": None if np.isnan(error) else error,
      "items": int(n),
    }
    content = {"parents": [*self.tree.parents], "measured": measured}
    disk.write_json(pathlib.Path(path), content | self.settings)


def _estimates(table: pd.DataFrame, name: str) -> pd.DataFrame:
  """Returns the mean, the error and the count of a name."""
  found = table[[name, f"{name}_error", f"{name}_n"]]
  return found.set_axis(["mean", "error", "n"], axis=1)


def tune(
  pair: Pair,
  prompts: Prompts,
  options: Options = SHORT,
  *,
  nodes: int = 25,
  depth: int = 5,
  sizes: Sequence[int] = SIZES,
  trees: Sequence[str] = TREES,
  template: str = "raw",
  speed: bool = True,
  progress: Progress = silent,
) -> Tuned:
  """Finds the best tree for a pair, and times it on this machine.

  Every other prompt chooses the trees, and lengths are measured on the rest.
  The best trees have `nodes` drafted nodes, or a number in `sizes`, and at most
  `depth` levels. They are compared with those of `trees` that the rule
  supports. `speed` is whether to time all trees. `options.tree` is ignored.

  Raises:
    UserError: An option is wrong, or the prompts are too few.
  """
  sizes = sorted({*sizes, nodes})
  if min(depth, *sizes) < 1:
    raise UserError(
      f"nodes={nodes}, depth={depth}, sizes={sizes}: give 1 or more"
    )
  if options.verifier == PLAIN:
    raise UserError("verifier='plain': give the rule to find a tree for")
  rule = verifiers.resolve(options.verifier)
  if not rule.offers:
    raise UserError(
      f"verifier {rule.name!r} has no stopping distribution to tune by: give a"
      " Verifier(offers=..)"
    )

  def configure(**changes) -> DecodeConfig:
    return decode_config(pair, dataclasses.replace(options, **changes))

  named = {name: tree_lib.resolve(name) for name in trees}
  compared = {
    name: tree
    for name, tree in named.items()
    if not (rule.refuses and rule.refuses(tree))
  }
  for name in compared:
    configure(tree=name)  # refuses what cannot be drafted
  wide = _wide(rule, nodes, depth, sizes[-1], [*compared.values()])
  config = configure(tree=wide)
  asked = read_prompts(pair, config, prompts, template=template)
  if len(asked) < 4 or len({tuple(x.tokens) for x in asked}) < len(asked):
    raise UserError(
      f"{len(asked)} prompts: give 4 or more, no two the same: half to tune on"
      " and half to measure on"
    )
  progress(f"decoding {len(asked)} prompts with {wide!r}", 0, 1 + speed)
  reached, items, check = _decode(pair, config, asked)
  assert check
  tuned_on = np.isin(items, np.unique(items)[::2])
  values = np.where(wide.depth <= depth, reached[tuned_on].mean(0), -np.inf)
  best = choosing.best_nodes(wide, values)
  reached, items = reached[~tuned_on], items[~tuned_on]
  compared = {
    f"tuned:{size}": choosing.part(wide, best[size])
    for size in sizes
    if size < len(best)
  } | compared
  own = reached[:, best[nodes]].sum(axis=1)
  cycles = {}
  for name, tree in compared.items():
    if (inside := choosing.places(wide, tree)) is not None:
      sums = reached[:, inside].sum(axis=1)
      columns = {"question": items, "length": 1 + sums, "gain": sums - own}
      cycles[name] = pd.DataFrame(columns)
  counts = {name: len(tree) - 1 for name, tree in compared.items()}
  names = [PLAIN, *counts] if speed else [*counts]
  frame = pd.DataFrame({"nodes": counts}, names)
  frame = frame.join([_means(cycles, "length"), _means(cycles, "gain")])
  if speed:
    alone = {"batch_size": 1, "panel": None, "among": ()}
    plain = alone | {"verifier": PLAIN, "draft_stop": 0.0}
    configs = {PLAIN: configure(**plain)}
    for name, tree in compared.items():
      configs[name] = configure(tree=tree, **alone)
    unseen = [asked[int(item)] for item in np.unique(items)]
    some = unseen[:: max(1, len(unseen) // _TIMED)][:_TIMED]
    progress(f"timing {', '.join(configs)}, on {len(some)} prompts", 1, 2)
    frame = frame.join(_time(pair, configs, some))
    length = frame["length"].fillna(frame["decoded"])
    frame["speed"] = 1e3 * length / frame["ms"]
  drawn = config.static.proposal
  assert drawn
  notes = [
    f"wide tree: {wide!r}; tuned on {tuned_on.sum()} cycles of every other"
    f" prompt, measured on {len(items)} cycles of the other prompts"
  ]
  if not (drawn.nested and rule.by_path):
    notes.append(
      f"with {drawn.name} and {rule.name} a node's W may depend on"
      " the rest of the tree: lengths of smaller trees are approximations;"
      " trust the decoded ones"
    )
  return Tuned(
    name=f"tuned:{nodes}",
    trees=compared,
    frame=frame,
    check=check,
    settings=_settings(pair, config),
    notes=tuple(notes),
  )


def _means(cycles: Mapping[str, pd.DataFrame], name: str) -> pd.DataFrame:
  """Returns means by tree, with errors that are clustered by prompt."""
  table = pd.concat(cycles, names=["tree"]).reset_index("tree")
  means = stats.by_token(table, ["tree"], name)
  return means.set_axis([name, f"{name}_error", f"{name}_n"], axis=1)


def _wide(
  rule: Verifier, nodes: int, depth: int, largest: int, compared: list[Tree]
) -> Tree:
  """Returns the wide tree; raises UserError if it has too few nodes."""
  wide = choosing.wide(
    max(_LEAST, round(_TIMES * largest)),
    depth,
    # Far larger trees are only timed: they would make the wide tree slow.
    [tree for tree in compared if len(tree) <= 2 * _LEAST],
  )
  if rule.refuses and rule.refuses(wide):
    wide = tree_lib.chain(wide.max_depth)
  most = int((wide.depth <= depth).sum()) - 1
  if nodes > most:
    raise UserError(
      f"nodes={nodes}: {wide!r} has {most} drafted nodes of depth {depth} or"
      " less: give fewer, or a larger depth"
    )
  return wide


def _decode(pair: Pair, config: DecodeConfig, prompts: Sequence[Prompt]):
  """Returns W of all nodes in all cycles [C, N], the prompts [C], the check."""
  stops, items = [], []

  def step(batch: Batch) -> None:
    active = ~np.asarray(batch.state.done)
    drafted, p = batch.step()
    stopping = _stopping(config, drafted.tokens, drafted.q, p)
    stops.append(np.asarray(stopping)[active])
    items.append(batch.items[active])

  run = decode_all(pair, config, prompts, step=step)
  tree: Any = config.static.tree
  item = np.concatenate(items)
  order = np.argsort(item, kind="stable")
  return reach(tree, np.concatenate(stops)[order]), item[order], run.check


@functools.partial(jax.jit, static_argnums=0)
def _stopping(config: DecodeConfig, tokens, q, p):
  """Returns the stopping distributions [B, N] of drafted trees."""
  tree: Any = config.static.tree
  proposal: Any = config.static.proposal
  drafts = Draft(tree, proposal, tokens, tree_lib.to_all_nodes(tree, q), p)
  assert config.verifier
  return jax.vmap(config.verifier.stopping)(drafts)


def reach(tree: Tree, stop: np.ndarray) -> np.ndarray:
  """Sums stopping distributions [C, N] over each node and all below it."""
  return np.asarray(stop, np.float64) @ tree.ancestors.astype(np.float64)


def _settings(pair: Pair, config: DecodeConfig) -> dict:
  proposal = config.static.proposal
  assert proposal
  assert pair.draft
  # A proposal that only ranks tokens does not use a temperature.
  cooled = not proposal.ranks
  return {
    "verifier": config.name,
    "proposal": proposal.name,
    "temperature": config.temperature,
    "draft_temperature": config.draft_temperature if cooled else None,
    "draft_stop": config.sampling["draft_stop"],
    "target": reading.name_of(pair.target.source),
    "draft": reading.name_of(pair.draft.source),
    "device": jax.devices()[0].device_kind,
    "date": datetime.date.today().isoformat(),
  }


def _time(
  pair: Pair, configs: Mapping[str, DecodeConfig], prompts: Sequence[Prompt]
) -> pd.DataFrame:
  """Times configs in turn on each prompt, after warm-up, without prefill.

  Other work on the machine then slows all of them alike.

  Returns:
    By name the length, and the milliseconds of a cycle, a median over prompts.
  """
  longest = max(len(prompt.tokens) for prompt in prompts)
  answered, _ = time_in_turn(pair, configs, prompts, longest)
  cycles, times = {}, {}
  for name, answers in answered.items():
    gained = [answer.continuation.gained for answer in answers]
    counts = np.array([*map(len, gained)])
    items = np.repeat([prompt.item for prompt in prompts], counts)
    cycles[name] = pd.DataFrame(
      {"question": items, "decoded": np.concatenate(gained)}
    )
    seconds = np.array([answer.cycles for answer in answers])
    times[name] = 1e3 * float(np.median(seconds / counts))
  return _means(cycles, "decoded").assign(ms=pd.Series(times))
