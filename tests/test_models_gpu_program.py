"""Decode steps of the 8B shape, compiled for an H200 that is not here."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import pytest

from benchmarks import gpu_program, gpu_shapes
from tv_jax.models import cache as caches
from tv_jax.models import causal_pass, compact, decoder

pytestmark = pytest.mark.gpu_program

SLOTS = 2048
CONFIG = gpu_shapes.config("Llama-3.1-8B", "bfloat16", layers=2)


def shapes(config, batch):
  params = gpu_shapes.parameters(
    decoder.Decoder(config), gpu_shapes.shapes_on()
  )
  cache = jax.eval_shape(functools.partial(caches.empty, config, batch, SLOTS))
  return params, cache


@functools.cache
def decode_step(layers, batch, queries, heads=32):
  """A pass over a chain of tokens, and its cache's size."""
  config = dataclasses.replace(
    CONFIG,
    num_hidden_layers=layers,
    num_attention_heads=heads,
  )
  params, cache = shapes(config, batch)

  def step(params, tokens, cache):
    return causal_pass(decoder.Decoder(config), params, (tokens,), cache)

  program = gpu_program.compile_for(
    step,
    params,
    jax.ShapeDtypeStruct((batch, queries), jnp.int32),
    cache,
    donate_argnums=2,
  )
  return program, gpu_shapes.bytes_of((cache.keys, cache.values))


@pytest.mark.parametrize(
  ("batch", "queries"), [(1, 1), (4, 1), (1, 26), (4, 64)]
)
def test_a_decode_step(batch, queries):
  program, cache_bytes = decode_step(2, batch, queries)
  shorter, _ = decode_step(1, batch, queries)
  # The smallest weight is `out`, the smallest cache one layer's keys.
  smallest = min(4096 * 4096, batch * 8 * SLOTS * 128)
  assert program.moved(smallest) == []
  # The lengths, 4 bytes each, are given back as well.
  aliased = program.memory.alias_size_in_bytes - cache_bytes
  assert 0 <= aliased <= 16 * batch
  logits = batch * queries * CONFIG.vocab_size * 4
  assert program.memory.temp_size_in_bytes < 100e6 + logits
  assert len(program.kernels) - len(shorter.kernels) <= 25


def test_rows_that_are_no_power_of_two_compile():
  # With R before T in the rows of the scores, XLA finds no tiles for these.
  program, _ = decode_step(1, 2, 26, heads=24)
  assert program.moved(2 * 8 * SLOTS * 128) == []


@pytest.mark.parametrize("batch", [1, 4])
def test_compaction_is_in_place(batch):
  _, cache = shapes(CONFIG, batch)
  program = gpu_program.compile_for(
    compact,
    cache,
    jax.ShapeDtypeStruct((batch,), jnp.int32),
    jax.ShapeDtypeStruct((batch, 6), jnp.int32),
    jax.ShapeDtypeStruct((batch,), jnp.int32),
    donate_argnums=0,
  )
  assert program.moved(8 * SLOTS * 128) == []
  assert (
    program.memory.alias_size_in_bytes >= gpu_shapes.bytes_of(cache.keys) * 2
  )
  assert program.memory.temp_size_in_bytes < 1e6
