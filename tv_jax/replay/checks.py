"""Arrays to cycles, or one line on what is wrong with them.

Axes: C cycles, N nodes, M nodes that have children, R verifiers of a panel,
V vocabulary, or what it was merged to.
"""

import itertools

import numpy as np

from tv_jax import probs
from tv_jax import tree as tree_lib
from tv_jax.edge import names, reading
from tv_jax.edge.reading import brief
from tv_jax.proposals import INVALID, PROPOSALS, Proposal, built_in
from tv_jax.replay.data import Cycles
from tv_jax.tree import Adaptive, Tree

# How far a row may sum from 1 before it is taken for something else.
TOLERANCE = 1e-3


@np.errstate(over="ignore", invalid="ignore")  # what is not finite is refused
def cycles(
  arrays: dict[str, np.ndarray], proposal: Proposal | None = None
) -> Cycles:
  """The cycles, or what is wrong with these arrays.

  What drew the siblings must be given if it is one of somebody's own: a file
  is data, and what it names is never imported.
  """
  needed = ("parents", "proposal", "tokens", "q", "p")
  missing = [name for name in needed if name not in arrays]
  if missing:
    raise ValueError(f"holds no {', '.join(map(repr, missing))}")
  tree, parents = _trees(arrays)
  proposal = _proposal(arrays, proposal)
  N, inner = len(tree), tree.inner
  tokens = _integers(
    arrays, "tokens", (None if parents is None else len(parents), N)
  )
  C = len(tokens)
  if not C:
    raise ValueError("holds no cycle")
  q, p = (_laws(arrays, name, C, N, inner) for name in ("q", "p"))
  if q.shape != p.shape or not q.shape[2]:
    raise ValueError(f"q has {q.shape[2]} tokens, and p {p.shape[2]}")
  of_each = np.asarray(tree.parents)[None] if parents is None else parents
  _check_tokens(of_each, proposal, tokens, q.shape[2])
  drawn = (tokens[:, inner] != INVALID) | (inner == tree_lib.ROOT)
  for name, laws in (("q", q), ("p", p)):
    _check_laws(name, laws, drawn, inner)
  each = np.arange(C)
  panel = _panel(arrays)
  if panel and np.shape(arrays.get("expected")) != (len(panel), C):
    raise ValueError(f"'expected' is not [{len(panel)}, {C}], as 'panel' asks")
  expected = (
    _lengths(arrays, "expected", (len(panel), C), tree) if panel else ()
  )
  temperature = _floats(arrays, "temperature", ())
  if temperature is not None:
    probs.check_temperature("temperature", float(temperature))
  return Cycles(
    tree=tree,
    proposal=proposal,
    tokens=tokens.astype(np.int32),
    q=q,
    p=p,
    parents=parents,
    item=_integers(arrays, "item", (C,)) if "item" in arrays else each,
    cycle=_integers(arrays, "cycle", (C,)) if "cycle" in arrays else each,
    verifier=_text(arrays, "verifier") if "verifier" in arrays else None,
    temperature=None if temperature is None else float(temperature),
    accepted=_lengths(arrays, "accepted", (C,), tree),
    expected=dict(zip(panel, expected, strict=True)),
    meta=_meta(arrays),
  )


def _trees(arrays) -> tuple[Tree | Adaptive, np.ndarray | None]:
  """The tree of all cycles; or what shaped them, and each one's parents."""
  if np.ndim(arrays["parents"]) < 2:
    parents = _integers(arrays, "parents", (None,))
    return tree_lib.from_parents(parents.tolist()), None
  missing = [name for name in ("widths", "most") if name not in arrays]
  if missing:
    raise ValueError(
      "'parents' has a row for each cycle, and then it needs"
      f" {', '.join(map(repr, missing))}"
    )
  widths = _integers(arrays, "widths", (None,)).tolist()
  shape = Adaptive(tuple(widths), int(_integers(arrays, "most", ())))
  parents = _integers(arrays, "parents", (None, len(shape)))
  wrong = parents[:, tree_lib.ROOT] != tree_lib.NO_PARENT
  if wrong.any():
    raise ValueError(
      f"cycle {wrong.argmax()}: node 0 must be the root: its parent is"
      f" {tree_lib.NO_PARENT}"
    )
  for above, level in itertools.pairwise(shape.levels):
    own = parents[:, level.start : level.stop]
    there = own != tree_lib.NO_PARENT
    wrong = there & ((own < above.start) | (own >= above.stop))
    wrong[:, 1:] |= there[:, 1:] & (~there[:, :-1] | (own[:, 1:] < own[:, :-1]))
    # A parent that is not there itself, or one with too many children.
    over = np.take_along_axis(parents, np.maximum(own, 0), axis=1)
    wrong |= there & (own > 0) & (over == tree_lib.NO_PARENT)
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


def _proposal(arrays, given) -> Proposal:
  """What drew the siblings: a built-in by name, or what was given."""
  name = _text(arrays, "proposal")
  if given is None:
    if own := built_in(name):
      return own
    raise ValueError(
      f"proposal {name!r}: not one of {', '.join(PROPOSALS)}; one's own must be"
      f" given: --proposals={name if names.is_foreign(name) else 'module:name'}"
    )
  if given.name != name:
    raise ValueError(f"siblings were drawn by {name!r}, not by {given.name!r}")
  return given


