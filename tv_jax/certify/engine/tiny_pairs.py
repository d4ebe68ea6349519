"""Tiny pairs of models, and counts of the sequences that the engine decodes.

Axes: B batch, N nodes, V vocabulary.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax import drafting
from tv_jax.engine.config import DecodeConfig, Options, decode_config
from tv_jax.engine.decode import Batch, Prompt
from tv_jax.engine.pair import Pair
from tv_jax.engine.programs import forget_programs
from tv_jax.models import Config, Model, decoder
from tv_jax.models.config import Block
from tv_jax.models.model import init

VOCABULARY = 4
# The first prompt has one token, so nothing precedes its root.
PROMPTS = ((3,), (1, 2, 0))
# The layers that a draft reads; and the index of each target token among the
# three tokens that the EAGLE-3 head knows (3: unknown).
_READ, _PLACE = (decoder.INPUT, 0), (1, 3, 0, 2)
# Number of new tokens; all sequences of this length are enumerated.
LENGTH = 6

TARGET = Config(
  vocab_size=VOCABULARY,
  hidden_size=16,
  intermediate_size=16,
  num_hidden_layers=2,
  num_attention_heads=2,
  num_key_value_heads=1,
  head_dim=8,
  rms_norm_eps=1e-5,
  rope_theta=10.0,  # positions are few, and each must matter
  rope_scaling=None,
  tie_word_embeddings=False,
  max_position_embeddings=64,
  dtype="float32",
  bos_token_id=None,
  eos_token_id=(),
  pad_token_id=None,
)
_BLOCK = Block(size=3, mask=0, rank=4, confidence=True)


class EngineCase(NamedTuple):
  """A pair of models and a decoding configuration."""

  pair: Pair
  config: DecodeConfig

  def batch(self, rows: int, seed: int) -> Batch:
    """Makes an empty batch."""
    config = dataclasses.replace(self.config, seed=seed)
    return Batch(self.pair, config, rows, max(map(len, PROMPTS)))


def case(kind: str, temperature: float, **options) -> EngineCase:
  """Makes a case with a tiny pair; `options` are those of `generate`."""
  target, draft = models(kind)
  pair = Pair(target=target, draft=draft)
  config = decode_config(
    pair,
    Options(
      temperature=temperature,
      draft_temperature=temperature,
      max_new_tokens=LENGTH,
      panel=None,
      **options,
    ),
  )
  return EngineCase(pair, config)


@functools.lru_cache
def models(kind: str) -> tuple[Model, Model]:
  """Makes a target and an unrelated draft.

  The random weights are large, so that every token, position and feature
  changes the logits.
  """
  target = Model(
    module=decoder.Decoder(TARGET),
    params=_random(jax.random.key(0), decoder.Decoder(TARGET)),
    source="random",
  )
  config = dataclasses.replace(TARGET, num_hidden_layers=1)
  reading = dataclasses.replace(config, target_layers=_READ)
  replace = functools.partial(dataclasses.replace, reading)
  configs = {
    "independent": config,
    "eagle": config,
    "eagle3": replace(draft_vocab_size=3, shares_embedding=True),
    "dspark": replace(model_type="qwen3", block=_BLOCK),
  }
  module = drafting.KINDS[kind].module(configs[kind])
  # With these seeds the draft is poor enough that rows take several cycles.
  params = _random(jax.random.key(3 if kind == "dspark" else 1), module)
  shared = {x: y for x, y in target.params.items() if x in module.of_target}
  params |= {name: x for name, x in shared.items() if name in params}
  if kind == "eagle3":
    params["place"] = jnp.array(_PLACE)
  return target, Model(module=module, params=params, source="random")


def _random(key, module) -> dict:
  """Makes random parameters; vectors (the scales of norms) are near 1."""
  leaves, structure = jax.tree.flatten(init(key, module))

  def draw(key, leaf):
    if jnp.issubdtype(leaf.dtype, jnp.integer):
      return leaf
    noise = jax.random.normal(key, leaf.shape)
    return 1 + 0.1 * noise if leaf.ndim == 1 else 0.5 * noise

  keys = jax.random.split(key, len(leaves))
  return jax.tree.unflatten(structure, map(draw, keys, leaves))


def prompts(rows: int, first: int = 0) -> list[Prompt]:
  """Returns prompts for the items from `first` on; `PROMPTS` take turns."""
  return [
    Prompt(PROMPTS[i % len(PROMPTS)], first + i, LENGTH) for i in range(rows)
  ]


def count(case: EngineCase, rows: int, size: int, seed: int):
  """Decodes rows with the compiled programs that `generate` runs.

  Args:
    case: The pair and how to decode.
    rows: Number of rows, rounded up to whole batches.
    size: B, the batch size; batches reuse the same slots.
    seed: Seed of all draws.

  Returns:
    The count of each sequence of LENGTH tokens after each prompt
    [prompts, V^LENGTH], the mean number of cycles of a row, and the number of
    cycles with a NaN.
  """
  _forget_others(case.config.static)
  batch, cycles, faults = case.batch(size, seed), [], 0
  counts = np.zeros((len(PROMPTS), VOCABULARY**LENGTH), np.int64)
  for i in range(-(-rows // size)):
    batch.insert(prompts(size, i * size), 0)
    batch.advance(size)
    records = jax.device_get(batch.state.records)
    code = records.tokens[:, :LENGTH] @ VOCABULARY ** np.arange(LENGTH)[::-1]
    for j, row in enumerate(counts):
      row += np.bincount(code[j :: len(counts)], minlength=len(row))
    cycles.append(records.cycles.mean())
    faults += int(records.faults.sum())
  return counts, float(np.mean(cycles)), faults


@functools.lru_cache(maxsize=1)
def _forget_others(config: DecodeConfig) -> None:
  """Drops the compiled programs of earlier cases.

  A process that holds the programs of hundreds of cases runs out of memory
  maps and crashes.
  """
  del config
  forget_programs()
  jax.clear_caches()
