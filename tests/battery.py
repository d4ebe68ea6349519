"""All rules, proposals and trees, and how many drafts go through one program.

Compiling is most of what this costs. So nearly everything is a batch of lanes
through one program per (rule, tree): a lane holds a draft of V tokens, its
coins, and which proposal drew it. Smaller vocabularies leave tokens without
probability, smaller trees leave nodes INVALID, and where the tree is an
argument every tree there is runs in one program.
"""

import dataclasses
import functools
import random
from collections.abc import Mapping
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np

from tests import oracle
from tv_jax import tree as tree_lib
from tv_jax.proposals import INVALID, PROPOSALS, Proposal
from tv_jax.tree import ROOT
from tv_jax.verifiers import (
  NOT_OFFERED,
  VERIFIERS,
  Verifier,
  from_offers,
  ot_traversal,
  pairs,
)

V = 8
LANES = 512  # of a program

FIGURE_1 = tree_lib.from_parents([-1, 0, 0, 1, 1, 2])
LOPSIDED = tree_lib.from_parents([-1, 0, 0, 0, 0, 2, 2, 2, 5])
CHAIN = tree_lib.chain(6)
BUNDLE = tree_lib.branching([3, 1, 1])
TREES = {
  "lopsided": LOPSIDED,
  "figure 1": FIGURE_1,
  "eagle": tree_lib.EAGLE_SPARSE,
  "chain": CHAIN,
  "binary": tree_lib.kary(2, 3),
  "branching": tree_lib.branching([4, 2, 1]),
}
NODES = max(len(t) for t in TREES.values())
WIDTH = 4

NAMES = list(PROPOSALS)
IID, WOR = "with_replacement", "without_replacement"


@dataclasses.dataclass(frozen=True)
class Case:
  """A rule, and where it is tried.

  Attributes:
    rule: The rule.
    method: What it is in the oracle.
    trees: By name; most tests take the first.
    proposals: By name.
    traced: Whether its tree is an argument.
  """

  rule: Verifier
  method: str
  trees: Mapping[str, tree_lib.Tree]
  proposals: tuple[str, ...] = (*NAMES,)
  traced: bool = False

  @property
  def tree(self):
    return next(iter(self.trees.values()))


def planned(how):
  """`ot_traversal` with pairs planned for in another way."""
  return from_offers(
    functools.partial(ot_traversal.offers, how=how),
    proposals=(WOR,),
    static_only=False,
  )


def _table():
  small = {name: TREES[name] for name in ("lopsided", "figure 1")}
  for name in ("traversal", "token_level"):
    loop = f"{name}_loop"
    yield name, Case(VERIFIERS[name], name, TREES)
    yield loop, Case(VERIFIERS[loop], name, TREES, traced=True)
  layers = VERIFIERS["layer_walk"]
  yield "layer_walk", Case(layers, "layer_walk", TREES, traced=True)
  yield "block", Case(VERIFIERS["block"], "block", {"chain": CHAIN})
  own = planned(pairs.How(steps=0, lean=oracle.PAIR_LEAN))
  for name, traced in (("ot_traversal", False), ("ot_traversal, traced", True)):
    yield name, Case(own, "ot_traversal", small, (WOR,), traced)
  lopsided = {"lopsided": LOPSIDED}
  yield "k_seq", Case(VERIFIERS["k_seq"], "k_seq", lopsided, (IID,))
  yield "gbv", Case(VERIFIERS["gbv"], "gbv", {"bundle": BUNDLE}, (IID,))


RULES = dict(_table())
# Of all proposals, on all trees.
TREE_RULES = [name for name, case in RULES.items() if case.trees is TREES]
LOOPS = [name for name in TREE_RULES if RULES[name].traced]


@dataclasses.dataclass(frozen=True)
class Lanes:
  """Drafts of one tree, with the place of their proposal in PROPOSALS."""

  tokens: np.ndarray  # [B, N]
  q: np.ndarray  # [B, N, V]
  p: np.ndarray  # [B, N, V]
  which: np.ndarray  # [B]

  def __len__(self):
    return len(self.which)

  def repeat(self, times):
    """Each lane `times` times, one after the other."""
    return self._map(lambda array: np.repeat(array, times, axis=0))

  def __getitem__(self, index):
    return self._map(lambda array: array[index])

  def _map(self, function):
    fields = dataclasses.fields(self)
    return Lanes(*(function(getattr(self, field.name)) for field in fields))


