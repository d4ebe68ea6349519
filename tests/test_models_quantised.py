"""Eight-bit weights: a model of its own, the same however it is asked."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tv_jax
from tests import checkpoints
from tv_jax import models
from tv_jax.models import eagle, families, layout, products, sharding
from tv_jax.models.products import Quantised

FAMILIES = {
  "llama": {},
  "tied": {"tie_word_embeddings": True},
  "wide heads": {"head_dim": 24, "num_key_value_heads": 1},
  "qwen2": {"model_type": "qwen2"},
  "qwen3": {"model_type": "qwen3"},
}
TOKENS = checkpoints.tokens(2, 12, 48)


def is_quantised(value):
  return isinstance(value, Quantised)


def as_floats(params):
  """What weights of eight bits stand for."""

  def one(value):
    if not is_quantised(value):
      return value
    more = value.values.ndim - value.scale.ndim
    scale = value.scale.reshape(*value.scale.shape, *[1] * more)
    return value.values.astype(jnp.float32) * scale

  return jax.tree.map(one, params, is_leaf=is_quantised)


def stand_in(model):
  """The same model in float32."""
  config = dataclasses.replace(model.config, quantised=False)
  return dataclasses.replace(
    model, module=families.module(config), params=as_floats(model.params)
  )


@pytest.fixture
def stored(tmp_path):
  """Writes a random model: its folder, and the model."""

  def write(seed=0, name="model", **changes):
    model = checkpoints.ours(checkpoints.tiny(**changes), seed)
    models.save(tmp_path / name, model)
    return tmp_path / name, model

  return write


def test_the_nearest_of_255_values(monkeypatch):
  rng = np.random.default_rng(0)
  weights = rng.normal(size=(5, 3, 40)).astype(np.float32)
  weights[0, 0] = 0
  weights[1, 1] *= 1e-30
  weights[2, 2, 0] = -9
  weights[3, 1] = 1e-44  # of which no 127th part is left
  values, scale = products.quantise(weights, 2)
  assert (values.dtype, values.shape, scale.shape) == (
    np.int8,
    weights.shape,
    (5, 3),
  )
  assert (values[0, 0] == 0).all()
  assert scale[0, 0] == 1
  assert values[2, 2, 0] == -127
  rest = np.ones((5, 3), bool)
  rest[0, 0] = rest[3, 1] = False
  assert (values[3, 1] == 0).all()
  assert (np.abs(values).max(axis=-1)[rest] == 127).all()
  # However many rows are taken at a time.
  monkeypatch.setattr(products, "_AT_ONCE", 80)
  again = products.quantise(weights, 2)
  assert (again.values == values).all()
  assert (again.scale == scale).all()
  back = values * scale[..., None]
  assert (np.abs(back - weights) <= scale[..., None] * 0.5001).all()


@pytest.mark.parametrize("family", FAMILIES)
def test_it_is_the_model_that_its_numbers_stand_for(family, stored):
  folder, given = stored(**FAMILIES[family])
  model = models.load(folder, "int8")
  assert model.config.dtype == "float32"
  assert models.read_config(folder, "int8") == model.config
  own = jax.tree.leaves(model.params, is_leaf=is_quantised)
  eight = [value for value in own if is_quantised(value)]
  tied = given.config.tie_word_embeddings
  assert len(eight) == 4 * given.config.num_hidden_layers + 1
  assert is_quantised(model.params["embedding"]) == tied
  ours = model.logits(TOKENS)
  theirs = np.asarray(stand_in(model).logits(TOKENS))
  assert checkpoints.error(ours, theirs) < 2e-6
  # And near the one that was stored, but not that.
  away = checkpoints.error(ours, np.asarray(given.logits(TOKENS)))
  assert 1e-4 < away < 0.2
  # In its own bytes, as they are reckoned before.
  held = sum(x.nbytes for x in jax.tree.leaves(model.params))
  leaves = families.leaves(model.config)
  assert held == layout.size(leaves, model.config)
  if model.config.num_key_value_heads == 2:  # split over devices too
    two = models.load(folder, "int8", sharding.mesh(jax.devices()[:2]))
    assert checkpoints.error(two.logits(TOKENS), np.asarray(ours)) < 2e-6


def test_a_head_of_an_eight_bit_target(stored, tmp_path):
  folder, _ = stored()
  target = models.load(folder, "int8")
  head = checkpoints.ours_head(checkpoints.ours(checkpoints.tiny()))
  models.save(tmp_path / "head", head)
  loaded = models.load_eagle(tmp_path / "head", target)
  params = loaded.params
  assert is_quantised(params["fc"])
  assert is_quantised(params["layer"]["down"])
  assert params["unembedding"] is target.params["unembedding"]
  leaves = eagle.leaves(loaded.config, bias=True)
  own = {k: v for k, v in params.items() if k not in target.params}
  held = sum(x.nbytes for x in jax.tree.leaves(own))
  assert held == layout.size(leaves, loaded.config)
  config = dataclasses.replace(loaded.config, quantised=False)
  cache = loaded.init_cache(2, 12)
  rng = np.random.default_rng(0)
  features = jnp.asarray(rng.normal(size=(2, 12, 32)), jnp.float32)
  place = jnp.broadcast_to(jnp.arange(12, dtype=jnp.int32), (2, 12))
  seen = models.model.mask.causal(cache.length, 12, 12)
  given = jnp.asarray(TOKENS), features, place, seen, cache
  ours, _, _ = loaded.module.apply({"params": loaded.params}, *given)
  floats = eagle.Eagle(config, bias=True).apply
  theirs, _, _ = floats({"params": as_floats(loaded.params)}, *given)
  assert checkpoints.error(ours, np.asarray(theirs)) < 2e-6


def test_speculation_keeps_its_law(stored):
  """Greedily it says what its target says alone, token by token."""
  folder, _ = stored()
  draft, _ = stored(1, "draft", num_hidden_layers=1)
  pair = tv_jax.load(draft, folder, dtype="int8")
  asked = {"max_new_tokens": 16, "ends": ()}
  prompts = [[5, 6, 7], [9]]
  told = tv_jax.generate(
    pair, prompts, tree="chain:2", temperature=0.0, **asked
  )
  for prompt, tokens in zip(prompts, told.tokens, strict=True):
    greedy = pair.target.logits([[*prompt, *tokens]])[0].argmax(axis=-1)
    assert greedy[len(prompt) - 1 : -1].tolist() == [*tokens]


@pytest.mark.parametrize("name", ["int8", jnp.int8, np.dtype("int8")])
def test_every_spelling(name, stored):
  folder, _ = stored()
  model = models.load(folder, name)
  assert model.config.kept == "int8"
  assert model.source == f"{folder} in int8"
  with pytest.raises(ValueError, match="in int8 is not written"):
    models.save(folder, model)
  with pytest.raises(ValueError, match="bfloat16, float16, int8"):
    models.load(folder, "int4")


def test_all_else_as_stored_where_there_is_a_gpu(stored, monkeypatch):
  folder, _ = stored(dtype="bfloat16")
  theirs = stand_in(models.load(folder, "int8")).logits(TOKENS)
  with monkeypatch.context() as patch:
    patch.setattr(jax, "default_backend", lambda: "gpu")
    model = models.load(folder, "int8")
  assert model.config.dtype == "bfloat16"
  kinds = {str(x.dtype) for x in jax.tree.leaves(model.params)}
  assert kinds == {"int8", "float32", "bfloat16"}
  ours = model.logits(TOKENS)
  assert ours.dtype == jnp.float32
  assert 1e-5 < checkpoints.error(ours, np.asarray(theirs)) < 0.05