def _meta(arrays) -> dict:
  try:
    return reading.parse_object(str(arrays.get("meta", "{}")), "it")
  except ValueError:
    raise ValueError("'meta' is no JSON object") from None


def _panel(arrays) -> list[str]:
  panel = _texts(arrays, "panel", (None,)) if "panel" in arrays else []
  if len({*panel}) < len(panel):
    raise ValueError(f"'panel' is {brief(panel)}: give each rule once")
  return panel


def _text(arrays, name) -> str:
  return _texts(arrays, name, ())


def _texts(arrays, name, shape) -> str | list[str]:
  """Names, which are printed."""
  array = arrays[name]
  if array.dtype.kind != "U":
    raise ValueError(f"{name!r} is of {array.dtype}: give a text")
  array = _shaped(array, name, shape)
  for text in array.ravel().tolist():
    if text != reading.shown(text):
      raise ValueError(f"{name!r} is {brief(text)}: give a name to be printed")
  return array.tolist()


def _shaped(array, name, shape):
  if len(array.shape) != len(shape) or any(
    wanted not in (None, size)
    for wanted, size in zip(shape, array.shape, strict=True)
  ):
    wanted = ", ".join("any" if n is None else str(n) for n in shape)
    raise ValueError(f"{name!r} is {[*array.shape]}: it should be [{wanted}]")
  return array


def _integers(arrays, name, shape) -> np.ndarray:
  array = arrays[name]
  if array.dtype.kind not in "iu":
    raise ValueError(f"{name!r} is of {array.dtype}: give integers")
  if (largest := array.max(initial=0)) > np.iinfo(np.int64).max:
    raise ValueError(f"{name!r} holds {largest}: give integers of 64 bits")
  return _shaped(array, name, shape).astype(np.int64)


def _floats(arrays, name, shape) -> np.ndarray | None:
  if name not in arrays:
    return None
  array = arrays[name]
  if array.dtype.kind not in "iuf":
    raise ValueError(f"{name!r} is of {array.dtype}: give numbers")
  found = _shaped(array, name, shape).astype(np.float32)
  for place in np.argwhere(~np.isfinite(found))[:1]:
    raise ValueError(
      f"{name!r} holds {array[tuple(place)]}, at {place.tolist()}: give finite"
      " numbers"
    )
  return found


def _lengths(arrays, name, shape, tree) -> np.ndarray | None:
  """Tokens gained: from the bonus token alone to one more than levels."""
  found, most = _floats(arrays, name, shape), tree.max_depth + 1
  if found is not None:
    wrong = (found < 1 - TOLERANCE) | (found > most * (1 + TOLERANCE))
    for place in np.argwhere(wrong)[:1]:
      raise ValueError(
        f"{name!r} holds {found[tuple(place)]:g}, at {place.tolist()}: a cycle"
        f" of this tree gains 1 to {most} tokens"
      )
  return found


def _laws(arrays, name, C, N, inner) -> np.ndarray:
  """[C, M, V] float32: rows of leaves are dropped."""
  laws = arrays[name]
  if laws.dtype.kind != "f":
    raise ValueError(f"{name!r} is of {laws.dtype}: give floats")
  if laws.ndim != 3 or len(laws) != C or laws.shape[1] not in (N, len(inner)):
    raise ValueError(
      f"{name!r} is {[*laws.shape]}: it should be [{C}, {N}, V], or"
      f" [{C}, {len(inner)}, V] for the nodes that have children"
    )
  laws = laws[:, inner] if laws.shape[1] == N else laws
  return laws.astype(np.float32, copy=False)


def _check_tokens(parents, proposal, tokens, V):
  """Refuses tokens [C, N] that cannot have been drawn.

  The parents are [C, N], or [1, N] if all have the same.
  """
  tokens[:, tree_lib.ROOT] = 0
  wrong = (tokens != INVALID) & ((tokens < 0) | (tokens >= V))
  for cycle, node in np.argwhere(wrong)[:1]:
    raise ValueError(
      f"cycle {cycle}, node {node}: token {tokens[cycle, node]}; tokens are 0"
      f" to {V - 1}, or {INVALID} where there was none to draw"
    )
  parents = np.broadcast_to(parents, tokens.shape)
  nowhere = (parents == tree_lib.NO_PARENT) & (tokens != INVALID)
  nowhere[:, tree_lib.ROOT] = False
  for cycle, node in np.argwhere(nowhere)[:1]:
    raise ValueError(f"cycle {cycle}, node {node}: a token, but no parent")
  over = np.maximum(parents, tree_lib.ROOT)
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


def _check_laws(name, laws, drawn, inner):
  total = laws.sum(axis=2, dtype=np.float64)
  least = laws.min(axis=2)
  wrong = drawn & ~((np.abs(total - 1) <= TOLERANCE) & (least >= 0))
  for cycle, place in np.argwhere(wrong)[:1]:
    raise ValueError(
      f"cycle {cycle}: {name} after node {inner[place]} is no law (it sums to"
      f" {total[cycle, place]:.6g}, and its least is {least[cycle, place]:.3g})"
    )
