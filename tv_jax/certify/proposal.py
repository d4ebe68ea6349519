"""The certificate of a proposal: `draw`, `following` and `laws` agree.

`Proposal.following` is the definition: the law of each of k siblings, given a
law q and the elder siblings. It gives the probability of every tuple of
siblings. `laws` and the proposal's fields are compared with it on every tuple.
The exact check of a rule uses `laws` and `following`, but a run calls `draw`.

So draws are counted over many keys. A tuple of probability 0 is a fault at
once: it has a wrong token, INVALID before the support is exhausted, or a token
after that. All other counts, of tuples and of their first siblings, are
binomial. A count is a fault if a deviation as large has a probability below
`_RARE`.

Axes: L laws, S draws from each law, T tuples, k siblings, K siblings with
padding, V vocabulary.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Iterator
from typing import NamedTuple

import jax
import numpy as np
from scipy import special

from tv_jax.certify import compiling, drafts, rules, words, worlds
from tv_jax.certify.report import Settings
from tv_jax.io import names
from tv_jax.io.errors import UserError
from tv_jax.proposals import INVALID, Proposal
from tv_jax.verifiers import contract

# Among a million correct counts, the probability of a false alarm is 1e-6.
_RARE = 1e-12
# Draws from each law, draws from each law of a large vocabulary, and the size
# of that vocabulary. It tests the blocks of tokens in which `probs.draw` draws.
_DRAWS, _FEWER, _LARGE = 2048, 1024, 64
# Maximum number of tokens of a small vocabulary, and of ways to draw a family.
# Families with more ways are skipped.
_FEW, _WAYS = 6, 5000
# A law of the next sibling sums to 1 but for the rounding of a float32 q.
_SUM = 1e-5
# Number of tuples in a compiled call of `laws`.
_CHUNK = 128
# Errors are relative to the probability, or to this if it is larger.
_FLOOR = 1e-3


class ProposalCheck(NamedTuple):
  """The result of certifying a proposal."""

  sizes: tuple[int, ...]  # numbers of siblings that were checked
  error: float  # largest relative error of `laws`
  faults: tuple[str, ...]  # descriptions of the faults

  @property
  def sound(self) -> bool:
    """Whether no fault was found."""
    return not self.faults

  def __repr__(self) -> str:
    """Returns the verdict, the sizes of families, and the faults."""
    verdict = (
      f"{'SOUND' if self.sound else 'WRONG'}, families of"
      f" {', '.join(map(str, self.sizes))}, laws off by {self.error:.1e}"
    )
    return "\n  fault: ".join([verdict, *self.faults])


class _Family(NamedTuple):
  """All ways to draw k siblings from one law."""

  q: np.ndarray  # [V] float64
  k: int
  tokens: np.ndarray  # [T, k] int32
  chance: np.ndarray  # [T]
  steps: np.ndarray  # [T, k, V] law of each sibling; zeros: none can be drawn

  def table(self, length: int | None = None) -> dict[tuple, float]:
    """Returns the chance of each tuple of the first `length` siblings."""
    law: dict[tuple, float] = collections.defaultdict(float)
    for drawn, chance in zip(self.tokens.tolist(), self.chance, strict=True):
      law[tuple(drawn[:length])] += float(chance)
    return law


@functools.lru_cache(maxsize=64)
def check_proposal(
  proposal: Proposal, settings: Settings, widths: tuple[int, ...] = ()
) -> ProposalCheck:
  """Certifies one proposal, for families of 1 to 3 siblings and of `widths`.

  Args:
    proposal: The proposal.
    settings: The vocabulary (two tokens are added, up to 6 in total), the
      number of cases (laws of each size), the dtype and the seed are used.
    widths: Further numbers of siblings. A number is left out if it exceeds the
      vocabulary or has too many tuples.
  """
  sizes, errors, fault = set(), [0.0], ""
  with settings.precision:
    for k, laws, count in _plan(settings, widths):
      try:
        families = [*filter(None, (_family(proposal, q, k) for q in laws))]
        if len(families) < len(laws):  # too many to enumerate
          continue
        sizes.add(k)
        faults = _faults(proposal, laws, families, count, settings, errors)
        fault = next(faults, "")
      except Exception as error:  # a user's functions may raise anything
        fault = names.raised(error)
      if fault:
        break
  return ProposalCheck(
    sizes=tuple(sorted(sizes)),
    error=max(errors),
    faults=(fault,) if fault else (),
  )


def _plan(settings, widths) -> list[tuple[int, np.ndarray, int]]:
  """Returns triples: k, laws [L, V] and the number of draws from each law."""
  # Two more tokens give the last siblings a choice.
  few = min((settings.vocabulary or 3) + 2, _FEW)
  ordinary = _laws(settings, few)
  sizes = [k for k in sorted({1, 2, 3, *widths}) if k <= few]
  plan = [(k, ordinary, _DRAWS) for k in sizes]
  plan.append((3, _laws(settings, 2), _DRAWS))
  small = _laws(settings, 4)
  large = np.zeros((len(small), _LARGE), small.dtype)
  large[:, [2, 3, 40, _LARGE - 1]] = small
  plan.append((3, large, _FEWER))
  if settings.dtype == np.float64:  # a run draws in float32
    plan.append((2, ordinary.astype(np.float32), _DRAWS))
  return plan


def _laws(settings, V) -> np.ndarray:
  """Returns draft laws [L, V]: random, uniform, one-hot and rising."""
  drawn = worlds.generate(settings.seed, settings.cases or 27, V, 1)
  rising = np.arange(V) / np.arange(V).sum()
  laws = [*(case.at(())[1] for case in drawn), np.full(V, 1 / V)]
  return np.stack([*laws, np.eye(V)[V - 1], rising]).astype(settings.dtype)


def _family(proposal: Proposal, q: np.ndarray, k: int) -> _Family | None:
  """Enumerates `following`; None if there are too many ways to draw.

  Raises:
    ValueError: `following` returns an array that is not a law.
  """
  q = q.astype(float)
  q.setflags(write=False)
  steps = {}

  def following(q, drawn, k):
    step = np.asarray(proposal.following(q, drawn, k))
    what = f"following(q, {words.siblings(drawn)}, {k}) for q = {words.row(q)}"
    if step.shape != q.shape:
      raise UserError(f"{what} has shape {list(step.shape)}, not [{len(q)}]")
    sums = not step.any() or abs(step.sum() - 1) < _SUM
    if not (sums and (step >= 0).all()):
      raise UserError(f"{what} is {words.row(step)}: no law, and not all zeros")
    steps[drawn] = step.astype(float)
    return steps[drawn]

  ways = drafts.siblings(following, q, k, _WAYS)
  if ways is None:
    return None
  every = [
    [steps[tuple(drawn[:j])] for j in range(k)] for drawn in ways[0].tolist()
  ]
  return _Family(q, k, *ways, np.array(every))


def _faults(
  proposal: Proposal, laws, families: list[_Family], count: int, settings, seen
) -> Iterator[str]:
  """Yields the faults of families from laws [L, V], with `count` draws each."""
  for family in families:
    yield from _wrong_laws(proposal, family, settings.dtype, seen)
    yield from _wrong_fields(proposal, family)
  drawn = _draw(proposal, laws, families[0].k, count, settings.seed)
  for family, tokens in zip(families, drawn, strict=True):
    yield from _wrong_draws(family, tokens)


def _wrong_laws(
  proposal: Proposal, family: _Family, dtype, seen: list
) -> Iterator[str]:
  """Yields the faults of `laws`; adds its errors to `seen`.

  Only the first fault counts: each check assumes that earlier checks passed.
  """
  k, q = family.k, words.row(family.q)
  for width in (k, k + 2):
    law = functools.partial(jax.ShapeDtypeStruct, dtype=dtype)
    exists = jax.ShapeDtypeStruct((width,), bool)
    returned = jax.eval_shape(proposal.laws, law((width,)), law(()), exists)
    kinds = [(x.shape, x.dtype) for x in jax.tree.leaves(returned)]
    if kinds != [((width,), dtype), ((width, width), dtype)]:
      gives = ", ".join(f"{kind}{list(shape)}" for shape, kind in kinds)
      name = np.dtype(dtype).name
      yield f"laws gives {gives}, not {name}[{width}], {name}[{width}, {width}]"
    full = _written_out(proposal, family, width, dtype)
    if not np.isfinite(full).all():
      yield f"laws of {k} siblings hold a NaN or an infinity"
    error = abs(full - family.steps) / np.maximum(family.steps, _FLOOR)
    drawn = (family.tokens != INVALID)[..., None]
    error = np.where(drawn, error, 0).max(axis=-1)
    seen.append(float(error.max()))
    if error.max() > rules.tolerance(dtype):
      row, j = np.unravel_index(error.argmax(), error.shape)
      padded = f", padded by {width - k} absent siblings"
      yield (
        f"the law of sibling {j + 1} of {words.siblings(family.tokens[row])}"
        f" from q = {q} is {words.row(full[row, j])} by laws, and"
        f" {words.row(family.steps[row, j])} by following{padded * (width > k)}"
      )
  if unread := min(proposal.rest_from, k):
    other = _written_out(proposal, family, width, dtype, rest=0.123)
    if (other[:, :unread] != full[:, :unread]).any():
      yield (
        f"rest_from={proposal.rest_from}, but laws of the first {unread}"
        " siblings change with rest"
      )


def _wrong_fields(proposal: Proposal, family: _Family) -> Iterator[str]:
  """Yields the fields that are not true of the siblings."""
  k, q = family.k, family.q
  at = f"{k} siblings from q = {words.row(q)}"
  if proposal.distinct:
    for drawn in family.tokens:
      held = drawn[drawn != INVALID].tolist()
      if len({*held}) < len(held):
        yield f"distinct=True, but {at} can be {words.siblings(drawn)}"
  if proposal.nested and k > 1:
    fewer = _family(proposal, q, k - 1)
    if difference := _difference(family.table(k - 1), fewer):
      yield (
        f"nested=True, but the first {k - 1} of {at} are not drawn as"
        f" {k - 1} are: {difference}"
      )
  if proposal.ranks:
    other = _family(proposal, q**2 / (q**2).sum(), k)
    if difference := _difference(family.table(), other):
      yield (
        f"ranks=True, but {at} are drawn otherwise where q is squared, which"
        f" ranks its tokens alike: {difference}"
      )


@functools.lru_cache(maxsize=16)
def _compiled(proposal):
  return compiling.jit(jax.vmap(proposal.laws))


def _written_out(proposal, family: _Family, width: int, dtype, rest=None):
  """Returns the laws [T, k, V] of all siblings, computed by `laws`.

  Args:
    proposal: The proposal.
    family: The tuples.
    width: K; siblings beyond k are absent.
    dtype: The dtype of the inputs.
    rest: Replaces the probability under q of tokens outside the tuple.
  """
  q, k = family.q, family.k
  more = ((0, 0), (0, width - k))
  tokens = np.pad(family.tokens, more, constant_values=INVALID)
  exists = tokens != INVALID
  held = (tokens[..., None] == np.arange(len(q))).any(axis=1)
  off = np.where(held, 0, q).sum(axis=1)
  off = off if rest is None else np.full_like(off, rest)
  # All pieces have the same size, so that each K compiles a single program.
  scale, at = compiling.in_pieces(
    _compiled(proposal),
    _CHUNK,
    np.where(exists, q[tokens], 0).astype(dtype),
    off.astype(dtype),
    exists,
  )
  if not (np.isfinite(scale).all() and np.isfinite(at).all()):
    return np.full(family.steps.shape, np.nan)
  full = scale.astype(float)[:, :k, None] * q
  for i in range(k):
    row = np.flatnonzero(exists[:, i])
    full[row, :, tokens[row, i]] = at.astype(float)[row, :k, i]
  return full


def _difference(table, family):
  other = family.table()
  for drawn in {**table, **other}:
    a, b = table.get(drawn, 0.0), other.get(drawn, 0.0)
    if abs(a - b) > _SUM:
      return f"{words.siblings(drawn)} has chance {a:.6g}, and {b:.6g}"
  return None


def _draw(
  proposal: Proposal, laws: np.ndarray, k: int, count: int, seed: int
) -> np.ndarray:
  """Draws [L, S, k] from laws [L, V], under vmap and jit.

  Raises:
    ValueError: `draw` does not return int32 [k].
  """
  if fault := contract.draw_fault(proposal, k, laws.dtype, laws.shape[1]):
    raise UserError(fault)

  def many(key, q):
    keys = jax.random.split(key, count)
    return jax.vmap(lambda key: proposal.draw(key, q, k))(keys)

  keys = jax.random.split(jax.random.key(seed), len(laws))
  return np.asarray(compiling.jit(jax.vmap(many))(keys, laws))


def _wrong_draws(family: _Family, drawn: np.ndarray) -> Iterator[str]:
  """Compares draws [S, k] with a family; yields the faults."""
  S = len(drawn)
  what = f"draw(key, q, {family.k}) from q = {words.row(family.q)}"
  for length in range(1, family.k + 1):
    seen = collections.Counter(map(tuple, drawn[:, :length].tolist()))
    expected = family.table(length)
    if other := [tokens for tokens in seen if tokens not in expected]:
      yield f"{what} gave {words.siblings(other[0])}, which following rules out"
    hits = np.array([seen[tokens] for tokens in expected])
    law = np.minimum([*expected.values()], 1)
    tails = special.bdtr(hits, S, law), special.bdtrc(hits - 1, S, law)
    chance = 2 * np.minimum(*tails)
    worst = int(chance.argmin())
    if chance[worst] < _RARE:
      shown = words.siblings([*expected][worst])
      yield (
        f"{what} gave {shown}{' first' * (length < family.k)} {hits[worst]}"
        f" times in {S}, by following {law[worst] * S:.1f}"
      )
