"""A plan for two siblings at once, by optimal transport.

Two tokens t_1, t_2 are drawn from q without replacement. A plan takes the first
with chance a_1(t_1, t_2) or the second with chance a_2(t_1, t_2), such that

    f(x) = E[a_1 1(t_1 = x) + a_2 1(t_2 = x)] <= g(x)     for all x.

The most that a plan can take in all is a linear programme's value. Close to it
comes, with a number z for each token,

    a_1(x, y) = lean z_x / (zeta + lean z_x + z_y)
    a_2(x, y) =      z_y / (zeta + lean z_x + z_y)

after z <- z (g / f)^c a few times, each a_i cut by min(1, g / f) of its token
at the end. (c is 2, 2, 1 in turn: twice is faster where a token is taken nearly
always, and swings for ever where it hardly is.) A plan need not be good to be
one: f is that of the plan that is used, whatever has become of z. `lean` gives
what either could take to the elder, which carries the deeper subtree as a rule;
in the limit nothing of the sum is lost by it.

The likeliest tokens of q have a z of their own; all others share one. So f is
had, exactly, by M^2 operations and a few passes over V; and to improve z, which
asks for the sum of f over the others alone, takes none of these.

Axes: V vocabulary, M tokens with a z of their own.
"""

from __future__ import annotations

import functools
import operator
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tv_jax.proposals import over
from tv_jax.verifiers.residual import positive

_ZETA, _SMALLEST, _LARGEST = 1e-3, 1e-6, 1e4


class Options(NamedTuple):
  """Options of a plan.

  Attributes:
    kept: M, at most.
    steps: How often z is improved.
    lean: How much more the elder is given of what either could take.
  """

  kept: int = 64
  steps: int = 24
  lean: float = 1024.0


DEFAULT = Options()


class Plan(NamedTuple):
  """What of each pair is taken."""

  token: jax.Array  # [M] those with a z of their own
  last: jax.Array  # [M] whether there is no second token after this one
  z: jax.Array  # [M]
  z_others: jax.Array  # []
  cut: jax.Array  # [V] min(1, g / f)
  taken: jax.Array  # [V] f, after the cut


class _Law(NamedTuple):
  """q, with the chance of y after x, q_y / (1 - q_x), in two factors."""

  token: jax.Array  # [M]
  q: jax.Array  # [M] of these
  over: jax.Array  # [M] 1 / (1 - q); 0: there is no second token
  both: jax.Array  # [M, M] that the first and the second are these
  others: jax.Array  # [V] q of all others
  after: jax.Array  # [V] q / (1 - q) of these
  once: jax.Array  # [] sum(others)
  often: jax.Array  # [] sum(after)

  @property
  def another(self) -> tuple[jax.Array, jax.Array]:
    """[V] of each of the others, that another of them is second; is first."""
    return (
      self.after * positive(self.once - self.others),
      self.others * positive(self.often - self.after),
    )


class _Shares(NamedTuple):
  """What is taken of each of the others, by how it was drawn."""

  first: jax.Array  # [] with a kept one after it, a share of `after`
  second: jax.Array  # [] after a kept one, a share of `others`
  first_of_both: jax.Array  # [] of `another`
  second_of_both: jax.Array  # []


def plan(g: jax.Array, q: jax.Array, options: Options = DEFAULT) -> Plan:
  """Makes a plan that takes at most g [V] of pairs drawn from q [V]."""
  law = _split(q, options.kept)
  g_kept = g[law.token]
  g_others = jnp.sum(jnp.where(law.others > 0, g, 0))
  before, behind = law.another
  draws = law.often, law.once, jnp.sum(before), jnp.sum(behind)

  def clip(z):
    return jnp.clip(z, _SMALLEST, _LARGEST)

  def improve(step, now):
    z, z_others = now
    kept, shares = _marginal(law, z, z_others, options.lean)
    rest = _inner(shares, draws)
    kept, rest = _ratio(g_kept, kept), _ratio(g_others, rest)
    twice = step % 3 != 2
    z *= jnp.where(twice, kept**2, kept)
    z_others *= jnp.where(twice, rest**2, rest)
    return clip(z), clip(z_others)

  z = clip(_ratio(g_kept, law.q))
  z_others = clip(_ratio(g_others, law.once))
  z, z_others = jax.lax.fori_loop(0, options.steps, improve, (z, z_others))
  kept, shares = _marginal(law, z, z_others, options.lean)
  draws = law.after, law.others, before, behind
  f = _inner(shares, draws).at[law.token].set(kept)
  return Plan(
    token=law.token,
    last=law.over == 0,
    z=z,
    z_others=z_others,
    cut=jnp.minimum(1, _ratio(g, f)),
    taken=jnp.minimum(g, f),
  )


