"""The certificate of a proposal: `draw`, `following` and `laws` agree.

The laws of a rule's rows are those of `laws`, and their drafts are enumerated
by `following`: only here is `draw` seen, which is what a run calls.

What it draws is counted over many keys. A tuple of siblings of chance 0 is a
fault at once: a wrong token, INVALID before the support is exhausted, a token
after it. The count of any other, by each of its first siblings, is binomial;
the chances of counts as far off are added up over all that is counted, so that
a proposal that is right is called wrong with a chance below `ALARM`.

Axes: L laws, S draws of each, k siblings, V vocabulary.
"""

from __future__ import annotations

import collections
import functools
from typing import NamedTuple

import jax
import numpy as np
from scipy import special

from tv_jax.certify import cases, compiling, siblings, words
from tv_jax.certify.findings import Settings
from tv_jax.certify.siblings import Family
from tv_jax.edge import names
from tv_jax.engine import contract
from tv_jax.proposals import INVALID, Proposal

# The chance to call a proposal wrong that is right.
ALARM = 1e-7
# Draws from each law, and from each law of a large vocabulary, in which few
# tokens are drawn in another way than by one race.
_DRAWS, _FEWER, _LARGE = 2048, 1024, 64
# No fewer numbers than these are taken to have been counted, so that the alarm
# may be looked for at any time.
_COUNTED = 100_000
# Tokens of an ordinary one at most: all tuples of them are enumerated.
_FEW = 6


class ProposalCheck(NamedTuple):
  """What a proposal does."""

  sizes: tuple[int, ...]  # numbers of siblings
  tuples: int  # of siblings that `laws` was compared on
  error: float  # the largest relative one of `laws`
  draws: int  # how many tuples were drawn
  # A bound on the chance that right draws would be as far off as the worst of
  # these, all that was looked at taken together.
  chance: float
  faults: tuple[str, ...]  # what is wrong, in words

  @property
  def sound(self) -> bool:
    """Returns whether nothing was found against the proposal."""
    return not self.faults


@functools.lru_cache(maxsize=64)
def check_proposal(
  proposal: Proposal, settings: Settings, widths: tuple[int, ...] = ()
) -> ProposalCheck:
  """Certifies one proposal, for families of 1 to 3 siblings and of `widths`.

  Args:
    proposal: The proposal.
    settings: Of these the vocabulary (with two more tokens, but 6 at most),
      the number of cases (laws of each size), the dtype and the seed.
    widths: Further numbers of siblings; those that exceed the vocabulary, or
      have too many tuples, are left out.
  """
  sizes, errors, tuples, draws = set(), [0.0], 0, 0
  least, worst, looked, faults = 1.0, "", 0, []
  for k, laws, count in _plan(settings, widths):
    try:
      families = [siblings.family(proposal, q, k) for q in laws]
      families = [ways for ways in families if ways]
      if len(families) < len(laws):  # too many to enumerate
        continue
      sizes.add(k)
      for ways in families:
        faults += siblings.faults(proposal, ways, settings.dtype, errors)
        if faults:
          break
        tuples += len(ways.tokens)
      if faults:
        break
      drawn = draw(proposal, laws, k, count, settings.seed)
      for ways, tokens in zip(families, drawn, strict=True):
        number, chance, what = judge(ways, tokens)
        looked, draws = looked + number, draws + len(tokens)
        if chance < least:
          least, worst = chance, what
      if (chance := least * max(looked, _COUNTED)) < ALARM:
        odds = f" (right draws: chance below {chance:.0e})" if chance else ""
        faults.append(worst + odds)
    except Exception as error:  # whatever a stranger's functions raise
      faults.append(names.raised(error))
    if faults:
      break
  return ProposalCheck(
    sizes=tuple(sorted(sizes)),
    tuples=tuples,
    error=max(errors),
    draws=draws,
    chance=min(1.0, least * max(looked, _COUNTED)),
    faults=tuple(faults),
  )


def _plan(settings, widths) -> list[tuple[int, np.ndarray, int]]:
  """Returns k, laws [L, V] and how often to draw from each, smallest first."""
  # Two tokens beside the siblings'.
  few = min((settings.vocabulary or 3) + 2, _FEW)
  ordinary = _laws(settings, few)
  sizes = [k for k in sorted({1, 2, 3, *widths}) if k <= few]
  plan = [(k, ordinary, _DRAWS) for k in sizes]
  plan.append((3, _laws(settings, 2), _DRAWS))
  small = _laws(settings, 4)
  large = np.zeros((len(small), _LARGE), small.dtype)
  large[:, [2, 3, 40, _LARGE - 1]] = small
  plan.append((3, large, _FEWER))
  if settings.dtype == np.float64:  # and once as a run draws
    plan.append((2, ordinary.astype(np.float32), _DRAWS))
  return plan


def _laws(settings, V) -> np.ndarray:
  """[L, V] drafts' laws of all kinds, and flat ones: ties of everything."""
  drawn = cases.generate(settings.seed, settings.cases, V, 1)
  rising = np.arange(V) / np.arange(V).sum()
  laws = [*(case.q[0] for case in drawn), np.full(V, 1 / V), np.eye(V)[V - 1]]
  return np.stack([*laws, rising]).astype(settings.dtype)


def draw(
  proposal: Proposal, laws: np.ndarray, k: int, count: int, seed: int
) -> np.ndarray:
  """Draws [L, S, k] from laws [L, V], under vmap and jit.

  Raises:
    ValueError: They are no int32 [k].
  """
  wrong = contract.drawn(proposal, k, laws.dtype, laws.shape[1])
  if wrong:
    raise ValueError("; ".join(wrong))

  def many(key, q):
    keys = jax.random.split(key, count)
    return jax.vmap(lambda key: proposal.draw(key, q, k))(keys)

  keys = jax.random.split(jax.random.key(seed), len(laws))
  return np.asarray(compiling.jit(jax.vmap(many))(keys, laws))


def judge(ways: Family, drawn: np.ndarray) -> tuple[int, float, str]:
  """Holds draws [S, k] against a family.

  Returns:
    How many numbers were looked at; the least chance of one of them, 0 for what
    cannot be; and that one, in words.
  """
  S, V, least, rarest, looked = len(drawn), len(ways.q), 1.0, "", 0
  what = f"draw(key, q, {ways.k}) from q = {words.row(ways.q)}"
  if (outside := (drawn != INVALID) & ((drawn < 0) | (drawn >= V))).any():
    return 0, 0.0, f"{what} gave {drawn[outside][0]}: no token, nor INVALID"
  for length in range(1, ways.k + 1):
    seen = collections.Counter(map(tuple, drawn[:, :length].tolist()))
    expected = ways.table(length)
    if other := [tokens for tokens in seen if tokens not in expected]:
      gave = words.siblings(other[0])
      return looked, 0.0, f"{what} gave {gave}, which following rules out"
    hits = np.array([seen[tokens] for tokens in expected])
    law = np.minimum([*expected.values()], 1)
    tails = special.bdtr(hits, S, law), special.bdtrc(hits - 1, S, law)
    chance = 2 * np.minimum(*tails)
    looked += len(hits)
    worst = int(chance.argmin())
    if chance[worst] < least:
      least, shown = float(chance[worst]), words.siblings([*expected][worst])
      rarest = (
        f"{what} gave {shown}{' first' * (length < ways.k)} {hits[worst]} times"
        f" in {S}, by following {law[worst] * S:.1f}"
      )
  return looked, least, rarest
