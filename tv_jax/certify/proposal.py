"""The certificate of a proposal: `draw`, `following` and `laws` agree.

The laws of a rule's rows are those of `laws`, and their drafts are enumerated
by `following`: only here is `draw` seen, which is what a run calls.

What it draws is counted over many keys. A tuple of siblings of chance 0 is a
fault at once: a wrong token, INVALID before the support is exhausted, a token
after it. For the others, by each of their first siblings, how far a count may
be from its mean is bounded by Chernoff's inequality, which holds for every
number of draws:

    P(X >= x or X <= x) <= exp(-n KL(x / n, chance))      on either side

and the bounds are added up over all that is counted, so that a proposal that
is right is called wrong with a chance below `ALARM`, whatever it is.

Axes: L laws, S draws of each, k siblings, V vocabulary.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import NamedTuple

import jax
import numpy as np
from scipy import special

from tv_jax.certify import cases, compiling, exact, siblings, words
from tv_jax.certify.findings import Settings
from tv_jax.certify.siblings import Family
from tv_jax.edge import names
from tv_jax.engine import contract
from tv_jax.proposals import INVALID, Proposal

# The chance to call a proposal wrong that is right.
ALARM = 1e-7
# Draws from each law, and from each law of a large vocabulary.
_DRAWS, _FEWER = 2048, 1024
# No fewer numbers than these are taken to have been counted.
_COUNTED = 100_000
# Tokens of an ordinary one at most: all tuples of them are enumerated.
_FEW = 6
# A vocabulary in which few tokens are drawn in another way than by one race.
_LARGE = 64


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProposalCheck:
  """What was found out about a proposal.

  Attributes:
    sizes: The numbers of siblings.
    tuples: How many tuples of siblings `laws` was compared on.
    error: The largest relative error of `laws`.
    bound: The largest that is allowed.
    draws: How many tuples were drawn.
    chance: A bound on the chance that right draws would be as far off as the
      worst of these, all that was looked at taken together.
    faults: What is wrong, in words; empty if nothing is.
  """

  sizes: tuple[int, ...]
  tuples: int
  error: float
  bound: float
  draws: int
  chance: float
  faults: tuple[str, ...]

  @property
  def sound(self) -> bool:
    """Returns whether nothing was found against the proposal."""
    return not self.faults


class _Families(NamedTuple):
  """Families of one size, from laws over one vocabulary."""

  k: int
  laws: np.ndarray  # [L, V] of the dtype that is drawn from
  draws: int  # from each


@functools.lru_cache(maxsize=64)
def check_proposal(
  proposal: Proposal,
  settings: Settings,
  widths: tuple[int, ...] = (),
) -> ProposalCheck:
  """Certifies one proposal, for families of 1 to 3 siblings and of `widths`.

  Args:
    proposal: The proposal.
    settings: Of these the vocabulary (with two more tokens, but 6 at most),
      the number of cases (laws of each size), the dtype and the seed.
    widths: Further numbers of siblings; those that exceed the vocabulary, or
      have too many tuples, are left out.
  """
  found = _Found(settings, proposal)
  for group in _plan(settings, widths):
    try:
      found.look(group)
    except Exception as error:  # whatever a stranger's functions raise
      found.faults.append(names.raised(error))
    if found.faults:
      break
  return ProposalCheck(
    sizes=tuple(sorted(found.sizes)),
    tuples=found.tuples,
    error=found.error,
    bound=exact.tolerance(settings.dtype),
    draws=found.drawn,
    chance=found.chance,
    faults=tuple(found.faults),
  )


class _Found:
  """What was found so far."""

  def __init__(self, settings, proposal):
    self.settings, self.proposal = settings, proposal
    self.laws = siblings.Laws(proposal, settings.dtype)
    self.faults: list[str] = []
    self.sizes: set[int] = set()
    self.error, self.tuples, self.drawn = 0.0, 0, 0
    self.least, self.told, self.looked = 1.0, "", 0

  @property
  def chance(self) -> float:
    """`ProposalCheck.chance`; for _COUNTED numbers, however few they still are.

    So that it may be looked at at any time.
    """
    return min(1.0, self.least * max(self.looked, _COUNTED))

  def look(self, group):
    """Adds families of one size."""
    families = []
    for q in group.laws:
      own = siblings.family(self.proposal, q, group.k)
      if own is None:
        return
      families.append(own)
    self.sizes.add(group.k)
    for own in families:
      self.faults += self._faults(own)
      if self.faults:
        return
    drawn = draw(
      self.proposal, group.laws, group.k, group.draws, self.settings.seed
    )
    for own, tokens in zip(families, drawn, strict=True):
      looked, least, told = judge(own, tokens)
      self.looked += looked
      self.drawn += len(tokens)
      if least < self.least:
        self.least, self.told = least, told
    if (chance := self.chance) < ALARM:
      odds = f" (right draws: chance below {chance:.0e})" if chance else ""
      self.faults.append(self.told + odds)

  def _faults(self, own) -> Iterator[str]:
    """What is wrong with `laws` and the fields, first things first."""
    if told := siblings.misshapen(own):
      yield told
      return
    for more in (0, 2):
      width = own.k + more
      if told := self.laws.fault(width):
        yield told
        return
      full, finite = self.laws(own, width)
      if not finite:
        yield f"laws of {own.k} siblings hold a NaN or an infinity"
        return
      error, told = siblings.disagreement(own, full)
      self.error = max(self.error, error)
      if not error <= exact.tolerance(self.settings.dtype):
        absent = f", padded by {more} absent siblings" if more else ""
        yield f"{told}{absent}"
        return
    self.tuples += len(own.tokens)
    if unread := min(self.proposal.rest_from, own.k):
      other, _ = self.laws(own, width, rest=0.123)
      if (other[:, :unread] != full[:, :unread]).any():
        yield (
          f"rest_from={self.proposal.rest_from}, but laws of the first {unread}"
          " siblings change with rest"
        )
    yield from siblings.broken_promises(self.proposal, own)


def _plan(settings, widths) -> list[_Families]:
  """Families to look at, the smallest first."""
  few = min(
    (settings.vocabulary or 3) + 2, _FEW
  )  # two beside the siblings' tokens
  plan = [
    _Families(k, _laws(settings, few), _DRAWS)
    for k in sorted({1, 2, 3, *widths})
    if k <= few
  ]
  plan.append(_Families(3, _laws(settings, 2), _DRAWS))
  small = _laws(settings, 4)
  large = np.zeros((len(small), _LARGE), small.dtype)
  large[:, [2, 3, 40, _LARGE - 1]] = small
  plan.append(_Families(3, large, _FEWER))
  if settings.dtype == np.float64:  # and once as a run draws
    plan.append(_Families(2, _laws(settings, few).astype(np.float32), _DRAWS))
  return plan


def _laws(settings, V) -> np.ndarray:
  """[L, V] drafts' laws of all kinds, and flat ones: ties of everything."""
  drawn = cases.generate(settings.seed, settings.cases, V, 1)
  laws = [case.q[0] for case in drawn]
  laws += [
    np.full(V, 1 / V),
    np.eye(V)[V - 1],
    np.arange(V) / np.arange(V).sum(),
  ]
  return np.stack(laws).astype(settings.dtype)


