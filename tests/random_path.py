"""A rule that tosses coins beside its nodes': it verifies one random child.

One of the root's children is picked, each with the same chance, by binary
coins: the first with chance 1/k, else the second with chance 1/(k - 1), and so
on. What is picked has the law m, the mean of what the siblings were drawn from
with all their elders averaged over, and is verified against that, as a chain
is: accept with chance min(1, p/m), else [p - m]_+. Below it the first children
are verified likewise. Exactly lossless, for any vocabulary that is small enough
to write m out; with other chances to pick a child it is not.
"""

import functools
import itertools

import jax.numpy as jnp

from tv_jax.proposals import INVALID
from tv_jax.tree import ROOT
from tv_jax.verifiers import DOWN, NOT_OFFERED, Verifier, settle


def picked_law(q, k):
  """[V] of one of k siblings without replacement, each equally likely.

  It sums to less than 1 where there may be fewer siblings than k.
  """
  V = len(q)
  law = jnp.zeros_like(q)
  for j in range(k):
    for elders in itertools.permutations(range(V), j):
      chance, left = jnp.ones_like(q[0]), q
      for token in elders:
        total = left.sum()
        chance = chance * left[token] / jnp.where(total > 0, total, 1)
        left = left.at[token].set(0)
      total = left.sum()
      law = law + chance * left / jnp.where(total > 0, total, 1) / k
  return law


def _line(tree, child):
  """A child of the root, and the first children below it."""
  line = [int(child)]
  while tree.num_children[line[-1]]:
    line.append(int(tree.children[line[-1], 0]))
  return line


def _chance(tokens, p, laws, above, node):
  """Of a node to be accepted, and whether it can be."""
  token = jnp.maximum(tokens[node], 0)
  law = laws[above][token]
  there = (tokens[node] != INVALID) & (law > 0)
  ratio = p[above][token] / jnp.where(there, law, 1)
  return jnp.where(there, jnp.minimum(ratio, 1), 0), there


def _laws(tree, q):
  """What the verified child of each inner node was drawn from."""
  laws = {int(node): q[node] for node in tree.inner}
  laws[ROOT] = picked_law(q[ROOT], int(tree.num_children[ROOT]))
  return laws


def coins(tree):
  """One for each child of the root but the last."""
  return int(tree.num_children[ROOT]) - 1


def decide(tree, proposal, tokens, q, p, eta, *, chances=None, told=None):
  """See `tv_jax.verifiers.Verifier`; `chances` to pick are to be 1/k, .. ."""
  del proposal
  N, k = len(tree), int(tree.num_children[ROOT])
  chances = chances or [1 / (k - j) for j in range(k - 1)]
  told = told or chances
  laws = _laws(tree, q)
  accept = jnp.full(N + k - 1, NOT_OFFERED, p.dtype)
  node, waiting = jnp.int32(ROOT), jnp.array(True)  # is none picked yet?
  for j, child in enumerate(tree.children[ROOT, :k]):
    picked = waiting
    if j < k - 1:
      told_here = jnp.asarray(told[j], p.dtype)
      accept = accept.at[N + j].set(jnp.where(waiting, told_here, NOT_OFFERED))
      picked &= eta[N + j] < chances[j]
    waiting &= ~picked
    above, going = ROOT, picked
    for below in _line(tree, child):
      chance, there = _chance(tokens, p, laws, above, below)
      offered = going & there
      accept = accept.at[below].set(jnp.where(offered, chance, accept[below]))
      going = offered & (eta[below] < chance)
      node = jnp.where(going, below, node)
      above = below
  residuals = [
    jnp.maximum(p[v] - laws[v], 0) if v in laws else p[v] for v in range(N)
  ]
  return settle(
    node=node,
    weights=jnp.stack(residuals)[node],
    p=p,
    accept=accept,
    fault=jnp.array(False),
  )


def stop_law(tree, proposal, tokens, q, p):
  """[N] the chance of each node to be the accepted one."""
  del proposal
  laws, k = _laws(tree, q), int(tree.num_children[ROOT])
  law = jnp.zeros(len(tree), p.dtype)
  for child in tree.children[ROOT, :k]:
    above, reach = ROOT, jnp.asarray(1 / k, p.dtype)
    for below in _line(tree, child):
      chance, _ = _chance(tokens, p, laws, above, below)
      law = law.at[above].add(reach * (1 - chance))
      above, reach = below, reach * chance
    law = law.at[above].add(reach)
  return law


RULE = Verifier(
  name="random_path",
  decide=decide,
  stop_law=stop_law,
  direction=DOWN,
  proposals=("without_replacement",),
  coins=coins,
)
# It picks the second of two children too often: the law is broken.
UNFAIR = Verifier(
  name="unfair",
  decide=functools.partial(decide, chances=[0.3]),
  proposals=("without_replacement",),
  coins=coins,
)
# It says so: the law is not, where it was.
LIAR = Verifier(
  name="liar",
  decide=functools.partial(decide, told=[0.3]),
  proposals=("without_replacement",),
  coins=coins,
)
