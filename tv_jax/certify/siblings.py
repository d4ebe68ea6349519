"""Whether `laws` and the fields of a proposal say what `following` says.

`Proposal.following` is the definition: how each of k siblings is drawn from a
law q, given its elders. From it come all tuples of siblings, each with its
chance, and on each of them the others are held against it.

Axes: T tuples, K siblings, V vocabulary.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import NamedTuple

import jax
import numpy as np

from tv_jax.certify import compiling, drafts, exact, words
from tv_jax.proposals import INVALID, Proposal

# Ways to draw a family, above which it is not looked at.
WAYS = 5000
# A law of the next sibling sums to 1 but for the rounding of a float32 q.
_SUM = 1e-5
# Tuples whose laws a compiled call computes at once.
_CHUNK = 128
# Below this probability an error counts as an absolute one.
_FLOOR = 1e-3


class Family(NamedTuple):
  """All ways to draw k siblings from one law."""

  q: np.ndarray  # [V] float64
  k: int
  tokens: np.ndarray  # [T, k] int32
  chance: np.ndarray  # [T]
  steps: np.ndarray  # [T, k, V] what each sibling was drawn from; 0 for none

  def table(self, length: int | None = None) -> dict[tuple, float]:
    """Returns the chance of each tuple of the first `length` siblings."""
    law: dict[tuple, float] = {}
    for drawn, chance in zip(self.tokens.tolist(), self.chance, strict=True):
      begun = tuple(drawn[:length])
      law[begun] = law.get(begun, 0.0) + float(chance)
    return law

  @property
  def held(self) -> np.ndarray:
    """Returns [T, V] which tokens the siblings of each tuple hold."""
    return (self.tokens[..., None] == np.arange(len(self.q))).any(axis=1)


def family(proposal: Proposal, q: np.ndarray, k: int) -> Family | None:
  """Enumerates `following`; None if there are too many ways to draw.

  Raises:
    ValueError: It gives no laws.
  """
  q = q.astype(float)
  q.setflags(write=False)

  def following(drawn):
    step = np.asarray(proposal.following(q, drawn, k))
    what = f"following(q, {words.siblings(drawn)}, {k}) for q = {words.row(q)}"
    if step.shape != q.shape:
      raise ValueError(f"{what} has shape {list(step.shape)}, not [{len(q)}]")
    sums = not step.any() or abs(step.sum() - 1) < _SUM
    if not (sums and (step >= 0).all()):
      raise ValueError(
        f"{what} is {words.row(step)}: no law, and not all zeros"
      )
    return step.astype(float)

  drawn = drafts.siblings(following, k, WAYS)
  if drawn is None:
    return None
  tokens, chance, steps = zip(*drawn, strict=True)
  tokens = np.array(tokens, np.int32)
  return Family(q, k, tokens, np.array(chance), np.array(steps))


def faults(
  proposal: Proposal, ways: Family, dtype, seen: list
) -> Iterator[str]:
  """Yields what is wrong, and adds the errors of laws to `seen`."""
  compiled = _compiled(proposal)
  for width in (ways.k, ways.k + 2):
    law = functools.partial(jax.ShapeDtypeStruct, dtype=dtype)
    exists = jax.ShapeDtypeStruct((width,), bool)
    returned = jax.eval_shape(proposal.laws, law((width,)), law(()), exists)
    kinds = [(x.shape, x.dtype) for x in jax.tree.leaves(returned)]
    if kinds != [((width,), dtype), ((width, width), dtype)]:
      gives = ", ".join(f"{kind}{list(shape)}" for shape, kind in kinds)
      name = np.dtype(dtype).name
      yield f"laws gives {gives}, not {name}[{width}], {name}[{width}, {width}]"
      return
    full = _written_out(compiled, ways, width, dtype)
    if full is None:
      yield f"laws of {ways.k} siblings hold a NaN or an infinity"
      return
    error = abs(full - ways.steps) / np.maximum(ways.steps, _FLOOR)
    drawn = (ways.tokens != INVALID)[..., None]
    error = np.where(drawn, error, 0).max(axis=-1)
    seen.append(float(error.max()))
    if error.max() > exact.tolerance(dtype):
      row, j = np.unravel_index(error.argmax(), error.shape)
      padded = f", padded by {width - ways.k} absent siblings"
      yield (
        f"the law of sibling {j + 1} of {words.siblings(ways.tokens[row])} from"
        f" q = {words.row(ways.q)} is {words.row(full[row, j])} by laws, and"
        f" {words.row(ways.steps[row, j])} by following"
        f"{padded * (width > ways.k)}"
      )
      return
  if unread := min(proposal.rest_from, ways.k):
    other = _written_out(compiled, ways, width, dtype, rest=0.123)
    if other is None or (other[:, :unread] != full[:, :unread]).any():
      yield (
        f"rest_from={proposal.rest_from}, but laws of the first {unread}"
        " siblings change with rest"
      )
  yield from _broken_promises(proposal, ways)


@functools.lru_cache(maxsize=16)
def _compiled(proposal):
  return compiling.jit(jax.vmap(proposal.laws))


def _written_out(compiled, ways: Family, width: int, dtype, rest=None):
  """Returns the laws [T, k, V] by `laws`; None if a number is not finite.

  Args:
    compiled: `laws` of many tuples.
    ways: The tuples.
    width: K; the siblings beyond k are not there.
    dtype: Of the numbers.
    rest: In place of the mass of q off the tokens.
  """
  more = ((0, 0), (0, width - ways.k))
  tokens = np.pad(ways.tokens, more, constant_values=INVALID)
  exists = tokens != INVALID
  off = np.where(ways.held, 0, ways.q).sum(axis=1)
  off = off if rest is None else np.full_like(off, rest)
  # Pieces are of one size, so that each K needs one program.
  scale, at = compiling.in_pieces(
    compiled,
    _CHUNK,
    np.where(exists, ways.q[tokens], 0).astype(dtype),
    off.astype(dtype),
    exists,
  )
  if not (np.isfinite(scale).all() and np.isfinite(at).all()):
    return None
  full = scale.astype(float)[:, : ways.k, None] * ways.q
  for i in range(ways.k):
    row = np.flatnonzero(exists[:, i])
    full[row, :, tokens[row, i]] = at.astype(float)[row, : ways.k, i]
  return full


def _broken_promises(proposal: Proposal, ways: Family) -> Iterator[str]:
  """Yields what the fields say that `following` does not."""
  at = f"{ways.k} siblings from q = {words.row(ways.q)}"
  if proposal.distinct:
    for drawn in ways.tokens:
      held = drawn[drawn != INVALID]
      if len({*held.tolist()}) < len(held):
        yield f"distinct=True, but {at} can be {words.siblings(drawn)}"
        break
  if proposal.nested and ways.k > 1:
    fewer = family(proposal, ways.q, ways.k - 1)
    if difference := _difference(ways.table(ways.k - 1), fewer):
      yield (
        f"nested=True, but the first {ways.k - 1} of {at} are not drawn as"
        f" {ways.k - 1} are: {difference}"
      )
  if proposal.ranks:
    squared = ways.q**2 / (ways.q**2).sum()
    other = family(proposal, squared, ways.k)
    if difference := _difference(ways.table(), other):
      yield (
        f"ranks=True, but {at} are drawn otherwise where q is squared, which"
        f" ranks its tokens alike: {difference}"
      )


def _difference(table, family):
  other = family.table()
  for drawn in {**table, **other}:
    a, b = table.get(drawn, 0.0), other.get(drawn, 0.0)
    if abs(a - b) > _SUM:
      return f"{words.siblings(drawn)} has chance {a:.6g}, and {b:.6g}"
  return None
