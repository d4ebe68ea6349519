"""The paper's models as shapes, and the arguments of the engine's programs.

No checkpoint is needed: parameters are random arrays, or only their shapes.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax.traverse_util import unflatten_dict

from tv_jax.engine.config import DecodeConfig, Options, decode_config
from tv_jax.engine.cycle import CHUNK
from tv_jax.engine.decode import NEW, cache_slots, padded
from tv_jax.engine.pair import Pair
from tv_jax.engine.state import Caches, Params, State, empty_state
from tv_jax.models import Model, borrowed, decoder, dspark, eagle
from tv_jax.models import cache as caches
from tv_jax.models import config as configs
from tv_jax.models.config import Config
from tv_jax.models.model import owned_specs
from tv_jax.tree import Tree


def _llama(hidden, mlp, layers, heads, vocabulary, positions, **others):
  """Returns a config.json's content, without its dtype."""
  return {
    "model_type": "llama",
    "hidden_act": "silu",
    "hidden_size": hidden,
    "intermediate_size": mlp,
    "num_hidden_layers": layers,
    "num_attention_heads": heads,
    "vocab_size": vocabulary,
    "max_position_embeddings": positions,
    "rms_norm_eps": 1e-5,
    **others,
  }


def _llama_3(*sizes, scaling, tied=False):
  return _llama(
    *sizes,
    num_key_value_heads=8,
    rope_theta=500000.0,
    rope_scaling={
      "rope_type": "llama3",
      "factor": scaling,
      "low_freq_factor": 1.0,
      "high_freq_factor": 4.0,
      "original_max_position_embeddings": 8192,
    },
    tie_word_embeddings=tied,
  )


_QWEN3 = {
  "model_type": "qwen3",
  "num_key_value_heads": 8,
  "head_dim": 128,
  "rope_theta": 1000000.0,
  "rms_norm_eps": 1e-6,
}

# Hidden size, MLP size, layers, heads, vocabulary and positions, from the
# config.json of the repository that is named above each model.
MODELS = {
  # meta-llama/Llama-3.1-8B-Instruct
  "Llama-3.1-8B": _llama_3(4096, 14336, 32, 32, 128256, 131072, scaling=8.0),
  # meta-llama/Llama-3.2-1B-Instruct
  "Llama-3.2-1B": _llama_3(
    2048, 8192, 16, 32, 128256, 131072, scaling=32.0, tied=True
  ),
  # Qwen/Qwen3-8B
  "Qwen3-8B": _llama(4096, 12288, 36, 32, 151936, 40960, **_QWEN3),
  # Two tiny models, for a machine without a GPU.
  "toy": _llama(32, 48, 2, 4, 64, 512, num_key_value_heads=2),
  "toy draft": _llama(16, 24, 1, 2, 64, 512, num_key_value_heads=2),
}


def config(name: str, dtype: str, layers: int | None = None) -> Config:
  """Returns a config of `MODELS`, perhaps with fewer layers."""
  raw = MODELS[name] | {"dtype": dtype}
  if layers:
    raw["num_hidden_layers"] = layers
  return configs.from_dict(raw, name)


def parameters(module, make: Callable) -> dict:
  """Makes a module's own parameters by `make(path, box)`."""
  boxes = owned_specs(module)
  return unflatten_dict({path: make(path, box) for path, box in boxes.items()})


def shape_of(path, box) -> jax.ShapeDtypeStruct:
  """Returns a parameter's shape; a function for `make`."""
  del path
  return jax.ShapeDtypeStruct(box.value.shape, box.value.dtype)


def random_of(seed: int, scale: float = 0.02) -> Callable:
  """Returns a `make` of random arrays on the device; norms are near 1."""
  keys = iter(jax.random.split(jax.random.key(seed), 4096))

  def make(path, box):
    value = box.value
    mean = 1.0 if value.ndim == 1 and path[-1] != "bias" else 0.0
    return _normal(next(keys), value.shape, str(value.dtype), mean, scale)

  return make


@functools.partial(jax.jit, static_argnums=(1, 2))
def _normal(key, shape, dtype, mean, scale):
  values = mean + scale * jax.random.normal(key, shape, jnp.float32)
  return values.astype(dtype)


