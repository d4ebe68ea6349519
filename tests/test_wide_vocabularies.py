"""Large vocabularies in float64, beside the programs as they are compiled.

jaxlib 0.10.2 sums some fused programs wrongly on CPUs, of more than 32,768 rows
(jax issue 39103). None of ours is hit, as long as this holds.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tv_jax
from tests import checkpoints, quick
from tv_jax import probs, replay
from tv_jax.engine.pair import Pair
from tv_jax.models import mask

# Of float32 sums over V terms; a wrong sum lacks whole blocks of them.
NEAR = 1e-4
PROMPTS = [[1, 2, 3], [70, 5]]
TEMPERATURE = 0.7
HOW = {
  "tree": "branching:2,1",
  "verifier": "traversal",
  "panel": ["token_level"],
  "temperature": TEMPERATURE,
  "max_new_tokens": 12,
  "batch_size": 2,
  "progress": False,
}


def softmax(logits):
  weights = np.exp(logits - logits.max(-1, keepdims=True))
  return weights / weights.sum(-1, keepdims=True)


def logits(model, tokens):
  """[T, V] after each token, of products in float64."""
  tokens = jnp.asarray([tokens], jnp.int32)
  cache = model.init_cache(*tokens.shape)
  places = jnp.arange(tokens.shape[1], dtype=jnp.int32)[None]
  seen = mask.causal(cache.length, tokens.shape[1], cache.slots)
  features = model.module.apply(
    {"params": model.params}, tokens, places, seen, cache
  )[1]
  unembedding = model.params["unembedding"]
  return np.asarray(features[0], float) @ np.asarray(unembedding, float)


@functools.partial(jax.jit, static_argnums=0)
def _laws(target, tokens):
  return probs.law(target.logits(tokens), temperature=TEMPERATURE)


def children(tree, node):
  return [i for i, parent in enumerate(tree.parents) if i and parent == node]


def rejected(g, law, token):
  """What is left of `g` and of the proposal after a sibling."""
  left = np.maximum(g - law, 0) / np.maximum(law - g, 0).sum()
  law = law.copy()
  law[token] = 0
  return left, law / law.sum()


def traversal(tree, tokens, q, p):
  """Tokens a cycle: leaves first, each node offered with the mass it has."""
  length = 0.0

  def visit(node, entry, depth, above):
    nonlocal length
    g, law = entry * p.get(node, np.ones(1)), q.get(node)
    for child in children(tree, node):
      token = tokens[child]
      start = min(1, g[token] / law[token])
      above = visit(child, start, depth + 1, above)
      g, law = rejected(g, law, token)
    mass = g.sum() if node else 1
    length += above * mass * (depth + 1)
    return above * (1 - mass)

  visit(0, 1, 0, 1.0)
  return length


def token_level(tree, tokens, q, p, node=0):
  """Tokens a cycle: from the root down, one of each node's children."""
  length, left = 1.0, 1.0
  g, law = p.get(node), q.get(node)
  for child in children(tree, node):
    token = tokens[child]
    chance = min(1, g[token] / law[token])
    length += left * chance * token_level(tree, tokens, q, p, child)
    left *= 1 - chance
    g, law = rejected(g, law, token)
  return length


@pytest.mark.optimised
@pytest.mark.parametrize("V", quick.shorter([49152, 128256]))
def test_laws_and_lengths(V, tmp_path):
  config = checkpoints.tiny(vocab_size=V, num_hidden_layers=1)
  target, draft = checkpoints.ours(config), checkpoints.ours(config, seed=1)
  draft.params["unembedding"] = (
    0.5 * draft.params["unembedding"] + target.params["unembedding"]
  )
  pair = Pair(target=target, draft=draft, draft_kind="independent", ends=())
  result = tv_jax.generate(pair, PROMPTS, **HOW)
  tv_jax.record(pair, PROMPTS, tmp_path / "cycles.npz", **HOW)
  cycles = replay.load(tmp_path / "cycles.npz")

  for item, prompt in enumerate(PROMPTS):
    said = result.tokens[item]
    wanted = logits(target, [*prompt, *said])[len(prompt) - 1 : -1]
    law = _laws(target, jnp.asarray([[*prompt, *said]], jnp.int32))
    law = law[0, len(prompt) - 1 : -1]
    exact = softmax(wanted / TEMPERATURE)
    np.testing.assert_allclose(law, exact, rtol=NEAR, atol=1e-9)

  lengths = {"traversal": [], "token_level": []}
  replayed = {rule: replay.expected_lengths(rule, cycles) for rule in lengths}
  for at in np.lexsort([cycles.cycle, cycles.item]):
    rows, inner = [], cycles.tree.inner.tolist()
    for laws in (cycles.q[at], cycles.p[at]):
      laws = laws.astype(float)
      np.testing.assert_allclose(laws.sum(-1), 1, atol=1e-5)
      rows.append(dict(zip(inner, laws, strict=True)))
    for rule in (traversal, token_level):
      found = rule(cycles.tree, cycles.tokens[at], *rows)
      np.testing.assert_allclose(replayed[rule.__name__][at], found, rtol=NEAR)
      lengths[rule.__name__].append(found)
  for rule, found in lengths.items():
    own = np.concatenate([*result.expected[rule]])
    np.testing.assert_allclose(own, found, rtol=NEAR)
    assert max(found) > 1.01  # the models have something in common
