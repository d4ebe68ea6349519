"""Tensor parallelism, on simulated devices."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import checkpoints
from tv_jax import models
from tv_jax.models import decoder, families, mask, sharding

LLAMA_70B = {
  "vocab_size": 128256,
  "hidden_size": 8192,
  "intermediate_size": 28672,
  "num_hidden_layers": 80,
  "num_attention_heads": 64,
  "num_key_value_heads": 8,
  "head_dim": 128,
  "dtype": "bfloat16",
}


def test_70b_over_8_devices():
  config = checkpoints.tiny(**LLAMA_70B)
  mesh = jax.sharding.AbstractMesh((8,), (sharding.AXIS,))
  size = decoder.sizes(config)
  total = here = 0
  for leaf in families.leaves(config):
    shape = tuple(size[axis] for axis in leaf.axes)
    share = sharding.placement(leaf.axes, mesh).shard_shape(shape)
    if len(shape) > 1:
      assert 8 * np.prod(share) == np.prod(shape), leaf.path
    total += np.prod(shape)
    here += np.prod(share)
  assert total == 70_553_706_496
  assert here <= 1.0002 * total / 8


@pytest.mark.parametrize("batch", [1, 2])
def test_two_all_reduces_per_layer(batch, tmp_path):
  def count(layers):
    config = checkpoints.tiny(num_hidden_layers=layers)
    models.save(tmp_path, checkpoints.ours(config))
    model = models.load(tmp_path, mesh=sharding.mesh(jax.devices()[:2]))
    rows, cache = jnp.zeros([batch, 4], jnp.int32), model.init_cache(batch, 16)
    seen = mask.causal(cache.length, 4, 16)
    run = jax.jit(model.apply).lower(model.params, rows, rows, seen, cache)
    program = run.compile().as_text()
    # Nothing else is exchanged within layers.
    other = re.findall(r"(all-to-all|collective-permute)(?:-start)?\(", program)
    assert not other
    return [
      len(re.findall(rf"{name}(?:-start)?\(", program))
      for name in ("all-reduce", "all-gather")
    ]

  assert np.subtract(count(3), count(2)).tolist() == [2, 0]


def test_devices_equal_one(tmp_path):
  """Of eight in tests/test_decoding_sharding.py."""
  target = checkpoints.ours(checkpoints.tiny())
  models.save(tmp_path / "target", target)
  models.save(tmp_path / "head", checkpoints.ours_head(target))
  tokens = checkpoints.tokens(2, 24, 48)

  def found(mesh):
    model = models.load(tmp_path / "target", mesh=mesh)
    head = models.load_eagle(tmp_path / "head", model)
    features = jax.random.normal(jax.random.key(0), (2, 24, 32))
    places = jnp.broadcast_to(jnp.arange(24, dtype=jnp.int32), (2, 24))
    cache = head.init_cache(2, 32)
    seen = mask.causal(cache.length, 24, 32)
    run = jax.jit(head.apply)
    drafts = run(head.params, tokens, features, places, seen, cache)
    return model, head, [model.logits(tokens), *drafts[:2]]

  mesh = sharding.mesh(jax.devices()[:2])
  (model, head, many), (*_, one) = found(mesh), found(None)
  for ours, theirs in zip(many, one, strict=True):
    assert checkpoints.error(ours, np.asarray(theirs)) <= 1e-5
  for leaf in jax.tree.leaves((model.params, head.params)):
    assert len(leaf.sharding.device_set) == 2
  qkv = model.params["params"]["layers_0"]["qkv"]
  assert qkv.addressable_shards[0].data.shape[0] == 1
  keys = model.init_cache(2, 8).keys[0]
  assert keys.sharding.shard_shape(keys.shape)[1] == 1


@pytest.mark.parametrize(
  ("axis", "words"),
  [
    ("tensor", "num_key_value_heads=1 cannot be split over 2 devices"),
    ("model", r"axes \('model',\), not \('tensor',\)"),
  ],
)
def test_a_mesh_that_does_not_fit_is_refused(tmp_path, axis, words):
  models.save(
    tmp_path, checkpoints.ours(checkpoints.tiny(num_key_value_heads=1))
  )
  mesh = jax.sharding.Mesh(jax.devices()[:2], (axis,))
  with pytest.raises(ValueError, match=words):
    models.load(tmp_path, mesh=mesh)