@dataclasses.dataclass(frozen=True)
class Results:
  """Decisions and stop laws, as NumPy arrays with a leading lane axis."""

  node: np.ndarray
  residual: np.ndarray
  accept: np.ndarray
  fault: np.ndarray
  stop: np.ndarray


def chosen_proposal(which):
  """The proposal in this place of PROPOSALS; the place may be traced."""

  def laws(q_at, rest, exists):
    options = [own.laws(q_at, rest, exists) for own in PROPOSALS.values()]
    return jax.tree.map(lambda *ways: jnp.stack(ways)[which], *options)

  return Proposal(draw=None, laws=laws, following=None, rest_from=0)


def judge(rule, t, proposal, tokens, q, p, eta):
  """A decision, and the law of it."""
  decision = rule.decide(t, proposal, tokens, q, p, eta)
  return Results(
    decision.node,
    decision.residual,
    decision.accept,
    decision.fault,
    rule.stop_law(t, proposal, tokens, q, p),
  )


jax.tree_util.register_dataclass(Results)


@functools.cache
def program(name, t, proposal=None):
  """The compiled rule; without a tree it takes a topology, one a lane."""
  case = RULES[name]
  if len(case.proposals) == 1:
    (proposal,) = case.proposals

  def one(topology, which, *draft):
    own = chosen_proposal(which) if proposal is None else PROPOSALS[proposal]
    return judge(case.rule, topology if t is None else t, own, *draft)

  return jax.jit(jax.vmap(one))


def padded(array, length, value=0):
  pad = [(0, length - len(array)), *[(0, 0)] * (array.ndim - 1)]
  return np.pad(array, pad, constant_values=value)


def padded_nodes(array, value):
  pad = [(0, 0), (0, NODES - array.shape[1]), *[(0, 0)] * (array.ndim - 2)]
  return np.pad(array, pad, constant_values=value)


def run(rule, t, lanes, eta, proposal=None):
  """Every lane through the rule: Results."""
  N = len(t)
  q, p, tokens = lanes.q, lanes.p, lanes.tokens
  eta = np.asarray(eta, p.dtype)
  loop = RULES[rule].traced
  if loop:  # padded nodes are never visited: their laws need not be any
    topology = t.topology(nodes=NODES, width=WIDTH)
    q, p = padded_nodes(q, np.nan), padded_nodes(p, np.nan)
    tokens, eta = padded_nodes(tokens, 0), padded_nodes(eta, 0)
  parts = []
  for start in range(0, len(lanes), LANES):
    part = [
      padded(array[start : start + LANES], LANES)
      for array in (lanes.which, tokens, q, p, eta)
    ]
    own = jax.tree.map(lambda x: np.stack([x] * LANES), topology) if loop else 0
    if not loop:
      own = np.zeros(LANES, np.int32)
    call = program(rule, None if loop else t, proposal)
    parts.append(jax.tree.map(np.asarray, call(own, *part)))
  whole = jax.tree.map(lambda *arrays: np.concatenate(arrays), *parts)
  whole = jax.tree.map(lambda array: array[: len(lanes)], whole)
  return dataclasses.replace(
    whole, accept=whole.accept[:, :N], stop=whole.stop[:, :N]
  )


# Drafts in rational numbers, for the oracle.

HIGH = 1 - 1.234567e-9  # coins that miss all but what is certain,
LOW = 1.234567e-9  # and that hit all but what is impossible


def random_law(rng, kind):
  """A law on at most V tokens, with the awkward features of its kind."""
  if kind == "one-hot":
    weights = [0] * V
    weights[rng.randrange(V)] = 1
  elif kind == "sharp":
    weights = [rng.choice([0, 1]) for _ in range(V)]
    weights[rng.randrange(V)] = 1000
  elif kind == "ties":
    weights = [rng.choice([0, 1, 1, 2]) for _ in range(V - 1)] + [1]
  elif kind == "few":
    weights = [rng.choice([0, 0, 0, 0, 1, 3]) for _ in range(V)]
    weights[rng.randrange(V)] += 2
  else:
    weights = [rng.randint(1, 12) for _ in range(V)]
  return oracle.norm([Fraction(w) for w in weights])


