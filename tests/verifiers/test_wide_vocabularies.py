"""Large vocabularies: the compiled float32 programs against float64.

On CPUs, jaxlib 0.10.2 sums wrongly in some fused programs of more than 32,768
rows (jax issue 39103). These tests show that no program of ours is affected.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tv_jax
from tests.lib import checkpoints, oracle
from tv_jax import probs, replay
from tv_jax import tree as tree_lib
from tv_jax.engine.pair import Pair
from tv_jax.models import causal_pass
from tv_jax.proposals import INVALID, PROPOSALS
from tv_jax.verifiers import VERIFIERS, Draft

# The error of float32 sums over V terms; a wrong sum lacks whole blocks.
NEAR = 1e-4
PROMPTS = [[1, 2, 3], [70, 5]]
TEMPERATURE = 0.7
WOR = "without_replacement"
OPTIONS = {
  "tree": "branching:2,1",
  "verifier": "traversal",
  "panel": ["token_level"],
  "temperature": TEMPERATURE,
  "max_new_tokens": 5,
  "batch_size": 2,
}


def softmax(logits):
  weights = np.exp(logits - logits.max(-1, keepdims=True))
  return weights / weights.sum(-1, keepdims=True)


def logits(model, tokens):
  """[T, V] after each token, of products in float64."""
  tokens = jnp.asarray([tokens], jnp.int32)
  cache = model.init_cache(*tokens.shape)
  features = causal_pass(model.module, model.params, (tokens,), cache)[1]
  unembedding = model.params["unembedding"]
  return np.asarray(features[0], float) @ np.asarray(unembedding, float).T


def expected(cycles, at, rule):
  """Returns tokens that a cycle gains, by the oracle in float64."""
  tree, rows = cycles.tree, []
  place = np.searchsorted(tree.inner, np.arange(len(tree)))
  for laws in (cycles.q[at], cycles.p[at]):
    laws = laws.astype(float)
    np.testing.assert_allclose(laws.sum(-1), 1, atol=1e-5)
    laws = [tuple(law.tolist()) for law in laws]
    # Laws after leaves are not kept, and change no length.
    rows.append(tuple(laws[i % len(laws)] for i in place))
  tokens = tuple(cycles.tokens[at].tolist())
  q, p = rows
  draft = oracle.Draft(tree.parents, tokens, q, p, cycles.proposal.name)
  stop = oracle.stop_law(draft, rule)
  return sum(chance * (tree.depth[v] + 1) for v, chance in stop.items())


@pytest.mark.optimised
def test_a_rule_of_more_than_32768_tokens():
  tree, rng, V = tree_lib.branching([2, 1]), np.random.default_rng(0), 49152
  more, theirs = rng.normal(size=(2, len(tree), V)).astype("f4")
  ours = theirs + more / 2
  # Likelier by the draft, all but the second: by the target, a little.
  quantiles = zip((0, 0, 1, 2), (0.95, 0.58, 0.95, 0.95), strict=True)
  drawn = [np.argsort(more[node])[int(V * at)] for node, at in quantiles]
  tokens = jnp.array([INVALID, *drawn], jnp.int32)

  @jax.jit
  def compiled(ours, theirs):
    q, p = (
      probs.from_logits(x, temperature=TEMPERATURE) for x in (ours, theirs)
    )
    draft = Draft(tree, PROPOSALS[WOR], tokens, q, p)
    return q, p, VERIFIERS["traversal"].stopping(draft)

  *laws, stop = compiled(ours, theirs)
  exact = [softmax(x.astype(float) / TEMPERATURE) for x in (ours, theirs)]
  np.testing.assert_allclose(laws, exact, rtol=NEAR)
  q, p = (tuple(tuple(row.tolist()) for row in law) for law in exact)
  draft = oracle.Draft(tree.parents, tuple(tokens.tolist()), q, p, WOR)
  law = oracle.stop_law(draft, "traversal")
  wanted = [float(law[v]) for v in range(len(tree))]
  np.testing.assert_allclose(stop, wanted, rtol=NEAR)


@pytest.mark.long  # one rule is above
@pytest.mark.optimised
def test_laws_and_lengths(tmp_path):
  config = checkpoints.tiny(vocab_size=49152, num_hidden_layers=1)
  target, draft = checkpoints.ours(config), checkpoints.ours(config, seed=1)
  draft.params["unembedding"] = (
    0.5 * draft.params["unembedding"] + target.params["unembedding"]
  )
  pair = Pair(target=target, draft=draft, ends=())
  result = tv_jax.generate(pair, PROMPTS, progress=False, **OPTIONS)
  path, options = tmp_path / "cycles.npz", tv_jax.Options(**OPTIONS)
  tv_jax.record(pair, PROMPTS, path, options, progress=False)
  cycles = replay.load(tmp_path / "cycles.npz")

  for item, prompt in enumerate(PROMPTS):
    # Laws after the first cycle's root, as they were drawn and recorded.
    (first,) = np.flatnonzero((cycles.item == item) & (cycles.cycle == 0))
    for model, laws in ((target, cycles.p), (draft, cycles.q)):
      exact = softmax(logits(model, prompt)[-1] / TEMPERATURE)
      np.testing.assert_allclose(laws[first, 0], exact, rtol=NEAR, atol=1e-9)

  order = np.lexsort([cycles.cycle, cycles.item])
  for rule in ("traversal", "token_level"):
    wanted = [expected(cycles, at, rule) for at in order]
    ours = np.concatenate([*result.expected[rule]])
    np.testing.assert_allclose(ours, wanted, rtol=NEAR)
    assert max(wanted) > 1.01  # the models have something in common
