"""All rules, proposals and trees, and how many drafts go through one program.

Compiling is most of what this costs. So nearly everything is a batch of lanes
through one program per (rule, tree): a lane holds a draft of V tokens, its
coins, and which proposal drew it. Smaller vocabularies leave tokens without
probability, and smaller trees leave nodes INVALID.
"""

import dataclasses
import functools
import random
from collections.abc import Mapping
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np

from examples.rules import k_seq
from tests.lib import oracle
from tv_jax import tree as tree_lib
from tv_jax.proposals import PROPOSALS
from tv_jax.verifiers import (
  NOT_OFFERED,
  VERIFIERS,
  Draft,
  Verifier,
)

V = 8
LANES = 512  # of a program

FIGURE_1 = tree_lib.from_parents([-1, 0, 0, 1, 1, 2])
LOPSIDED = tree_lib.from_parents([-1, 0, 0, 0, 0, 2, 2, 2, 5])
CHAIN = tree_lib.chain(6)
TREES = {
  "lopsided": LOPSIDED,
  "figure 1": FIGURE_1,
  "eagle": tree_lib.EAGLE_SPARSE,
  "chain": CHAIN,
}

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
  """

  rule: Verifier
  method: str
  trees: Mapping[str, tree_lib.Tree]
  proposals: tuple[str, ...] = (*NAMES,)

  @property
  def tree(self):
    return next(iter(self.trees.values()))


def _table():
  for name in ("traversal", "token_level"):
    reference = VERIFIERS[f"{name}_reference"]
    yield name, Case(VERIFIERS[name], name, TREES)
    yield f"{name}, reference", Case(reference, name, TREES)
  yield "block", Case(VERIFIERS["block"], "block", {"chain": CHAIN})
  lopsided = {"lopsided": LOPSIDED}
  yield "k_seq", Case(k_seq.rule, "k_seq", lopsided, (IID,))


RULES = dict(_table())


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Lanes:
  """Drafts of a tree, with the index of their proposal in PROPOSALS."""

  tokens: np.ndarray  # [B, N]
  q: np.ndarray  # [B, N, V]
  p: np.ndarray  # [B, N, V]
  which: np.ndarray  # [B]

  def __len__(self):
    return len(self.which)

  def __getitem__(self, index):
    return jax.tree.map(lambda array: array[index], self)


def chosen_proposal(which):
  """The proposal in this place of PROPOSALS; the place may be traced."""

  def laws(q_at, rest, exists):
    options = [each.laws(q_at, rest, exists) for each in PROPOSALS.values()]
    return jax.tree.map(lambda *laws: jnp.stack(laws)[which], *options)

  return dataclasses.replace(PROPOSALS[WOR], laws=laws, rest_from=0)


@functools.cache
def program(name, t):
  """The compiled rule.

  It gives decisions and where the rule stops: zeros if it has no offers.
  """
  case = RULES[name]

  def judge(which, tokens, q, p, eta):
    proposal = chosen_proposal(which)
    if len(case.proposals) == 1:
      proposal = PROPOSALS[case.proposals[0]]
    draft = Draft(t, proposal, tokens, q, p)
    decision = case.rule.decide(draft, eta)
    stop = jnp.zeros_like(decision.threshold)
    if case.rule.offers:
      stop = case.rule.stopping(draft)
    return decision, stop

  return jax.jit(jax.vmap(judge))


def padded(array, length, value: float = 0, axis=0):
  pad = [(0, 0)] * array.ndim
  pad[axis] = (0, length - array.shape[axis])
  return np.pad(array, pad, constant_values=value)


def run(rule, t, lanes, eta):
  """Every lane through the rule: decisions, and where it stops [B, N]."""
  draft = lanes.tokens, lanes.q, lanes.p, np.asarray(eta, lanes.p.dtype)
  call, parts = program(rule, t), []
  for start in range(0, len(lanes), LANES):
    rows = slice(start, start + LANES)
    part = [padded(array[rows], LANES) for array in (lanes.which, *draft)]
    parts.append(jax.tree.map(np.asarray, call(*part)))
  return jax.tree.map(
    lambda *arrays: np.concatenate(arrays)[: len(lanes)], *parts
  )


# Drafts in rational numbers, for the oracle.

HIGH = 1 - 1.234567e-9  # coins that reject unless acceptance is certain
LOW = 1.234567e-9  # coins that accept unless acceptance is impossible


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


def random_drafts(name, t, count, seed):
  """Drafts that the rule is defined for, of its proposals in turn."""
  case, rng, drafts = RULES[name], random.Random(seed), []
  while len(drafts) < count:
    proposal = case.proposals[len(drafts) % len(case.proposals)]
    drafts.append(random_draft(rng, t, proposal))
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


def assert_agrees(t, draft, method, eta, decision, lane):
  """One decision is the oracle's, threshold for threshold."""
  node, residual, tossed = oracle.decide(draft, method, eta)
  assert decision.node[lane] == node, f"{draft} at coins {eta}"
  threshold, expected = decision.threshold[lane], np.full(len(t), NOT_OFFERED)
  expected[list(tossed)] = [float(x) for x in tossed.values()]
  # A node that cannot be entered may be skipped instead of offered.
  expected[(expected == 0) & (threshold == NOT_OFFERED)] = NOT_OFFERED
  for name, ours, theirs in (
    ("residual", decision.residual[lane], floats([residual])[0]),
    ("threshold", threshold, expected),
  ):
    error = np.abs(ours - theirs).max()
    assert error <= 1e-12, f"{name}: {error} in {draft} at coins {eta}"


def assert_oracle_agrees(rule, t, drafts):
  method, coins = RULES[rule].method, aims(t)
  lanes = as_lanes(drafts)[np.repeat(np.arange(len(drafts)), len(t))]
  decision, stop = run(rule, t, lanes, np.tile(coins, (len(drafts), 1)))
  assert not decision.fault.any()
  for case, draft in enumerate(drafts):
    for aim in range(len(t)):
      lane = case * len(t) + aim
      assert_agrees(t, draft, method, coins[aim], decision, lane)
    if not RULES[rule].rule.offers:
      continue
    law = oracle.stop_law(draft, method)
    np.testing.assert_allclose(
      stop[case * len(t)],
      [float(law.get(v, 0)) for v in range(len(t))],
      atol=1e-12,
      rtol=0,
      err_msg=str(draft),
    )


def all_drafts(t, proposal, language):
  """Every draft of a language over a tree: (chances [B], drafts)."""
  pairs = list(oracle.drafts(t.parents, proposal, language))
  return np.array([float(chance) for chance, _ in pairs]), [d for _, d in pairs]


def poisoned(lanes, name, row, column):
  """The lanes with a NaN entry in a law; a NaN row if column is None."""
  laws = getattr(lanes, name).copy()
  laws[:, row, slice(None) if column is None else column] = np.nan
  return dataclasses.replace(lanes, **{name: laws})