def random_pair(rng):
  """(q, p), sometimes equal, disjoint, or alike but for one token."""
  kinds = ["plain", "plain", "few", "few", "ties", "sharp", "one-hot"]
  q, p = random_law(rng, rng.choice(kinds)), random_law(rng, rng.choice(kinds))
  relation = rng.choice(["free", "free", "free", "equal", "disjoint", "near"])
  if relation == "equal":
    p = q
  if relation == "disjoint":
    free = [Fraction(int(x == 0)) for x in q]
    p = oracle.norm(free) if any(free) else p
  if relation == "near":
    weights = list(q)
    weights[rng.randrange(V)] += Fraction(1, 16)
    p = oracle.norm(weights)
  return q, p


def random_tokens(rng, parents, q, proposal):
  """Tokens drawn as the proposal draws them, with a few spoiled."""
  tokens = [oracle.NONE] * len(parents)
  for node in range(len(parents)):
    siblings = oracle.children_of(parents, node)
    drawn = []
    for child in siblings:
      law = oracle.next_law(proposal, q[node], drawn, len(siblings))
      lost = node != oracle.ROOT and tokens[node] == oracle.NONE
      if sum(law) and not lost:
        tokens[child] = rng.choices(range(V), [float(x) for x in law])[0]
        # What cannot have been drawn is never offered, INVALID or not.
        if proposal == "with_replacement" and rng.random() < 0.05:
          tokens[child] = rng.randrange(V)
        if proposal != "sample_then_top" and rng.random() < 0.05:
          tokens[child] = oracle.NONE
      drawn.append(tokens[child])
  return tuple(tokens)


def random_draft(rng, t, proposal):
  laws = [random_pair(rng) for _ in t.parents]
  q, p = zip(*laws, strict=True)
  tokens = random_tokens(rng, t.parents, q, proposal)
  return oracle.Draft(t.parents, tokens, q, p, proposal)


def drawable(draft):
  """Whether no sibling is missing that can be drawn: no plan is for such."""
  for node in range(len(draft.parents)):
    missing = [
      draft.tokens[child] == oracle.NONE
      for child in oracle.children_of(draft.parents, node)
    ]
    if missing != sorted(missing):
      return False
  try:
    return bool(oracle.ot_traversal_offers(draft))
  except KeyError:
    return False


def random_drafts(name, t, count, seed):
  """Drafts that the rule is defined for, of its proposals in turn."""
  case, rng, drafts = RULES[name], random.Random(seed), []
  while len(drafts) < count:
    proposal = case.proposals[len(drafts) % len(case.proposals)]
    draft = random_draft(rng, t, proposal)
    if case.method != "ot_traversal" or drawable(draft):
      drafts.append(draft)
  return drafts


def floats(rows):
  return [[float(x) for x in row] + [0.0] * (V - len(row)) for row in rows]


def as_lanes(drafts):
  return Lanes(
    tokens=np.array([draft.tokens for draft in drafts], np.int32),
    q=np.array([floats(draft.q) for draft in drafts]),
    p=np.array([floats(draft.p) for draft in drafts]),
    which=np.array([NAMES.index(d.proposal) for d in drafts], np.int32),
  )


def aims(t):
  """[N, N] coins that make for each node in turn: it and all above it hit."""
  return np.where(t.ancestors, LOW, HIGH)


def assert_agrees(t, draft, method, eta, results, lane):
  """One decision is the oracle's, threshold for threshold."""
  node, residual, tossed = oracle.decide(draft, method, eta)
  assert results.node[lane] == node, f"{draft} at coins {eta}"
  accept, expected = results.accept[lane], np.full(len(t), NOT_OFFERED)
  expected[list(tossed)] = [float(x) for x in tossed.values()]
  # A node that cannot be entered may be skipped instead of offered.
  expected[(expected == 0) & (accept == NOT_OFFERED)] = NOT_OFFERED
  for name, one, other in (
    ("residual", results.residual[lane], [float(x) for x in residual]),
    ("accept", accept, expected),
  ):
    error = np.abs(one - other).max()
    assert error <= 1e-12, f"{name}: {error} in {draft} at coins {eta}"