def model(config: Config, make: Callable) -> Model:
  """Makes a Llama with parameters by `make`."""
  module = decoder.Decoder(config)
  return Model(module=module, params=parameters(module, make), source="random")


def head(target: Model, make: Callable) -> Model:
  """Makes an EAGLE-1 head: a layer of the target's shape, with a bias."""
  config = dataclasses.replace(target.config, num_hidden_layers=1)
  return _draft(target, eagle.Eagle(config, target.mesh), make)


def _draft(target: Model, module, make: Callable) -> Model:
  params = parameters(module, make) | borrowed.params(target, None)
  return Model(module=module, params=params, source="random")


def block_draft(
  target: Model,
  make: Callable,
  *,
  layers: int = 5,
  reads: tuple[int, ...] = (1, 9, 17, 25, 33),
) -> Model:
  """Makes a DSpark draft, by default as published for Qwen3-8B.

  Args:
    target: The target of the draft.
    make: As for `parameters`.
    layers: Number of layers, each of the same shape as the target's.
    reads: The layers of the target whose outputs the draft reads.
  """
  config = dataclasses.replace(
    target.config,
    model_type="qwen3",
    num_hidden_layers=layers,
    target_layer_ids=reads,
    block_size=7,
    markov_rank=256,
    enable_confidence_head=True,
  )
  return _draft(target, dspark.DSpark(config, target.mesh), make)


def decoding(
  target: Model,
  draft: Model | None = None,
  tree: Tree | str = "eagle",
  verifier: str = "traversal",
  **options,
) -> DecodeConfig:
  """Returns the decoding options, of plain decoding if there is no draft."""
  pair = Pair(target=target, draft=draft)
  rule = verifier if draft else "plain"
  options = {"tree": tree, "verifier": rule, "panel": None} | options
  return decode_config(pair, Options(**options))


def arguments(
  config: DecodeConfig,
  target: Model,
  draft: Model | None,
  rows: int,
  longest: int,
) -> tuple[Params, State, jax.ShapeDtypeStruct]:
  """Returns the shapes of the arguments of `decode.advance` for `rows` rows.

  Prompts have at most `longest` tokens.
  """
  new = padded(config.max_new_tokens, NEW)
  slots = cache_slots(config.static, padded(longest, CHUNK) + 1, new)
  layers = len(draft.config.target_layer_ids) if draft else 0
  features = target.config.hidden_size * max(layers, 1), target.config.dtype

  def make():
    state = empty_state(config.static, rows=rows, new=new, features=features)
    empty = Caches(
      caches.empty(target.config, rows, slots),
      draft and caches.empty(draft.config, rows, slots),
    )
    state = dataclasses.replace(state, caches=empty)
    number, rule = jnp.zeros((), jnp.float32), jnp.zeros((), jnp.int32)
    return state, jax.random.key(0), number, rule

  state, key, number, rule = jax.eval_shape(make)
  params = Params(
    target.params, draft and draft.params, key, number, number, rule
  )
  return params, state, rule


def bytes_of(tree) -> int:
  """Counts the bytes of all arrays or shapes in a pytree."""
  return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(tree))


def bytes_of_pass(model: Model, slots: int, batch: int = 1) -> int:
  """Counts the bytes that a pass reads: weights once, `slots` of each cache.

  A pass reads few rows of an embedding, unless it is the unembedding too.
  Writes and activations are small and are left out.
  """
  params, config = model.params, model.config
  weights = bytes_of(params)
  if not config.tie_word_embeddings:
    weights -= bytes_of(params["embedding"])
  size = jnp.dtype(config.dtype).itemsize
  row = config.num_key_value_heads * config.head_dim * size
  return weights + 2 * config.num_hidden_layers * slots * row * batch


def bytes_of_cycle(
  target: Model, draft: Model, tree: Tree, slots: int, batch: int = 1
) -> int:
  """Counts a cycle's bytes: all passes, and each row of probabilities once."""
  laws = 4 * target.config.vocab_size * (len(tree) + len(tree.inner)) * batch
  passes = tree.max_depth * bytes_of_pass(draft, slots, batch)
  return bytes_of_pass(target, slots, batch) + passes + laws
