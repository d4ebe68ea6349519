"""Models and generations over many devices, which are simulated."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tv_jax
from tests.lib import checkpoints
from tv_jax import models
from tv_jax.models import decoder, mask, sharding
from tv_jax.models.model import owned_specs


@pytest.mark.long
@pytest.mark.parametrize(
  ("kind", "split"),
  [
    ("independent", False),
    ("independent", True),
    ("eagle", False),
    ("eagle3", False),
    ("dspark", False),
  ],
)
def test_two_devices_decode_as_one(tmp_path, kind, split):
  target = checkpoints.ours(checkpoints.tiny())
  models.save(tmp_path / "target", target)
  # The target with a little noise, or nothing would be accepted.
  other = checkpoints.ours(target.config, seed=1)
  near = jax.tree.map(lambda x, y: x + 0.1 * y, target.params, other.params)
  draft = dataclasses.replace(target, params=near)
  models.save(tmp_path / "independent", draft)
  models.save(tmp_path / "eagle", checkpoints.ours_head(target))
  models.save(tmp_path / "eagle3", checkpoints.ours_eagle3(target))
  models.save(tmp_path / "dspark", checkpoints.ours_dspark(target))
  one, both = (
    tv_jax.load(
      tmp_path / "target",
      tmp_path / kind,
      mesh=mesh,
      shard_draft=split,
    )
    for mesh in (None, sharding.mesh(jax.devices()[:2]))
  )
  prompts = [checkpoints.tokens(1, n, 48)[0].tolist() for n in (9, 1, 16)]

  def decoded(pair, temperature):
    result = tv_jax.generate(
      pair,
      prompts,
      tree="kary:2x2",
      temperature=temperature,
      max_new_tokens=12,
      ends=(),
      batch_size=2,
      draft_stop=0.4 if kind == "dspark" else 0,
    )
    return result.tokens, [gained.tolist() for gained in result.gained]

  for temperature in (0.0, 1.0):
    tokens, accepted = decoded(both, temperature)
    assert (tokens, accepted) == decoded(one, temperature)
    # A random head is hardly ever right.
    assert kind != "independent" or max(map(max, accepted)) > 1


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
  total = here = 0
  for path, box in owned_specs(decoder.Decoder(config)).items():
    shape = box.value.shape
    share = sharding.placement(box.names, mesh).shard_shape(shape)
    if len(shape) > 1:
      assert 8 * np.prod(share) == np.prod(shape), path
    total += np.prod(shape)
    here += np.prod(share)
  assert total == 70_553_706_496
  assert here <= 1.0002 * total / 8


def test_two_all_reduces_per_layer(tmp_path):
  def count(layers):
    config = checkpoints.tiny(num_hidden_layers=layers)
    models.save(tmp_path, checkpoints.ours(config))
    model = models.load(tmp_path, mesh=sharding.mesh(jax.devices()[:2]))
    rows, cache = jnp.zeros([2, 4], jnp.int32), model.init_cache(2, 16)
    seen = mask.causal(cache.length, 4, 16)
    arguments = {"params": model.params}, rows, rows, seen, cache
    lowered = jax.jit(model.module.apply).lower(*arguments)
    program = lowered.compile().as_text()
    # Nothing else is exchanged within layers.
    other = re.findall(r"(all-to-all|collective-permute)(?:-start)?\(", program)
    assert not other
    return [
      len(re.findall(rf"{name}(?:-start)?\(", program))
      for name in ("all-reduce", "all-gather")
    ]

  assert np.subtract(count(3), count(2)).tolist() == [2, 0]


def test_a_mesh_that_does_not_fit_is_refused(tmp_path):
  config = checkpoints.tiny(num_key_value_heads=1)
  models.save(tmp_path, checkpoints.ours(config))
  words = "num_key_value_heads=1 cannot be split over 2 devices"
  with pytest.raises(ValueError, match=words):
    models.load(tmp_path, mesh=sharding.mesh(jax.devices()[:2]))
