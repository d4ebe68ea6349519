"""A plan for two siblings at once, by optimal transport.

Two tokens t_1, t_2 are drawn from q without replacement. A plan takes the first
with chance a_1(t_1, t_2) or the second with chance a_2(t_1, t_2), such that

    f(x) = E[a_1 1(t_1 = x) + a_2 1(t_2 = x)] <= g(x)     for all x.

The largest sum of f is the value of a linear programme. A plan with a number z
for each token comes close to it:

    a_1(x, y) = lean z_x / (zeta + lean z_x + z_y)
    a_2(x, y) =      z_y / (zeta + lean z_x + z_y)

The steps z <- z (g / f)^c improve z. (c is 2, 2, 1 in turn: 2 is faster for a
token that is nearly always taken, but oscillates for a token that hardly ever
is.) At the end, each a_i is multiplied by min(1, g / f) of its token. Any z
gives a valid plan, because f is computed for the plan that is used. `lean`
favours the elder sibling where either could be taken, because it usually
carries the deeper subtree; in the limit this loses nothing of the sum.

The M likeliest tokens of q have separate z; all other tokens share one z. So f
is exact after M^2 operations and a few passes over V. The steps for z need no
pass over V, because they only use the sum of f over the other tokens.

Axes: V vocabulary, M likeliest tokens.
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
    kept: Upper bound of M.
    steps: Number of steps that improve z.
    lean: Factor in favour of the elder sibling.
  """

  kept: int = 64
  steps: int = 24
  lean: float = 1024.0


DEFAULT = Options()


class Plan(NamedTuple):
  """A plan for pairs."""

  token: jax.Array  # [M] the likeliest tokens
  last: jax.Array  # [M] whether no second token can follow this token
  z: jax.Array  # [M]
  z_others: jax.Array  # []
  cut: jax.Array  # [V] min(1, g / f)
  taken: jax.Array  # [V] f, after the cut


class _Law(NamedTuple):
  """q, with the chance of y after x, q_y / (1 - q_x), in two factors."""

  token: jax.Array  # [M] the likeliest tokens
  q: jax.Array  # [M] their q
  over: jax.Array  # [M] their 1 / (1 - q), or 0 if no second token can follow
  both: jax.Array  # [M, M] chance of a likeliest token first, another second
  others: jax.Array  # [V] q of all other tokens
  after: jax.Array  # [V] q / (1 - q) of all other tokens
  once: jax.Array  # [] sum(others)
  often: jax.Array  # [] sum(after)

  @property
  def another(self) -> tuple[jax.Array, jax.Array]:
    """[V] Chances of each other token before, and after, another of them."""
    return (
      self.after * positive(self.once - self.others),
      self.others * positive(self.often - self.after),
    )


class _Shares(NamedTuple):
  """The shares taken of the other tokens, by how they were drawn."""

  first: jax.Array  # [] before a likeliest token, a share of `after`
  second: jax.Array  # [] after a likeliest token, a share of `others`
  first_of_both: jax.Array  # [] before another other token, of `another[0]`
  second_of_both: jax.Array  # [] after another other token, of `another[1]`


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
  """Returns the chance [2] to enter each of two siblings, once it is offered.

  Args:
    plan: The plan of their parent.
    tokens: [2] Token ids, valid even for a sibling that does not exist.
    exists: [2] Whether the sibling exists.
    options: The options of the plan.
  """
  same = plan.token[None] == tokens[:, None]
  # If almost no probability is left after the first token, the plan has no
  # second, although it may have been drawn.
  second = exists[1] & ~jnp.any(same[0] & plan.last)
  exists = jnp.stack([exists[0], second])
  z = jnp.sum(jnp.where(same, plan.z, 0), axis=1)
  z = jnp.where(jnp.any(same, axis=1), z, plan.z_others)
  x, y = jnp.where(exists, z, 0)
  lean = options.lean
  cut, cut_second = plan.cut[tokens]
  first, second = _share(x, y, lean)
  # 1 - a_1, without cancellation.
  missed = (_ZETA + lean * x * (1 - cut) + y) / (_ZETA + lean * x + y)
  return jnp.stack([first * cut, second * cut_second / missed])


def _split(q, kept) -> _Law:
  # The barrier keeps top_k fast: XLA recognises it as a part of a sorted row,
  # but would sort the row if only a part of that part were used.
  value, token = jax.lax.optimization_barrier(
    jax.lax.top_k(q, min(kept, len(q)))
  )
  others = q.at[token].set(0)
  # Not 1 minus the likeliest tokens, which would lose digits of float32.
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
  """Returns a_1 and a_2 of a pair with these z, before the cut."""
  whole = _ZETA + lean * x + y
  return lean * x / whole, y / whole


def _marginal(law: _Law, z, z_others, lean) -> tuple[jax.Array, _Shares]:
  """Returns f of the likeliest tokens [M] and shares of the others, uncut."""
  q = law.q
  # The common factor of both `_share`: a single division.
  both = law.both / (_ZETA + lean * z[:, None] + z[None, :])
  kept = z * (lean * jnp.sum(both, axis=1) + jnp.sum(both, axis=0))
  # A likeliest token and another token, in either order.
  first, other_second = _share(z, z_others, lean)
  other_first, second = _share(z_others, z, lean)
  kept += q * (law.once * law.over * first + law.often * second)
  # A token that has all of q: no second token follows.
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
  """Returns g / f, or 1 where f is 0."""
  none = f <= 0
  return jnp.where(none, 1, g / jnp.where(none, 1, f))
