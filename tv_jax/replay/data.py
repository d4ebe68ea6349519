"""Drafted trees with both models' laws on them.

Axes: C cycles, N nodes, M nodes that have children, R verifiers of a panel,
V vocabulary, or what it was merged to.
"""

import dataclasses
import itertools

import numpy as np

from tv_jax import probs
from tv_jax import tree as tree_lib
from tv_jax.edge import checks, names, reading
from tv_jax.proposals import INVALID, PROPOSALS, Proposal
from tv_jax.tree import NO_PARENT, ROOT, Adaptive, Tree

# How far a row may sum from 1 before it is taken for something else.
TOLERANCE = 1e-3


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Cycles:
  """What was drafted, and both models' laws on it.

  Attributes:
    tree: Of all cycles, or what shaped another one in each.
    proposal: How siblings were drawn.
    tokens: [C, N] int32; the root's is ignored.
    q: [C, M, V] float32 draft laws.
    p: [C, M, V] float32 target laws.
    parents: [C, N] of each cycle, if they have trees of their own.
    item: [C] the prompt's number; by default each cycle is an item of its own.
    cycle: [C] its place in the prompt's answer.
    verifier: What ran, if anything did.
    temperature: Of the target.
    accepted: [C] tokens gained, if anything ran.
    expected: [C] by verifier, as computed before laws were merged.
    meta: Anything that JSON can say.
  """

  tree: Tree | Adaptive
  proposal: Proposal
  tokens: np.ndarray
  q: np.ndarray
  p: np.ndarray
  item: np.ndarray
  cycle: np.ndarray
  parents: np.ndarray | None = None
  verifier: str | None = None
  temperature: float | None = None
  accepted: np.ndarray | None = None
  expected: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
  meta: dict = dataclasses.field(default_factory=dict)

  def __len__(self) -> int:
    """Returns C."""
    return len(self.tokens)


@np.errstate(over="ignore", invalid="ignore")  # what is not finite is refused
def from_arrays(
  arrays: dict[str, np.ndarray], proposal: Proposal | None = None
) -> Cycles:
  """Makes cycles of a file's arrays.

  Args:
    arrays: By the names of docs/replay.md.
    proposal: What drew the siblings, if it is one of somebody's own: a file is
      data, and what it names is never imported.

  Raises:
    ValueError: In one line, what is wrong with them.
  """
  required = ("parents", "proposal", "tokens", "q", "p")
  anything = checks.fields(dict.fromkeys(required, checks.anything))
  checks.read(anything, arrays)
  tree, parents = _trees(arrays)
  (C, *_) = (*arrays["tokens"].shape, 0)
  R = arrays["panel"].size if "panel" in arrays else 0
  if not C:
    raise ValueError("holds no cycle")
  laws, lengths = _laws_of(tree, C), _lengths_of(tree, C)
  known = checks.fields(
    {
      "proposal": _name(),
      "tokens": checks.array("integers", C, len(tree)),
      "q": laws,
      "p": laws,
      **({"expected": _lengths_of(tree, R, C)} if R else {}),
    },
    item=checks.array("integers", C),
    cycle=checks.array("integers", C),
    verifier=_name(),
    temperature=checks.array("numbers"),
    accepted=lengths,
    panel=_name(None),
  )
  found = {"item": np.arange(C), "cycle": np.arange(C)}
  found |= checks.read(known, arrays)
  proposal = _proposal(found.pop("proposal"), proposal)
  q, p, tokens = (found[name] for name in ("q", "p", "tokens"))
  if q.shape != p.shape or not q.shape[2]:
    raise ValueError(f"q has {q.shape[2]} tokens, and p {p.shape[2]}")
  above = parents if isinstance(tree, Adaptive) else np.array([tree.parents])
  _check_tokens(above, proposal, tokens, q.shape[2])
  for name in ("q", "p"):
    _check_laws(name, found[name], tokens, tree.inner)
  panel = found.pop("panel", np.array([])).tolist()
  if len({*panel}) < len(panel):
    raise ValueError(f"panel is {reading.brief(panel)}: give each rule once")
  expected = dict(zip(panel, found.pop("expected", ()), strict=True))
  if (temperature := found.pop("temperature", None)) is not None:
    temperature = float(temperature)
    probs.check_temperature("temperature", temperature)
  if (verifier := found.pop("verifier", None)) is not None:
    verifier = str(verifier)
  try:
    meta = reading.parse_object(str(arrays.get("meta", "{}")), "it")
  except ValueError:
    raise ValueError("meta is no JSON object") from None
  return Cycles(
    **found | {"tokens": tokens.astype(np.int32)},
    tree=tree,
    proposal=proposal,
    parents=parents,
    verifier=verifier,
    temperature=temperature,
    expected=expected,
    meta=meta,
  )


