"""Traces as a run keeps them, of random laws on a few words."""

import functools
import types

import jax
import numpy as np

from tv_jax import tree as tree_lib
from tv_jax.engine.state import trace_tree
from tv_jax.proposals import INVALID, PROPOSALS
from tv_jax.runs import answers
from tv_jax.tree import ROOT, Tree
from tv_jax.verifiers import VERIFIERS

WORDS = (
  *(" the", " fox", " dog", " jumps", " over", " lazy", " brown", " quick"),
  *(" and", ",", ".", "\n", " überall", " 狐狸", " </script>", " \"<b>'&"),
)
PROMPT = "<|user|>\nWhat does the quick brown fox do?\n<|assistant|>\nThe"


def trace(
  tree,
  *,
  verifier="traversal",
  proposal="without_replacement",
  panel=("token_level", "traversal"),
  task="qa",
  question=41,
  cycles=4,
  seed=0,
):
  """One item's trace: drafts of random laws, judged by every rule."""
  shape = tree_lib.parse(tree)
  rng = np.random.default_rng([seed, question, len(shape)])
  drafts = [_draft(rng, shape, PROPOSALS[proposal]) for _ in range(cycles)]
  tokens, *laws = map(np.stack, zip(*drafts, strict=True))
  laws = [values.astype(np.float32) for values in laws]  # q, p, coins
  judge = _judge(shape, proposal, verifier, panel)
  seen = jax.tree.map(np.asarray, judge(tokens, *laws))
  config = types.SimpleNamespace(
    tree=shape,
    nodes=len(shape),
    panel=[VERIFIERS[rule] for rule in panel],
  )
  kept = rng.integers(len(WORDS), size=100).tolist()
  cycles = answers.traced(seen, config, kept, WORDS.__getitem__)
  return {
    "task": task,
    "question": question,
    "turn": 0,
    "tree": tree,
    "proposal": proposal,
    "verifier": verifier,
    "temperature": 1.0,
    "seed": seed,
    "prompt": PROMPT,
    "cycles": cycles,
  }


def _draft(rng, shape, proposal):
  """(tokens [N], q [N, V], p [N, V], coins [N])."""
  N, V = len(shape), len(WORDS)
  q = rng.dirichlet(np.full(V, 0.25), N)
  q = np.where(q < 0.02, 0, q)
  # Now and then a node has fewer tokens to draw than it has children.
  narrow = rng.random(N) < 0.08
  q[narrow] = q[narrow] == q[narrow].max(axis=1, keepdims=True)
  q /= q.sum(axis=1, keepdims=True)
  p = 0.7 * q + 0.3 * rng.dirichlet(np.full(V, 0.4), N)
  tokens = np.full(N, INVALID, np.int32)
  tokens[ROOT] = rng.integers(V)
  for node in shape.inner:
    siblings = shape.children[node, : shape.num_children[node]]
    drawn = []
    for child in siblings:
      law = proposal.following(q[node], tuple(drawn), len(siblings))
      if tokens[node] != INVALID and law.sum() > 0:
        tokens[child] = rng.choice(V, p=law)
      drawn.append(int(tokens[child]))
  return tokens, q, p, rng.random(N)


@functools.cache
def _judge(shape, proposal, verifier, panel):
  """What the engine keeps of many drafts."""

  def judge(tokens, q, p, coins):
    draft = shape, PROPOSALS[proposal], tokens, q, p
    rules = {name: VERIFIERS[name] for name in (verifier, *panel)}
    stops = {name: rule.stop_law(*draft) for name, rule in rules.items()}
    chosen = {name: rule.decide(*draft, coins) for name, rule in rules.items()}
    judged = {name: chosen[name] for name in panel}
    return trace_tree(draft, coins, stops, chosen[verifier], judged)

  quick = {"xla_backend_optimization_level": 0}
  return jax.jit(jax.vmap(judge), compiler_options=quick)


def expected_length(cycle, rule):
  """Tokens that the rule gains from this draft on average, with the bonus."""
  tree = Tree(tuple(cycle["parents"]))
  return float(np.array(cycle["stop"][rule]) @ (tree.depth + 1))
