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
from tv_jax.runs.timing import time_in_turn
from tv_jax.tree import Tree
from tv_jax.tune import choosing

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
    tree: The best tree of the requested size.
    frame: A row for plain decoding and each tree, by name. Columns: `tree`;
      `nodes`; `length`, the acceptance length on prompts that were not tuned
      on; `gain`, the length minus that of the chosen tree, on the same cycles.
      With times also `decoded`, the length when the tree itself decodes a few
      prompts; `ms` of a cycle; `speed` in tokens per second without prefill;
      `over_plain`, the ratio of speeds. Columns with _error have the standard
      errors of means, clustered by prompt.
    check: Realised minus expected length of the wide tree: 0 within its error.
    about: What the saved file says of the chosen tree: its length, the rule,
      the proposal and other options.
    notes: Limitations of these numbers.
  """

  tree: Tree
  frame: pd.DataFrame
  check: Estimate
  about: dict
  notes: tuple[str, ...]

  def __repr__(self) -> str:
    """Returns the frame, with the check and the notes below it."""
    title = "{verifier} with {proposal} at temperature {temperature:g}"
    parts = [
      title.format_map(self.about),
      self.frame.to_string(float_format="{:.3f}".format),
      f"check: realised - expected = {self.check:+.3f}",
      *self.notes,
    ]
    return "\n\n".join(parts)

  def save(self, path: str | os.PathLike) -> None:
    """Writes the chosen tree as a JSON file, which `tree=` reads."""
    content = {"parents": [*self.tree.parents], **self.about}
    disk.write_json(pathlib.Path(path), content)


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
  `depth` levels. They are compared with `trees`. `speed` is whether to time all
  trees. `options.tree` is ignored.

  Raises:
    UserError: An option is wrong, or the prompts are too few.
  """
  rule = verifiers.resolve(options.verifier)
  if not rule.offers:
    raise UserError(
      f"verifier {rule.name!r} has no stopping distribution to tune by: give a"
      " Verifier(offers=..)"
    )
  if rule.refuses and rule.refuses(tree_lib.EAGLE_SPARSE):
    raise UserError(
      f"verifier {rule.name!r} is defined for some trees only: give a rule for"
      " all trees"
    )

  def configure(**changes) -> DecodeConfig:
    return decode_config(pair, dataclasses.replace(options, **changes))

  compared: dict[str, Any] = {
    name: configure(tree=name).static.tree for name in trees
  }
  sizes = sorted({*sizes, nodes})
  least = max(_LEAST, round(_TIMES * sizes[-1]))
  wide = choosing.wide(least, depth, compared.values())
  most = int((wide.depth <= depth).sum()) - 1
  if nodes > most:
    raise UserError(
      f"nodes={nodes}: {wide!r} has {most} drafted nodes of depth {depth} or"
      " less: give fewer, or a larger depth"
    )
  config = configure(tree=wide)
  asked = read_prompts(pair, config, prompts, template=template)
  if len(asked) < 4 or len({tuple(x.tokens) for x in asked}) < len(asked):
    raise UserError(
      f"{len(asked)} prompts: give 4 or more, no two the same: half to tune on"
      " and half to measure on"
    )
  progress(f"decoding {len(asked)} prompts with {wide!r}")
  reached, items, check = _decode(pair, config, asked)
  tuned_on = np.isin(items, np.unique(items)[::2])
  values = np.where(wide.depth <= depth, reached[tuned_on].mean(0), -np.inf)
  best = choosing.best_nodes(wide, values)
  reached, items = reached[~tuned_on], items[~tuned_on]
  own = reached[:, best[nodes]].sum(axis=1)
  found = {
    f"tuned:{size}": choosing.part(wide, best[size])
    for size in sizes
    if size < len(best)
  }
  found |= compared
  rows = {PLAIN: _row(None, np.zeros_like(own), own, items)}
  for name, tree in found.items():
    gained = reached[:, choosing.places(wide, tree)].sum(axis=1)
    rows[name] = _row(tree, gained, own, items)
  frame = pd.DataFrame.from_dict(rows, orient="index")
  if speed:
    alone = {"batch_size": 1, "panel": None, "among": ()}
    configs = {PLAIN: configure(verifier=PLAIN, draft_stop=0.0, **alone)}
    for name, tree in found.items():
      configs[name] = configure(tree=tree, **alone)
    unseen = [asked[int(item)] for item in np.unique(items)]
    some = unseen[:: max(1, len(unseen) // _TIMED)][:_TIMED]
    progress(f"timing {', '.join(configs)}, on {len(some)} prompts")
    frame = frame.join(_time(pair, configs, some))
    frame["speed"] = 1e3 * frame["length"] / frame["ms"]
    frame["over_plain"] = frame["speed"] / frame["speed"][PLAIN]
  proposal: Any = config.static.proposal
  notes = [
    f"wide tree: {wide!r}; tuned on {tuned_on.sum()} cycles of every other"
    f" prompt, measured on {len(items)} cycles of the other prompts"
  ]
  if not (proposal.nested and rule.by_path):
    notes.append(
      f"with {proposal.name} and {rule.name} a node's W may depend on"
      " the rest of the tree: lengths of smaller trees are approximations;"
      " trust the decoded ones"
    )
  length = Estimate.clustered(1 + own, items)
  measured = {"length": length.mean, "error": length.error, "items": length.n}
  return Tuned(
    tree=found[f"tuned:{nodes}"],
    frame=frame,
    check=check,
    about={"measured": measured, **_describe(pair, config)},
    notes=tuple(notes),
  )


def _row(tree: Tree | None, gained, own, items) -> dict[str, Any]:
  """Returns a row of the frame from drafted tokens gained in each cycle [C].

  `own` is what the chosen tree gains, and `items` the cycles' prompts.
  """
  return {
    "tree": tree,
    "nodes": len(tree) - 1 if tree else 0,
    **_mean("length", 1 + gained, items),
    **_mean("gain", gained - own, items),
  }


def _mean(name: str, values: np.ndarray, items) -> dict[str, float]:
  """Returns the columns of a mean over cycles, clustered by prompt."""
  found = Estimate.clustered(values, items)
  return {name: found.mean, f"{name}_error": found.error}


def _decode(pair: Pair, config: DecodeConfig, prompts: Sequence[Prompt]):
  """Returns W of all nodes in all cycles [C, N], the prompts [C], the check."""
  stops, items = [], []

  def step(batch: Batch) -> None:
    active = ~np.asarray(batch.state.done)
    drafted, p = batch.step()
    stopping = _stopping(config, drafted.tokens, drafted.q, p)
    stops.append(np.asarray(stopping)[active])
    items.append(batch.items[active])

  run = decode_all(pair, config, prompts, progress=False, step=step)
  assert run.check
  tree: Any = config.static.tree
  return reach(tree, np.concatenate(stops)), np.concatenate(items), run.check


@functools.partial(jax.jit, static_argnums=0)
def _stopping(config: DecodeConfig, tokens, q, p):
  """Returns the stopping distributions [B, N] of drafted trees."""
  tree: Any = config.static.tree
  proposal: Any = config.static.proposal
  q = tree_lib.to_all_nodes(tree, q)
  assert config.verifier
  drafts = verifiers.Draft(tree, proposal, tokens, q, p)
  return jax.vmap(config.verifier.stopping)(drafts)


def reach(tree: Tree, stop: np.ndarray) -> np.ndarray:
  """Sums stopping distributions [C, N] over each node and all below it."""
  return np.asarray(stop, np.float64) @ tree.ancestors.astype(np.float64)


def _describe(pair: Pair, config: DecodeConfig) -> dict:
  """Describes the rule, the options, the models and the machine."""
  assert config.static.proposal
  assert pair.draft
  return {
    "verifier": config.name,
    "proposal": config.static.proposal.name,
    **config.sampling,
    "target": reading.name_of(pair.target.source),
    "draft": reading.name_of(pair.draft.source),
    "device": jax.devices()[0].device_kind,
    "date": datetime.date.today().isoformat(),
  }


def _time(
  pair: Pair, configs: Mapping[str, DecodeConfig], prompts: Sequence[Prompt]
) -> pd.DataFrame:
  """Returns the decoded length, and the median milliseconds of a cycle."""
  answered, _ = time_in_turn(pair, configs, prompts)
  rows = {}
  for name, answers in answered.items():
    gained = [answer.continuation.gained for answer in answers]
    counts = [*map(len, gained)]
    items = np.repeat(np.arange(len(gained)), counts)
    seconds = np.array([answer.cycles for answer in answers])
    rows[name] = {
      **_mean("decoded", np.concatenate(gained), items),
      "ms": 1e3 * float(np.median(seconds / counts)),
    }
  return pd.DataFrame.from_dict(rows, orient="index")
