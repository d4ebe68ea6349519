"""What is broken is counted and said, whoever broke it: models and rules."""

import dataclasses
import functools
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tv_jax
from tests.lib import quick
from tests.lib.checkpoints import pair as sound_pair
from tv_jax import drafting, probs, verifiers
from tv_jax import tree as tree_lib
from tv_jax.engine import cycle
from tv_jax.engine.config import Options, decode_config
from tv_jax.proposals import INVALID, PROPOSALS
from tv_jax.verifiers import UP, VERIFIERS, Decision, Draft, Verifier


def first(draft, eta):
  """A decision quickly compiled: the first node is accepted."""
  return Decision(
    node=jnp.array(1, jnp.int32),
    residual=draft.p[1],
    threshold=eta,
    fault=jnp.array(False),
  )


OPTIONS = {"tree": "chain:2", "max_new_tokens": 6, "ends": ()}


def generate(pair, **options):
  return tv_jax.generate(pair, [[1], [2, 3]], **OPTIONS | options)


def spoiled(**fields):
  """Returns a rule that changes fields of the right decision."""

  def rule(draft, eta):
    made = first(draft, eta)
    new = {name: f(getattr(made, name)) for name, f in fields.items()}
    return dataclasses.replace(made, **new)

  return rule


INVALID_DECISIONS = {
  "far": {"node": lambda node: node + 10**6},
  "before": {"node": lambda node: node - 2},
  "without a token": {"node": lambda node: node + 1},
  "nan": {"residual": lambda law: law * jnp.nan},
  "nothing": {"residual": lambda law: law * 0},
  "negative": {"residual": lambda law: law.at[0].set(-0.1)},
  "endless": {"residual": lambda law: law.at[0].set(jnp.inf)},
}


@pytest.mark.parametrize("name", quick.shorter(["draft", "target"]))
def test_a_broken_model_is_counted_and_warned_of(name):
  model = getattr(sound_pair(), name)
  params = jax.tree.map(lambda x: x * jnp.nan, model.params)
  model = dataclasses.replace(model, params=params)
  broken = dataclasses.replace(sound_pair(), **{name: model})
  with pytest.warns(
    RuntimeWarning, match="12 cycles met a fault: logits"
  ) as warned:
    result = tv_jax.generate(broken, [[1], [2, 3]], **OPTIONS)
  assert warned[0].filename == __file__  # of the line that asked
  # Each gained one token.
  assert result.faults == result.cycles == sum(map(len, result.tokens)) == 12
  assert "FAULTS     IN 12 CYCLES" in repr(result)


def test_a_nan_does_not_reach_the_next_prompt_of_a_slot():
  pair, own = sound_pair(), sound_pair().target.params
  # Longer than the padding of a prompt, which is overwritten anyway.
  options = {"verifier": "plain", "temperature": 0, "max_new_tokens": 24}
  options |= {"ends": (), "batch_size": 1}
  said = tv_jax.generate(pair, [[2, 3]], **options).tokens[0]
  odd = max({*range(48)} - {*said})
  spoilt = {**own, "embedding": own["embedding"].at[odd].set(jnp.nan)}
  target = dataclasses.replace(pair.target, params=spoilt)
  broken = dataclasses.replace(pair, target=target)
  with pytest.warns(RuntimeWarning, match="met a fault"):
    both = tv_jax.generate(broken, [[odd], [2, 3]], **options)
  assert both.faults == 24
  assert both.tokens[1] == said


def test_a_broken_rule_is_counted_and_decodes_plainly():
  rule = spoiled(**INVALID_DECISIONS["far"])
  with pytest.warns(RuntimeWarning, match="or the rule"):
    result = generate(sound_pair(), verifier=rule)
  assert result.faults == result.cycles == 12
  assert result.stops.tolist() == [12, 0, 0]


