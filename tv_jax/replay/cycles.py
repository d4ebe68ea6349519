"""Recorded cycles: drafted trees with both models' distributions, in a file.

Axes: C cycles, N nodes, M nodes that have children, V vocabulary.
"""

import dataclasses
import json
from typing import Any

import numpy as np

from tv_jax import tree as tree_lib
from tv_jax import verifiers
from tv_jax.io import disk
from tv_jax.io.errors import UserError
from tv_jax.proposals import INVALID, PROPOSALS, Proposal
from tv_jax.tree import ROOT, Tree
from tv_jax.verifiers import Draft

_REQUIRED = ("parents", "proposal", "tokens", "q", "p")
_SCALARS = {
  "verifier": str,
  "temperature": float,
  "meta": lambda text: json.loads(str(text)),
}
_OPTIONAL = ("item", "cycle", "accepted", "coins", *_SCALARS)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Cycles:
  """The drafts of some cycles, and both models' distributions.

  Attributes:
    tree: The tree of every cycle.
    proposal: How siblings were drawn.
    tokens: [C, N] int32 token ids; the root's is ignored.
    q: [C, M, V] float32 draft distributions.
    p: [C, M, V] float32 target distributions.
    item: [C] number of the prompt; by default each cycle is an item.
    cycle: [C] number of the cycle in the prompt's answer; by default its index.
    verifier: Name of the rule that ran, if any.
    temperature: Temperature of the target.
    accepted: [C] tokens gained, if a rule ran.
    coins: [C, N] uniforms that this rule compared with its thresholds.
    meta: Other information, as JSON.
  """

  tree: Tree
  proposal: Proposal
  tokens: np.ndarray
  q: np.ndarray
  p: np.ndarray
  item: np.ndarray
  cycle: np.ndarray
  verifier: str | None = None
  temperature: float | None = None
  accepted: np.ndarray | None = None
  coins: np.ndarray | None = None
  meta: dict = dataclasses.field(default_factory=dict)

  def __len__(self) -> int:
    """Returns C."""
    return len(self.tokens)

  def draft(self, cycle: int) -> Draft:
    """Returns a cycle's draft. Rows of leaves are arbitrary."""
    q, p = (
      tree_lib.to_all_nodes(self.tree, laws[cycle]) for laws in (self.q, self.p)
    )
    return Draft(self.tree, self.proposal, self.tokens[cycle], q, p)


def save(path, cycles: Cycles) -> None:
  """Writes a file atomically; docs/rules.md describes the format."""
  arrays = {
    "parents": np.array(cycles.tree.parents, np.int32),
    "proposal": cycles.proposal.name,
    "meta": json.dumps(cycles.meta),
  }
  for name in (*_REQUIRED, *_OPTIONAL):
    if name not in arrays and (value := getattr(cycles, name)) is not None:
      arrays[name] = value
  with disk.atomic_open(path) as file:
    np.savez_compressed(file, **arrays)


def load(path, proposal: Proposal | None = None) -> Cycles:
  """Reads and checks a file from `record` or from another program.

  Args:
    path: The file.
    proposal: The proposal, if it is not built in. The name in the file is never
      imported.

  Raises:
    ValueError: The file is wrong; the message names the cycle and node.
  """
  with open(path, "rb") as raw:
    try:
      with np.load(raw, allow_pickle=False) as file:
        names = {*_REQUIRED, *_OPTIONAL} & {*file}
        arrays = {name: file[name] for name in names}
    except Exception as error:  # a damaged file may raise anything
      raise UserError(f"{path}: no .npz file, or cut short ({error})") from None
  try:
    return _from_arrays(arrays, proposal)
  except ValueError as error:
    raise UserError(f"{path}: {error}") from None


def _from_arrays(arrays: dict, proposal: Proposal | None) -> Cycles:
  if missing := [name for name in _REQUIRED if name not in arrays]:
    raise UserError(f"has no {' and no '.join(missing)}")
  tree = tree_lib.from_parents(arrays["parents"].tolist())
  N, M = len(tree), len(tree.inner)
  for name in ("q", "p"):  # rows of leaves are never read
    if arrays[name].ndim == 3 and arrays[name].shape[1] == N:
      arrays[name] = arrays[name][:, tree.inner]
  C, V = len(arrays["tokens"]), arrays["q"].shape[-1]
  for name, dtype, shape in (
    ("tokens", np.int32, (C, N)),
    ("q", np.float32, (C, M, V)),
    ("p", np.float32, (C, M, V)),
    ("item", np.int64, (C,)),
    ("cycle", np.int64, (C,)),
    ("accepted", np.float32, (C,)),
    ("coins", np.float32, (C, N)),
  ):
    if name not in arrays:
      continue
    array = arrays[name]
    if array.shape != shape or not array.size:
      is_now = f"{array.dtype}{[*array.shape]}"
      raise UserError(f"{name} is {is_now}: give numbers {[*shape]}")
    arrays[name] = array.astype(dtype, copy=False)
  name, numbers = str(arrays.pop("proposal")), np.arange(C)
  proposal = proposal or PROPOSALS.get(name)
  if proposal is None or proposal.name != name:
    raise UserError(
      f"siblings were drawn by {name!r}: give that proposal, --proposals={name}"
    )
  del arrays["parents"]
  fields: dict[str, Any] = {"item": numbers, "cycle": numbers} | arrays
  for name, parse in _SCALARS.items():
    if name in fields:
      fields[name] = parse(fields[name])
  cycles = Cycles(tree=tree, proposal=proposal, **fields)
  _check(cycles)
  return cycles


def _check(cycles: Cycles) -> None:
  """Refuses impossible drafts and lengths, naming the cycle and the node."""
  tree, tokens = cycles.tree, cycles.tokens
  tokens[:, ROOT] = 0
  verifiers.check_drafts(tree, tokens, cycles.q, cycles.p)
  for node in range(1, len(tree)) if cycles.proposal.distinct else ():
    elders = tokens[:, node - tree.rank[node] : node]  # siblings are adjacent
    twin = (elders == tokens[:, [node]]) & (tokens[:, [node]] != INVALID)
    for cycle in np.flatnonzero(twin.any(axis=1))[:1]:
      raise UserError(
        f"cycle {cycle}, node {node}: its token is an elder sibling's too"
      )
  accepted, most = cycles.accepted, tree.max_depth + 1
  if accepted is not None and not ((accepted >= 1) & (accepted <= most)).all():
    raise UserError(f"accepted: a cycle of this tree gains 1 to {most} tokens")
