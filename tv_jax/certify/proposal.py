"""The certificate of a proposal: `draw`, `following` and `laws` agree.

The laws of a rule's rows are those of `laws`, and their drafts are enumerated
by `following`: only here is `draw` seen, which is what a run calls.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tv_jax.certify import cases, draws, exact, siblings
from tv_jax.certify.findings import Settings
from tv_jax.edge import names
from tv_jax.proposals import Proposal

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
    """Whether nothing was found against the proposal."""
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
    drawn = draws.draw(
      self.proposal, group.laws, group.k, group.draws, self.settings.seed
    )
    for own, tokens in zip(families, drawn, strict=True):
      looked, least, told = draws.judge(own, tokens)
      self.looked += looked
      self.drawn += len(tokens)
      if least < self.least:
        self.least, self.told = least, told
    if (chance := self.chance) < draws.ALARM:
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
  few = min(settings.vocabulary + 2, _FEW)  # two beside the siblings' tokens
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