def draw(
  proposal: Proposal, laws: np.ndarray, k: int, count: int, seed: int
) -> np.ndarray:
  """Draws [L, S, k] from laws [L, V], under vmap and jit.

  Raises:
    ValueError: They are no int32 [k].
  """
  if told := "; ".join(contract.drawn(proposal, k, laws.dtype, laws.shape[1])):
    raise ValueError(told)

  def many(key, q):
    keys = jax.random.split(key, count)
    return jax.vmap(lambda one: proposal.draw(one, q, k))(keys)

  keys = jax.random.split(jax.random.key(seed), len(laws))
  return np.asarray(compiling.jit(jax.vmap(many))(keys, laws))


def judge(own: Family, drawn: np.ndarray) -> tuple[int, float, str]:
  """Holds draws [S, k] against a family.

  Returns:
    How many numbers were looked at; the least bound on the chance of one of
    them, 0 for what cannot be; and that one, in words.
  """
  V, least, told, looked = len(own.q), 1.0, "", 0
  what = f"draw(key, q, {own.k}) from q = {words.row(own.q)}"
  if (outside := (drawn != INVALID) & ((drawn < 0) | (drawn >= V))).any():
    return 0, 0.0, f"{what} gave {drawn[outside][0]}: no token, nor INVALID"
  for length in range(1, own.k + 1):
    seen = _count(drawn[:, :length])
    expected = own.table(length)
    for tokens in seen:
      if tokens not in expected:
        told = f"{what} gave {words.siblings(tokens)}"
        return looked, 0.0, f"{told}, which following rules out"
    hits = np.array([seen.get(tokens, 0) for tokens in expected])
    chance = np.minimum([*expected.values()], 1)
    bound = 2 * np.exp(-len(drawn) * divergence(hits / len(drawn), chance))
    looked += len(hits)
    worst = int(bound.argmin())
    if bound[worst] < least:
      least = float(bound[worst])
      shown = words.siblings([*expected][worst])
      told = (
        f"{what} gave {shown}{' first' if length < own.k else ''}"
        f" {hits[worst]} times in {len(drawn)}, by following"
        f" {chance[worst] * len(drawn):.1f}"
      )
  return looked, least, told


def _count(drawn):
  """Returns how often each tuple came."""
  drawn = drawn.astype(np.int64)
  span = drawn.max() - INVALID + 1
  code = (drawn - INVALID) @ span ** np.arange(drawn.shape[1])
  _, first, counts = np.unique(code, return_index=True, return_counts=True)
  tuples = map(tuple, drawn[first].tolist())
  return dict(zip(tuples, counts.tolist(), strict=True))


def divergence(x: np.ndarray, p: np.ndarray) -> np.ndarray:
  """Returns KL(x, p) of coins with chances x, and p above 0, elementwise."""
  return np.maximum(special.rel_entr(x, p) + special.rel_entr(1 - x, 1 - p), 0)
