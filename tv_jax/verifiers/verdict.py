"""The coins of a decision, and the token that comes of it: for programs."""

import dataclasses
import functools

import jax
import jax.numpy as jnp

from tv_jax import probs, proposals, threefry
from tv_jax.proposals import INVALID
from tv_jax.tree import ROOT, Tree
from tv_jax.verifiers.decision import Decide, settle
from tv_jax.verifiers.table import VERIFIERS


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
  """What one cycle yields: the path to `node`, then `token`."""

  node: jax.Array  # [] int32 the accepted node
  length: jax.Array  # [] int32 tokens gained: its depth, and the bonus
  token: jax.Array  # [] int32 the bonus token
  fault: jax.Array  # [] bool, as in `Decision`


def toss(key: jax.Array, count: int, dtype, more: int = 0) -> jax.Array:
  """[count + more] the coins of one verification with randomness from `key`.

  The first `count` do not depend on how many more there are.
  """
  coins, _ = threefry.split(key)
  if more:
    rest = toss(threefry.fold_in(coins, more), more, dtype)
    return jnp.concatenate([toss(key, count, dtype), rest])
  # One draw has 23 bits in float32: any threshold above 0 would be passed by at
  # least 1 coin in 2^23. A second one fills in the digits below.
  coarse, fine = threefry.uniform(coins, 2 * count, dtype).reshape(2, count)
  eta = coarse + fine * jnp.finfo(dtype).eps
  return jnp.minimum(eta, 1 - jnp.finfo(dtype).epsneg)


@functools.lru_cache(maxsize=256)  # what is jitted stays one function
def checked(decide: Decide) -> Decide:
  """A rule of which what can be no decision is a fault, and a plain step.

  That is a node that is none of the tree's or holds no token, or a residual
  that is no law. The rules that are here see to it themselves, where it costs
  no reduction more.
  """
  if any(decide is own.decide for own in VERIFIERS.values()):
    return decide

  def sound_or_plain(tree, proposal, tokens, q, p, eta):
    made = decide(tree, proposal, tokens, q, p, eta)
    node = jnp.asarray(made.node, jnp.int32)
    made = dataclasses.replace(made, node=node)
    total = jnp.sum(made.residual)
    inside = (node >= ROOT) & (node < len(tokens))
    drawn = tokens[jnp.where(inside, node, ROOT)] != INVALID
    sound = inside & (drawn | (node == ROOT))
    sound &= (total > 0) & (total < jnp.inf) & (jnp.min(made.residual) >= 0)
    plain = settle(
      node=jnp.full_like(node, ROOT),
      weights=p[ROOT],
      p=p,
      accept=made.accept,
      fault=jnp.array(True),
    )
    return jax.tree.map(lambda x, y: jnp.where(sound, x, y), made, plain)

  return sound_or_plain


def toss_and_draw(
  key: jax.Array,
  decide: Decide,
  tree: Tree,
  proposal: proposals.Proposal,
  tokens: jax.Array,
  q: jax.Array,
  p: jax.Array,
  *,
  more: int = 0,
) -> Verdict:
  """One verification with randomness from `key`; pure, for jitted code.

  `decide` is given `more` coins than one a node: see `Verifier.coins`.
  """
  _, bonus = threefry.split(key)
  eta = toss(key, len(tokens), p.dtype, more)
  decision = decide(tree, proposal, tokens, q, p, eta)
  return Verdict(
    node=decision.node,
    length=jnp.asarray(tree.depth)[decision.node] + 1,
    token=probs.draw(bonus, decision.residual),
    fault=decision.fault,
  )