def _trees(arrays) -> tuple[Tree | Adaptive, np.ndarray | None]:
  """The tree of all cycles; or what shaped them, and each one's parents."""
  parents = arrays["parents"]
  if parents.ndim < 2:
    checks.read(checks.array("integers", None), parents, "parents")
    return tree_lib.from_parents(parents.tolist()), None
  if missing := [name for name in ("widths", "most") if name not in arrays]:
    raise ValueError(
      "parents has a row for each cycle, and then it needs"
      f" {' and '.join(missing)}"
    )
  known = checks.fields(
    {
      "widths": checks.array("integers", None),
      "most": checks.array("integers"),
    }
  )
  found = checks.read(known, arrays)
  shape = Adaptive(tuple(found["widths"].tolist()), int(found["most"]))
  whole = checks.array("integers", None, len(shape))
  parents = checks.read(whole, parents, "parents")
  for cycle in np.flatnonzero(parents[:, ROOT] != NO_PARENT)[:1]:
    raise ValueError(
      f"cycle {cycle}: node 0 must be the root: its parent is {NO_PARENT}"
    )
  for above, level in itertools.pairwise(shape.levels):
    own = parents[:, level.start : level.stop]
    there = own != NO_PARENT
    wrong = there & ((own < above.start) | (own >= above.stop))
    wrong[:, 1:] |= there[:, 1:] & (~there[:, :-1] | (own[:, 1:] < own[:, :-1]))
    # A parent that is not there itself, or one with too many children.
    over = np.take_along_axis(parents, np.maximum(own, 0), axis=1)
    wrong |= there & (own > 0) & (over == NO_PARENT)
    k = shape.most
    wrong[:, k:] |= there[:, k:] & (
      own[:, k:] == own[:, : max(own.shape[1] - k, 0)]
    )
    for cycle, place in np.argwhere(wrong)[:1]:
      raise ValueError(
        f"cycle {cycle}, node {level.start + place}: parent"
        f" {own[cycle, place]} makes no tree in level order of these widths"
      )
  return shape, parents.astype(np.int32)


def _proposal(name, given) -> Proposal:
  """Returns what drew the siblings: a built-in by name, or what was given."""
  name = str(name)
  if given is None:
    if name in PROPOSALS:
      return PROPOSALS[name]
    raise ValueError(
      f"proposal {name!r}: not one of {', '.join(PROPOSALS)}; one's own must be"
      f" given: --proposals={name if names.is_foreign(name) else 'module:name'}"
    )
  if given.name != name:
    raise ValueError(f"siblings were drawn by {name!r}, not by {given.name!r}")
  return given


def _name(*shape: int | None) -> checks.Check:
  """Checks names, which are printed."""
  texts = checks.array("texts", *shape)

  def check(value, where, faults):
    if (found := texts(value, where, faults)) is None:
      return None
    for text in found.ravel().tolist():
      if text != reading.shown(text):
        checks.refuse(where, text, "a name that can be printed", faults)
    return found

  return check


def _lengths_of(tree, *shape: int) -> checks.Check:
  """Checks tokens gained: the bonus token alone, to one more than levels."""
  numbers, most = checks.array("numbers", *shape), tree.max_depth + 1

  def check(value, where, faults):
    if (found := numbers(value, where, faults)) is None:
      return None
    wrong = (found < 1 - TOLERANCE) | (found > most * (1 + TOLERANCE))
    for place in np.argwhere(wrong)[:1]:
      faults.append(
        f"{where} holds {found[tuple(place)]:g}, at {place.tolist()}: a cycle"
        f" of this tree gains 1 to {most} tokens"
      )
    return found.astype(np.float32)

  return check


def _laws_of(tree, C: int) -> checks.Check:
  """Checks laws [C, M, V], or [C, N, V], of which leaves' rows are dropped."""
  inner = checks.array("floats", C, len(tree.inner), None)
  either = checks.either(inner, checks.array("floats", C, len(tree), None))

  def check(value, where, faults):
    if (laws := either(value, where, faults)) is None:
      return None
    whole = laws.shape[1] > len(tree.inner)
    laws = laws[:, tree.inner] if whole else laws
    return laws.astype(np.float32, copy=False)

  return check


def _check_tokens(parents, proposal, tokens, V):
  """Refuses tokens [C, N] that cannot have been drawn.

  The parents are [C, N], or [1, N] if all have the same.
  """
  tokens[:, ROOT] = 0
  wrong = (tokens != INVALID) & ((tokens < 0) | (tokens >= V))
  for cycle, node in np.argwhere(wrong)[:1]:
    raise ValueError(
      f"cycle {cycle}, node {node}: token {tokens[cycle, node]}; tokens are 0"
      f" to {V - 1}, or {INVALID} where there was none to draw"
    )
  parents = np.broadcast_to(parents, tokens.shape)
  nowhere = (parents == NO_PARENT) & (tokens != INVALID)
  nowhere[:, ROOT] = False
  for cycle, node in np.argwhere(nowhere)[:1]:
    raise ValueError(f"cycle {cycle}, node {node}: a token, but no parent")
  over = np.maximum(parents, ROOT)
  above = np.take_along_axis(tokens, over, axis=1)
  for cycle, node in np.argwhere((above == INVALID) & (tokens != INVALID))[:1]:
    raise ValueError(
      f"cycle {cycle}, node {node}: a token below node {parents[cycle, node]},"
      f" which has none ({INVALID})"
    )
  if not proposal.distinct:
    return
  for node in range(1, tokens.shape[1]):
    elders = slice(1, node)
    twins = parents[:, elders] == parents[:, [node]]
    twins &= tokens[:, elders] == tokens[:, [node]]
    twins = twins.any(axis=1) & (tokens[:, node] != INVALID)
    for cycle in np.flatnonzero(twins)[:1]:
      raise ValueError(
        f"cycle {cycle}, node {node}: token {tokens[cycle, node]} is an elder"
        f" sibling's; {proposal.name} draws no token twice"
      )


def _check_laws(name, laws, tokens, inner):
  """Refuses what is no law, after nodes that were drawn."""
  total = laws.sum(axis=2, dtype=np.float64)
  least = laws.min(axis=2)
  wrong = ~((np.abs(total - 1) <= TOLERANCE) & (least >= 0))
  wrong &= (tokens[:, inner] != INVALID) | (inner == ROOT)
  for cycle, place in np.argwhere(wrong)[:1]:
    raise ValueError(
      f"cycle {cycle}: {name} after node {inner[place]} is no law (it sums to"
      f" {total[cycle, place]:.6g}, and its least is {least[cycle, place]:.3g})"
    )