def test_a_nan_counts_only_after_drawn_nodes():
  """Rows: all sound, or a NaN at the root, a node, a node without token."""

  def root(draft, eta):
    made = first(draft, eta)
    node = jnp.zeros_like(made.node)
    return dataclasses.replace(made, node=node, residual=draft.p[0])

  shape, tokens, _, p = draft()
  config = decode_config(
    sound_pair(),
    Options(
      tree=shape,
      proposal="top_k",
      verifier=Verifier(name="root", decision=root),
    ),
  )
  tokens = jnp.stack([tokens.at[2].set(2)] * 3 + [tokens.at[1].set(INVALID)])
  laws = np.full((4, 2, 5), 0.2, np.float32)
  for row, node in ((1, 0), (2, 1), (3, 1)):
    laws[row, node] = np.nan
  records = types.SimpleNamespace(cycles=jnp.zeros(4, jnp.int32))
  keys = jax.random.split(jax.random.key(0), 4)
  state = types.SimpleNamespace(keys=keys, records=records)
  params = types.SimpleNamespace(rule=jnp.int32(0))

  @jax.jit
  def faults(tokens, laws, p):
    none = jnp.zeros(len(tokens), bool)
    drafted = drafting.Drafted(tokens, laws, None, None, none)
    return cycle.verify(config.static, params, state, drafted, p).fault

  found = faults(tokens, laws, jnp.stack([jnp.asarray(p)] * 4))
  assert found.tolist() == [False, True, True, False]


@functools.cache
def draft():
  """A chain with a last node that could not be drawn, and its laws."""
  rng = np.random.default_rng(0)
  q, p = rng.dirichlet(np.ones(5), (2, 3)).astype(np.float32)
  return tree_lib.parse("chain:2"), jnp.array([0, 1, INVALID]), q, p


def verify(rule):
  shape, *arrays = draft()
  drafted = Draft(shape, "without_replacement", *arrays)
  return verifiers.verify(jax.random.key(0), rule, drafted)


@pytest.mark.parametrize("name", [*INVALID_DECISIONS, "sound"])
def test_an_invalid_decision_is_a_fault_and_a_plain_step(name):
  verdict = verify(spoiled(**INVALID_DECISIONS.get(name, {})))
  node = int(name == "sound")
  assert verdict.fault == (not node)
  assert (verdict.node, verdict.length) == (node, node + 1)
  _, bonus = jax.random.split(jax.random.key(0))
  assert verdict.token == probs.draw(bonus, jnp.asarray(draft()[3][node]))


def test_a_temperature_so_cold_that_logits_would_overflow_is_refused():
  with pytest.raises(
    ValueError, match="give 0 for greedy decoding, or a number"
  ):
    probs.from_logits(jnp.zeros(3), temperature=9e-31)
  logits = jnp.array([[-1e5, 1e5, 9e4], [0.0, 1e-3, 0.0]])
  law = probs.from_logits(logits, temperature=probs.COLDEST)
  np.testing.assert_array_equal(law, [[0, 1, 0], [0, 1, 0]])


def gives(*made):
  return lambda *_: made[0]


WRONG = [
  ({"decision": gives(None)}, "decide returned None: return a"),
  (
    {"decision": spoiled(residual=lambda law: law[1:])},
    r"Decision.residual is float32\[\d+\], not float32",
  ),
]


@pytest.mark.parametrize(("fields", "told"), WRONG)
def test_a_wrong_result_of_a_rule_is_refused(fields, told):
  rule = Verifier(**{"name": "mine", "decision": first, **fields})
  with pytest.raises(ValueError, match=told) as caught:
    generate(sound_pair(), verifier=rule)
  line = str(caught.value)
  assert line.startswith("verifier 'mine'")
  assert "\n" not in line


@pytest.mark.parametrize(
  ("changes", "told"),
  [
    (None, "offers should return a tv_jax.verifiers Offers"),
    ({"residual": 0.0}, "whose residual is a function of a node"),
    ({"chance": np.ones(2, "f4")}, r"Offers.chance is float32\[2\], not"),
    ({"residual": lambda _: np.ones(2, "f4")}, r"Offers.residual is .*\[2\]"),
  ],
)
def test_wrong_offers_are_refused(changes, told):
  def offers(draft):
    found = VERIFIERS["traversal"].offers(draft)
    return None if changes is None else found._replace(**changes)

  rule = Verifier(name="mine", offers=offers, walk=UP)
  with pytest.raises(ValueError, match=f"^verifier 'mine' on .*{told}"):
    generate(sound_pair(), verifier=rule)


def test_a_wrong_result_of_draw_is_refused():
  whole = PROPOSALS["with_replacement"]
  mine = dataclasses.replace(whole, name="mine", draw=gives(None))
  told = r"draw\(key, q, 1\) for a float32 q is None, not int32\[1\]"
  with pytest.raises(ValueError, match=f"^proposal 'mine' on .*{told}"):
    generate(sound_pair(), proposal=mine)