def assert_oracle_agrees(rule, t, drafts, proposal=None):
  method = RULES[rule].method
  coins = aims(t)
  lanes = as_lanes(drafts)
  results = run(
    rule,
    t,
    lanes.repeat(len(t)),
    np.tile(coins, (len(drafts), 1)),
    proposal=proposal,
  )
  assert not results.fault.any()
  for case, draft in enumerate(drafts):
    for aim in range(len(t)):
      lane = case * len(t) + aim
      assert_agrees(t, draft, method, coins[aim], results, lane)
    law = oracle.stop_law(draft, method)
    np.testing.assert_allclose(
      results.stop[case * len(t)],
      [float(law.get(v, 0)) for v in range(len(t))],
      atol=1e-12,
      rtol=0,
      err_msg=str(draft),
    )


def all_drafts(t, proposal, language):
  """Every draft of a language over a tree: (chances [B], drafts)."""
  pairs = list(oracle.drafts(t.parents, proposal, language))
  return np.array([float(chance) for chance, _ in pairs]), [d for _, d in pairs]


# Drafts in numbers, many at once.


def random_lanes(rng, t, count, only=NAMES):
  """Random laws, and tokens drawn from them, in vectorised NumPy."""
  N = len(t)

  def laws():
    sharpness = rng.choice([0.3, 1.0, 5.0], (count, N, 1))
    weights = rng.gamma(sharpness, size=(count, N, V)) + 1e-9
    zeros = rng.random((count, N, V)) < rng.choice([0, 0.3, 0.7], (count, N, 1))
    zeros[..., 0] = False
    weights = rng.permuted(np.where(zeros, 0, weights), axis=2)
    return weights / weights.sum(axis=2, keepdims=True)

  q, p = laws(), laws()
  p = np.where(rng.random((count, N, 1)) < 0.1, q, p)
  which = rng.choice([NAMES.index(name) for name in only], count)
  tokens = np.full((count, N), INVALID)
  for node in range(N):
    for child, law in sibling_laws(t, node, which, q[:, node], tokens):
      law = law * ((node == ROOT) | (tokens[:, node, None] != INVALID))
      below = law.cumsum(axis=1)
      coin = rng.random((count, 1)) * below[:, -1:]
      drawn = np.argmax((below > coin) & (law > 0), axis=1)
      tokens[:, child] = np.where(below[:, -1] > 0, drawn, INVALID)
  return Lanes(tokens.astype(np.int32), q, p, which.astype(np.int32))


def sibling_laws(t, node, which, q, tokens):
  """(child, [B, V]) in turn: the weights that it is drawn from."""
  k = int(t.num_children[node])
  ranking = np.argsort(-q, axis=1, kind="stable")
  place = np.argsort(ranking, axis=1, kind="stable")  # of each token
  taken = np.zeros_like(q, bool)
  for j, child in enumerate(t.children[node, :k]):
    top = np.where(place == j, q, 0)
    then_top = np.where(place == j - 1, q, 0) if j else q * (place >= k - 1)
    options = [q * ~taken, q, top, then_top]
    yield int(child), np.stack(options)[which, np.arange(len(q))]
    drawn = tokens[:, child]
    taken |= np.arange(V) == drawn[:, None]


def assert_same(one, other, lanes, atol=1e-12):
  np.testing.assert_array_equal(one.node, other.node)
  np.testing.assert_array_equal(one.fault, other.fault)
  for field in ("residual", "accept", "stop"):
    np.testing.assert_allclose(
      getattr(one, field),
      getattr(other, field),
      atol=atol,
      rtol=0,
      err_msg=field,
    )


def poisoned(lanes, name, row, column, value=np.nan):
  """The lanes with one entry, or (column None) one row, of one law spoiled."""
  laws = getattr(lanes, name).copy()
  laws[:, row, slice(None) if column is None else column] = value
  return dataclasses.replace(lanes, **{name: laws})


def hardened(rng, lanes):
  """Laws as models give them: most of the mass on a token, tiny tails."""

  def harden(law):
    power = rng.choice([1, 4, 12], (*law.shape[:2], 1))
    law = law.astype(np.float32) ** power
    return (law / law.sum(axis=2, keepdims=True)).astype(np.float32)

  return dataclasses.replace(lanes, q=harden(lanes.q), p=harden(lanes.p))


def coins_near(first, rng):
  """Coins a hair above and below thresholds."""
  accept = np.clip(first.accept, 0, HIGH)
  return accept * np.where(rng.random(accept.shape) < 0.5, 1 + 1e-9, 1 - 1e-9)
