"""Programs that hold several rules, and what is traced of drafted trees."""

import jax
import numpy as np
import pytest

import tv_jax
from tests.checkpoints import pair
from tests.test_generation import PROMPTS, batch_of
from tv_jax import tree
from tv_jax.engine.config import decode_config
from tv_jax.proposals import PROPOSALS
from tv_jax.verifiers import VERIFIERS


@pytest.mark.parametrize(
  ("kind", "proposal"),
  [
    *(("independent", name) for name in PROPOSALS),
    ("eagle", "without_replacement"),
  ],
)
@pytest.mark.long  # a run's traces are walked in tests/test_evaluate.py
def test_a_trace_says_what_happened(kind, proposal):
  """Cycle by cycle, from the whole laws, which `step` gives out."""
  kept = 3
  options = {
    "tree": "branching:3,2",
    "proposal": proposal,
    "panel": ("token_level",),
    "top_k": 2,  # so that third siblings cannot be drawn
    "max_new_tokens": 12,
  }
  result = tv_jax.generate(pair(kind), PROMPTS, trace=kept, **options)
  shape = tree.parse(options["tree"])
  batch = batch_of(pair(kind), decode_config(pair(kind), **options))
  decide = {
    name: jax.jit(VERIFIERS[name].decide, static_argnums=(0, 1))
    for name in ("traversal", "token_level")
  }
  missing = 0
  for cycle in range(kept):
    drafted, p = batch.step()
    for row, trace in enumerate(result.trace):
      if cycle >= len(trace.node):
        assert len(trace.node) == len(result.accepted[row]) < kept
        continue
      seen = jax.tree.map(lambda array, i=cycle: array[i], trace)
      np.testing.assert_array_equal(seen.tokens[1:], drafted.tokens[row, 1:])
      inner = {int(v): i for i, v in enumerate(shape.inner)}
      for v in range(1, len(shape)):
        token, above = int(seen.tokens[v]), int(shape.parent[v])
        if token < 0:
          missing += 1
          assert seen.p[v] == seen.q[v] == seen.drawn[v] == 0
          continue
        q = np.asarray(drafted.laws[row, inner[above]])
        np.testing.assert_allclose(seen.q[v], q[token], rtol=1e-5)
        np.testing.assert_allclose(
          seen.p[v], p[row, above, token], rtol=1e-4, atol=1e-7
        )
        family = shape.children[above, : shape.num_children[above]]
        elder = tuple(int(seen.tokens[u]) for u in family if u < v)
        law = PROPOSALS[proposal].following(
          q.astype(np.float64), elder, len(family)
        )
        np.testing.assert_allclose(seen.drawn[v], law[token], rtol=1e-4)
      assert shape.depth[seen.node] + 1 == result.accepted[row][cycle]
      # The coins are those that were tossed.
      q = np.zeros((len(shape), p.shape[-1]), np.float32)
      q[shape.inner] = drafted.laws[row]
      for name, judged in seen.panel.items():
        np.testing.assert_allclose(
          judged.stop @ (shape.depth + 1),
          result.expected[name][row][cycle],
          rtol=1e-5,
        )
        decision = decide[name](
          shape, PROPOSALS[proposal], drafted.tokens[row], q, p[row], seen.coins
        )
        assert decision.node == judged.node
        np.testing.assert_allclose(decision.accept, judged.accept, atol=1e-5)
      ran = seen.panel["traversal"]
      assert ran.node == seen.node
      np.testing.assert_array_equal(ran.accept, seen.accept)
  assert missing > 0 or proposal == "with_replacement"