def enter(
  plan: Plan, tokens: jax.Array, exists: jax.Array, options: Options = DEFAULT
) -> jax.Array:
  """Returns the chance to enter each of two siblings, once it is offered: [2].

  Args:
    plan: Of their parent.
    tokens: [2] of the vocabulary, whether they exist or not.
    exists: [2]
    options: Those of the plan.
  """
  same = plan.token[None] == tokens[:, None]
  # Where next to nothing is left after the first, no second was planned for,
  # though one may have been drawn.
  second = exists[1] & ~jnp.any(same[0] & plan.last)
  exists = jnp.stack([exists[0], second])
  z = jnp.sum(jnp.where(same, plan.z, 0), axis=1)
  z = jnp.where(jnp.any(same, axis=1), z, plan.z_others)
  x, y = jnp.where(exists, z, 0)
  lean = options.lean
  cut, cut_second = plan.cut[tokens]
  first, second = _share(x, y, lean)
  # 1 - a_1, without its cancellation.
  missed = (_ZETA + lean * x * (1 - cut) + y) / (_ZETA + lean * x + y)
  return jnp.stack([first * cut, second * cut_second / missed])


def _split(q, kept) -> _Law:
  # XLA takes a part of a sorted row for the largest few, and does not sort, as
  # long as no part of the part is asked for.
  value, token = jax.lax.optimization_barrier(
    jax.lax.top_k(q, min(kept, len(q)))
  )
  others = q.at[token].set(0)
  # Not 1 minus the likeliest, which float32 would lose.
  once = jnp.sum(others)
  after = others * over(1 - others)
  follow = over(jnp.append(once + jnp.sum(value[1:]), 1 - value[1:]))
  both = (value * follow)[:, None] * value[None, :]
  return _Law(
    token=token,
    q=value,
    over=follow,
    both=both * (1 - jnp.eye(len(value), dtype=q.dtype)),
    others=others,
    after=after,
    once=once,
    often=jnp.sum(after),
  )


def _share(x, y, lean):
  """What of a pair with these z is taken before the cut: first, second."""
  whole = _ZETA + lean * x + y
  return lean * x / whole, y / whole


def _marginal(law: _Law, z, z_others, lean) -> tuple[jax.Array, _Shares]:
  """What is taken before the cut: of the kept [M], and of the others."""
  q = law.q
  # What the two have in common, by `_share`: one division, and no more.
  both = law.both / (_ZETA + lean * z[:, None] + z[None, :])
  kept = z * (lean * jnp.sum(both, axis=1) + jnp.sum(both, axis=0))
  # One of the kept, one of the others, in either order.
  first, other_second = _share(z, z_others, lean)
  other_first, second = _share(z_others, z, lean)
  kept += q * (law.once * law.over * first + law.often * second)
  # One that has all of q: nothing comes after it.
  alone, _ = _share(z, jnp.zeros_like(z), lean)
  kept += jnp.where(law.over == 0, q * alone, 0)
  return kept, _Shares(
    jnp.sum(q * other_first),
    jnp.sum(q * law.over * other_second),
    *_share(z_others, z_others, lean),
  )


def _inner(shares, draws):
  """Returns the sum of shares times draws."""
  return functools.reduce(operator.add, map(operator.mul, shares, draws))


def _ratio(g, f):
  """Returns the ratio; where there is no f, any number would do."""
  none = f <= 0
  return jnp.where(none, 1, g / jnp.where(none, 1, f))
