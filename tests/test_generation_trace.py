"""Programs that hold several rules, and what is traced of drafted trees."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tv_jax
from tests.checkpoints import pair
from tests.test_generation import PROMPTS, whole
from tv_jax import engine, tree
from tv_jax.engine import program, stages
from tv_jax.proposals import PROPOSALS
from tv_jax.verifiers import (
  NOT_OFFERED,
  VERIFIERS,
  Verifier,
  checked,
  derived,
  is_built_in,
  toss,
)


@pytest.mark.parametrize(
  ("kind", "proposal"),
  [
    *(("independent", name) for name in PROPOSALS),
    ("eagle", "without_replacement"),
  ],
)
@pytest.mark.long  # a run's traces are walked in tests/test_evaluate.py
def test_a_trace_says_what_happened(kind, proposal):
  """Cycle by cycle, from the whole laws, which `observe` gives out."""
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
  how = engine.resolve(pair(kind), **options)
  params, request, caches, new = whole(pair(kind), how)
  prefill = jax.jit(program.prefill, static_argnums=(0, 4))
  observe = jax.jit(stages.observe, static_argnums=0)
  decide = jax.jit(VERIFIERS["traversal"].decide, static_argnums=(0, 1))
  state = prefill(how.plan, params, request, caches, new)
  missing = 0
  for cycle in range(kept):
    after, drafted, p = observe(how.plan, params, request, state)
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
      for name, stop in seen.stop.items():
        np.testing.assert_allclose(
          stop @ (shape.depth + 1), result.expected[name][row][cycle], rtol=1e-5
        )
      # The coins are those that were tossed.
      q = np.zeros((len(shape), p.shape[-1]), np.float32)
      q[shape.inner] = drafted.laws[row]
      decision = decide(
        shape,
        PROPOSALS[proposal],
        drafted.tokens[row],
        q,
        p[row],
        seen.coins,
      )
      assert decision.node == seen.node
    state = after
  assert missing > 0 or proposal == "with_replacement"


def test_a_law_that_is_asked_for_brings_its_decision():
  """One walk for both; and what two walks would have said."""
  told = {
    "tree": "branching:2",
    "verifier": "traversal",
    "among": ("token_level", "traversal"),
    "panel": ("traversal",),
  }
  how = engine.resolve(pair(), max_new_tokens=24, **told)
  drafts = how.plan.speculation
  rules = drafts.verifier, *drafts.others
  assert all(form.both for form in rules)

  def apart(form):
    return dataclasses.replace(form, both=None)

  found = []
  for change in (apart, lambda form: form):
    own = dataclasses.replace(
      how.plan,
      speculation=dataclasses.replace(
        drafts,
        verifier=change(drafts.verifier),
        others=tuple(map(change, drafts.others)),
      ),
    )
    run = jax.jit(program.generate, static_argnums=(0, 4))
    found.append(run(own, *whole(pair(), how))[0])
  jax.tree.map(np.testing.assert_array_equal, *found)


@pytest.mark.parametrize("name", VERIFIERS)
def test_what_was_replaced_is_no_rule_here(name):
  """Its decision is not taken from `both`, and is checked."""
  rule = VERIFIERS[name]
  assert derived(rule)
  assert is_built_in(rule)
  assert checked(rule) is rule.decide
  for change in ("decide", "stop_law"):
    own = dataclasses.replace(rule, **{change: lambda *_: None})
    assert not derived(own)
    assert not is_built_in(own)
    assert checked(own) is not own.decide


def test_a_rule_beside_one_with_more_coins():
  """Each gets as many as it wants, whatever the other does."""
  own = VERIFIERS["traversal"]

  def decide(tree, proposal, tokens, q, p, eta):
    found = own.decide(tree, proposal, tokens, q, p, eta[: len(tokens)])
    accept = jnp.append(found.accept, NOT_OFFERED)
    return dataclasses.replace(found, accept=accept)

  def coins(key, more):
    return toss(jax.random.key(key), 3, np.float32, more).tolist()

  assert coins(0, 0) == coins(0, 5)[:3]
  assert coins(0, 2) == coins(0, 5)[:5]
  assert len({*coins(0, 5), *coins(1, 5)}) == 16
  more = Verifier(name="more", decide=decide, coins=lambda tree: 1)
  options = {"tree": "chain:1", "max_new_tokens": 8}
  alone = tv_jax.generate(pair(), PROMPTS, verifier="traversal", **options)
  for rule in ("traversal", more):
    beside = tv_jax.generate(
      pair(), PROMPTS, verifier=rule, among=["traversal", more], **options
    )
    assert beside.tokens == alone.tokens
