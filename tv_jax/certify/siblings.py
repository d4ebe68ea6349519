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

  found = drafts.siblings(following, k, WAYS)
  if found is None:
    return None
  tokens, chance, steps = zip(*found, strict=True)
  tokens = np.array(tokens, np.int32)
  return Family(q, k, tokens, np.array(chance), np.array(steps))


def faults(proposal: Proposal, own: Family, dtype, seen: list) -> Iterator[str]:
  """Yields what is wrong, and adds the errors of laws to `seen`."""
  if told := _misshapen(own):
    yield told
    return
  compiled = _compiled(proposal)
  for width in (own.k, own.k + 2):
    law = functools.partial(jax.ShapeDtypeStruct, dtype=dtype)
    exists = jax.ShapeDtypeStruct((width,), bool)
    given = jax.eval_shape(proposal.laws, law((width,)), law(()), exists)
    kinds = [(x.shape, x.dtype) for x in jax.tree.leaves(given)]
    if kinds != [((width,), dtype), ((width, width), dtype)]:
      told = ", ".join(f"{kind}{list(shape)}" for shape, kind in kinds)
      name = np.dtype(dtype).name
      yield f"laws gives {told}, not {name}[{width}], {name}[{width}, {width}]"
      return
    full = _written_out(compiled, own, width, dtype)
    if full is None:
      yield f"laws of {own.k} siblings hold a NaN or an infinity"
      return
    error = abs(full - own.steps) / np.maximum(own.steps, _FLOOR)
    drawn = (own.tokens != INVALID)[..., None]
    error = np.where(drawn, error, 0).max(axis=-1)
    seen.append(float(error.max()))
    if error.max() > exact.tolerance(dtype):
      row, j = np.unravel_index(error.argmax(), error.shape)
      padded = f", padded by {width - own.k} absent siblings"
      yield (
        f"the law of sibling {j + 1} of {words.siblings(own.tokens[row])} from"
        f" q = {words.row(own.q)} is {words.row(full[row, j])} by laws, and"
        f" {words.row(own.steps[row, j])} by following"
        f"{padded * (width > own.k)}"
      )
      return
  if unread := min(proposal.rest_from, own.k):
    other = _written_out(compiled, own, width, dtype, rest=0.123)
    if other is None or (other[:, :unread] != full[:, :unread]).any():
      yield (
        f"rest_from={proposal.rest_from}, but laws of the first {unread}"
        " siblings change with rest"
      )
  yield from _broken_promises(proposal, own)


def _misshapen(own: Family) -> str | None:
  """Says where a law is no multiple of q off the siblings' own tokens."""
  with np.errstate(divide="ignore", invalid="ignore"):
    ratio = own.steps / own.q  # NaN where both are 0
  ratio = np.where(own.held[:, None], np.nan, ratio)
  high = np.fmax.reduce(ratio, axis=-1, initial=-1.0)
  low = np.fmin.reduce(ratio, axis=-1, initial=np.inf)
  wrong = np.isinf(high) | ((high > low) & ~(high - low <= 1e-9 * high))
  for row, j in np.argwhere(wrong)[:1]:
    return (
      f"the law of sibling {j + 1} of {words.siblings(own.tokens[row])},"
      f" {words.row(own.steps[row, j])}, is no multiple of q ="
      f" {words.row(own.q)} off their tokens: no rule here can verify such"
      " siblings, as all of them rely on q_j = scale_j q there"
    )
  return None


@functools.lru_cache(maxsize=16)
def _compiled(proposal):
  return compiling.jit(jax.vmap(proposal.laws))


def _written_out(compiled, own: Family, width: int, dtype, rest=None):
  """Returns the laws [T, k, V] by `laws`; None if a number is not finite.

  Args:
    compiled: `laws` of many tuples.
    own: The tuples.
    width: K; the siblings beyond k are not there.
    dtype: Of the numbers.
    rest: In place of the mass of q off the tokens.
  """
  more = ((0, 0), (0, width - own.k))
  tokens = np.pad(own.tokens, more, constant_values=INVALID)
  exists = tokens != INVALID
  off = np.where(own.held, 0, own.q).sum(axis=1)
  off = off if rest is None else np.full_like(off, rest)
  # Pieces are of one size, so that each K needs one program.
  scale, at = compiling.in_pieces(
    compiled,
    _CHUNK,
    np.where(exists, own.q[tokens], 0).astype(dtype),
    off.astype(dtype),
    exists,
  )
  if not (np.isfinite(scale).all() and np.isfinite(at).all()):
    return None
  full = scale.astype(float)[:, : own.k, None] * own.q
  for i in range(own.k):
    row = np.flatnonzero(exists[:, i])
    full[row, :, tokens[row, i]] = at.astype(float)[row, : own.k, i]
  return full


def _broken_promises(proposal: Proposal, own: Family) -> Iterator[str]:
  """Yields what the fields say that `following` does not."""
  at = f"{own.k} siblings from q = {words.row(own.q)}"
  if proposal.distinct:
    for drawn in own.tokens:
      held = drawn[drawn != INVALID]
      if len({*held.tolist()}) < len(held):
        yield f"distinct=True, but {at} can be {words.siblings(drawn)}"
        break
  if proposal.nested and own.k > 1:
    fewer = family(proposal, own.q, own.k - 1)
    if told := _difference(own.table(own.k - 1), fewer):
      yield (
        f"nested=True, but the first {own.k - 1} of {at} are not drawn as"
        f" {own.k - 1} are: {told}"
      )
  if proposal.ranks:
    squared = own.q**2 / (own.q**2).sum()
    if told := _difference(own.table(), family(proposal, squared, own.k)):
      yield (
        f"ranks=True, but {at} are drawn otherwise where q is squared, which"
        f" ranks its tokens alike: {told}"
      )


def _difference(one, family):
  other = family.table()
  for drawn in {**one, **other}:
    a, b = one.get(drawn, 0.0), other.get(drawn, 0.0)
    if abs(a - b) > _SUM:
      return f"{words.siblings(drawn)} has chance {a:.6g}, and {b:.6g}"
  return None
