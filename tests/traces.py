"""Items and traces as a run writes them, of random laws on a few words."""

import dataclasses
import functools

import jax
import numpy as np

from tv_jax import tree as tree_lib
from tv_jax.engine.records import Judged
from tv_jax.proposals import INVALID, PROPOSALS
from tv_jax.runs import answers
from tv_jax.runs.records import Answer, Method
from tv_jax.tree import ROOT, Tree
from tv_jax.verifiers import DOWN, UP, VERIFIERS

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
  tokens, drawn, *laws = map(np.stack, zip(*drafts, strict=True))
  laws = [values.astype(np.float32) for values in laws]  # q, p, coins
  judged = {
    rule: Judged(*map(np.asarray, _judge(rule, shape, proposal)(tokens, *laws)))
    for rule in {verifier, *panel}
  }
  made, root = [], " The"
  for number in range(cycles):
    own = tokens[number]
    pieces = [root, *(None if t == INVALID else WORDS[t] for t in own[1:])]
    root = WORDS[rng.integers(len(WORDS))]
    made.append(
      {
        "cycle": number,
        "parents": list(shape.parents),
        "pieces": pieces,
        "p": _at_tokens(shape, laws[1][number], own),
        "q": _at_tokens(shape, laws[0][number], own),
        "drawn": [None, *map(_or_none, drawn[number][1:])],
        "coins": laws[2][number].tolist(),
        "stop": {rule: judged[rule].stop[number].tolist() for rule in panel},
        "direction": {
          rule: DOWN if VERIFIERS[rule].walk == DOWN else UP for rule in panel
        },
        "walks": {
          rule: answers.walk(
            VERIFIERS[rule],
            shape.parents,
            np.arange(len(shape)),
            Judged(*(values[number] for values in judged[rule])),
          )
          for rule in panel
        },
        "node": int(judged[verifier].node[number]),
        "bonus": root,
      }
    )
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
    "cycles": made,
  }


def items(
  tasks=("qa", "translation"),
  trees=("chain:5", "eagle"),
  verifiers=("token_level", "traversal"),
  questions=3,
  cycles=20,
):
  """Finished items of a grid, one of them failed, and plain decoding."""
  rng = np.random.default_rng(0)
  made = []
  for task in tasks:
    for question in range(questions):
      made.append(answer(task, question, "none", "plain", [1] * 9))
      for tree in trees:
        for skill, verifier in enumerate(verifiers):
          gained = 1 + rng.binomial(5, 0.5 + 0.05 * skill, cycles)
          own = answer(task, question, tree, verifier, gained.tolist())
          made.append(own)
  failed = answer(tasks[0], 99, trees[0], verifiers[0], [])
  return [*made, dataclasses.replace(failed, error="out of memory")]


def answer(task, question, tree, verifier, accepted, turn=0):
  method = Method(
    tree=tree,
    proposal="without_replacement",
    verifier=verifier,
    temperature=1.0,
    seed=0,
  )
  return Answer(
    task=task, question=question, turn=turn, method=method, accepted=accepted
  )


def _draft(rng, shape, proposal):
  """(tokens [N], their chances [N], q [N, V], p [N, V], coins [N])."""
  N, V = len(shape), len(WORDS)
  q = rng.dirichlet(np.full(V, 0.25), N)
  q = np.where(q < 0.02, 0, q)
  # Now and then a node has fewer tokens to draw than it has children.
  narrow = rng.random(N) < 0.08
  q[narrow] = q[narrow] == q[narrow].max(axis=1, keepdims=True)
  q /= q.sum(axis=1, keepdims=True)
  p = 0.7 * q + 0.3 * rng.dirichlet(np.full(V, 0.4), N)
  tokens, chance = np.full(N, INVALID, np.int32), np.full(N, np.nan)
  for node in shape.inner:
    siblings = shape.children[node, : shape.num_children[node]]
    drawn = []
    for child in siblings:
      law = proposal.following(q[node], tuple(drawn), len(siblings))
      if (node == ROOT or tokens[node] != INVALID) and law.sum() > 0:
        tokens[child] = rng.choice(V, p=law)
        chance[child] = law[tokens[child]]
      drawn.append(int(tokens[child]))
  return tokens, chance, q, p, rng.random(N)


@functools.cache
def _judge(rule, shape, proposal):
  """`Judged` of many drafts."""

  def one(tokens, q, p, eta):
    draft = shape, PROPOSALS[proposal], tokens, q, p
    own = VERIFIERS[rule]
    decision = own.decide(*draft, eta)
    return own.stop_law(*draft), decision.node, decision.accept

  quick = {"xla_backend_optimization_level": 0}
  return jax.jit(jax.vmap(one), compiler_options=quick)


def _at_tokens(shape, laws, tokens):
  """What each node's token has in the law of its parent."""
  return [None] + [
    None if token == INVALID else float(laws[parent, token])
    for parent, token in zip(shape.parents[1:], tokens[1:], strict=True)
  ]


def _or_none(x):
  return None if np.isnan(x) else float(x)


def expected_length(cycle, rule):
  """Tokens that the rule gains from this draft on average, with the bonus."""
  tree = Tree(tuple(cycle["parents"]))
  return float(np.array(cycle["stop"][rule]) @ (tree.depth + 1))
