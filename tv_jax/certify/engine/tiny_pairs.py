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
from tv_jax.engine.decode import Batch, Prompt, decode
from tv_jax.engine.pair import Pair
from tv_jax.engine.programs import forget_programs
from tv_jax.models import Config, Model, decoder, native, quantised
from tv_jax.models.gguf import packing
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
_BLOCK = {
  "block_size": 3,
  "markov_rank": 4,
  "enable_confidence_head": True,
}
# Independent drafts with weights as a GGUF file stores them, or in a batch
# whose slots are refilled one by one.
QUANTISED, REFILLED = "quantised", "refilled"
KINDS = (*drafting.KINDS, QUANTISED, REFILLED)
_SLOTS = 16  # of such a batch
_TYPE = "Q8_0"  # of such a file


class EngineCase(NamedTuple):
  """A pair of models and a decoding configuration."""

  pair: Pair
  config: DecodeConfig
  refills: bool = False

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
  return EngineCase(pair, config, kind == REFILLED)


@functools.lru_cache
def models(kind: str) -> tuple[Model, Model]:
  """Makes a target and an unrelated draft of one of `KINDS`.

  The random weights are large, so that every token, position and feature
  changes the logits.
  """
  base = TARGET
  if kind == QUANTISED:  # rows of whole blocks
    sizes = {"hidden_size": 32, "intermediate_size": 32}
    base = dataclasses.replace(base, num_attention_heads=4, **sizes)
  module = decoder.Decoder(base)
  params = _random(jax.random.key(0), module)
  target = Model(module=module, params=params, source="random")
  config = dataclasses.replace(base, num_hidden_layers=1)
  reading = dataclasses.replace(config, target_layer_ids=_READ)
  replace = functools.partial(dataclasses.replace, reading)
  configs = {
    "eagle3": replace(draft_vocab_size=3, shares_embedding=True),
    "dspark": replace(model_type="qwen3", **_BLOCK),
  }
  row = drafting.KINDS.get(kind, drafting.KINDS["independent"])
  module = row.module(configs.get(kind, config))
  # With these seeds the draft is poor enough that rows take several cycles.
  seed = {"dspark": 3, QUANTISED: 2}.get(kind, 1)
  params = _random(jax.random.key(seed), module)
  shared = {x: y for x, y in target.params.items() if x in module.of_target}
  params |= {name: x for name, x in shared.items() if name in params}
  if kind == "eagle3":
    params["place"] = jnp.array(_PLACE)
  draft = Model(module=module, params=params, source="random")
  if kind == QUANTISED:
    target, draft = (
      dataclasses.replace(model, params=jax.tree.map(_stored, model.params))
      for model in (target, draft)
    )
  return target, draft


def _stored(x: jax.Array):
  """Returns a matrix with the weights of a GGUF file; vectors as they are."""
  import gguf

  if x.ndim < 2:
    return x
  type_ = getattr(gguf.GGMLQuantizationType, _TYPE)
  form, L = quantised.FORMS[_TYPE], native.lanes()
  blocks = gguf.quantize(np.asarray(x), type_)
  words = packing.pack(
    _TYPE, blocks.reshape(len(x), x.shape[1] // form.group, -1)
  )
  words = words.reshape(len(x), -1)
  words = np.pad(words, ((0, -len(x) % L), (0, 0)))
  words = words.reshape(-1, L, words.shape[1]).swapaxes(1, 2).ravel()
  part = quantised.Part(form, len(x))
  return quantised.Quantised(jnp.asarray(words), (part,), x.shape[1], 1)


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
  decoded = _refilled if case.refills else _batches
  counts = np.zeros((len(PROMPTS), VOCABULARY**LENGTH), np.int64)
  cycles = faults = 0
  for item, tokens, own_cycles, own_faults in decoded(case, rows, size, seed):
    code = tokens @ VOCABULARY ** np.arange(LENGTH)[::-1]
    np.add.at(counts, (np.asarray(item) % len(PROMPTS), code), 1)
    cycles += int(np.sum(own_cycles))
    faults += int(np.sum(own_faults))
  return counts, cycles / counts.sum(), faults


def _batches(case, rows, size, seed):
  """Yields the items of a batch, and their tokens, cycles and faults."""
  batch = case.batch(size, seed)
  for first in range(0, rows, size):
    batch.insert(prompts(size, first), 0)
    batch.advance(size)
    records = jax.device_get(batch.state.records)
    tokens = records.tokens[:, :LENGTH]
    yield np.arange(size), tokens, records.cycles, records.faults


def _refilled(case, rows, size, seed):
  """Yields the same of single items, each in the slot of a finished one."""
  del size
  answers = decode(case.batch(_SLOTS, seed), prompts(rows))
  for item, answer in enumerate(answers):
    yield item, np.array(answer.tokens), len(answer.gained), answer.faults


@functools.lru_cache(maxsize=1)
def _forget_others(config: DecodeConfig) -> None:
  """Drops the compiled programs of earlier cases.

  A process that holds the programs of hundreds of cases runs out of memory
  maps and crashes.
  """
  del config
  forget_programs()
  jax.clear_caches()
