"""The paper's models as shapes, chips as figures, and programs made of both.

Nothing here needs a checkpoint: parameters are random, or mere shapes.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from tv_jax import decoding, drafting, proposals, verifiers
from tv_jax import tree as tree_lib
from tv_jax.models import Head, Model, decoder, eagle, families, sharding
from tv_jax.models import cache as caches
from tv_jax.models.config import Config
from tv_jax.models.loading import shared
from tv_jax.tree import Tree

LLAMA_3 = {
  "vocab_size": 128256,
  "num_key_value_heads": 8,
  "rms_norm_eps": 1e-5,
  "rope_theta": 500000.0,
  "max_position_embeddings": 131072,
  "tie_word_embeddings": False,
}


def _scaling(factor):
  return {
    "rope_type": "llama3",
    "factor": factor,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
  }


# From the config.json of the repository on the Hugging Face hub that is named
# beside each.
MODELS = {
  # meta-llama/Llama-3.1-70B-Instruct
  "Llama-3.1-70B": LLAMA_3
  | {
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "rope_scaling": _scaling(8.0),
  },
  # meta-llama/Llama-3.1-8B-Instruct
  "Llama-3.1-8B": LLAMA_3
  | {
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "rope_scaling": _scaling(8.0),
  },
  # meta-llama/Llama-3.2-1B-Instruct
  "Llama-3.2-1B": LLAMA_3
  | {
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "rope_scaling": _scaling(32.0),
    "tie_word_embeddings": True,
  },
  # meta-llama/Llama-2-7b-hf
  "Llama-2-7B": {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 4096,
  },
  # JackFram/llama-68m
  "Llama-68M": {
    "vocab_size": 32000,
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 2,
    "num_attention_heads": 12,
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 2048,
  },
  # Two that a laptop decodes with in no time.
  "toy": {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 512,
  },
  "toy draft": {
    "vocab_size": 64,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 512,
  },
}

# Bytes a second from and to memory, by jax's name of the device: from the data
# sheets of their makers.
CHIPS = {
  "NVIDIA B200": 8.0e12,
  "NVIDIA H200": 4.8e12,
  "NVIDIA H100 80GB HBM3": 3.35e12,
  "NVIDIA H100 PCIe": 2.0e12,
  "NVIDIA A100-SXM4-80GB": 2.039e12,
  "NVIDIA A100-SXM4-40GB": 1.555e12,
  "NVIDIA RTX A6000": 0.768e12,
  "NVIDIA L40S": 0.864e12,
  "NVIDIA L4": 0.3e12,
  "NVIDIA GeForce RTX 4090": 1.008e12,
  "NVIDIA GeForce RTX 3090": 0.936e12,
  "Tesla T4": 0.32e12,
}

# Weng et al. 2025, tables 1 and 2: tokens gained in a cycle, mean over the six
# tasks at temperature 1, by draft and target, tree, verifier.
PAPER = {
  ("Llama-3.2-1B", "Llama-3.1-8B"): {
    "chain:5": {"token_level": 3.88, "traversal": 3.99},
    "kary:2x5": {"token_level": 4.63, "traversal": 4.73},
    "eagle": {"token_level": 4.49, "traversal": 4.60},
  },
  ("Llama-68M", "Llama-2-7B"): {
    "chain:5": {"token_level": 1.99, "traversal": 2.10},
    "kary:2x5": {"token_level": 2.44, "traversal": 2.56},
    "eagle": {"token_level": 2.52, "traversal": 2.62},
  },
}


# Models.


def config(name: str, dtype: str, layers: int | None = None) -> Config:
  """One of `MODELS`; of fewer layers, if their number is given."""
  raw = MODELS[name] | {
    "model_type": "llama",
    "hidden_act": "silu",
    "dtype": dtype,
  }
  if layers:
    raw["num_hidden_layers"] = layers
  return families.from_dict(raw, name)


def parameters(config: Config, leaves, make: Callable) -> dict:
  """Parameters, each `make(leaf, shape)`."""
  size, params = decoder.sizes(config) | {"I": 2 * config.hidden_size}, {}
  for leaf in leaves:
    node = params
    for name in leaf.path[:-1]:
      node = node.setdefault(name, {})
    shape = tuple(size[axis] for axis in leaf.axes)
    node[leaf.path[-1]] = make(leaf, shape)
  return params


def shapes_on(config: Config, mesh=None) -> Callable:
  """A `make` of shapes instead of arrays, split over `mesh` if there is one."""

  def make(leaf, shape):
    on = sharding.placement(leaf.axes, mesh)
    return jax.ShapeDtypeStruct(shape, jnp.dtype(config.dtype), sharding=on)

  return make


def random_of(config: Config, seed: int, scale: float = 0.02) -> Callable:
  """A `make` of random arrays on the device; norms are around 1."""
  keys = iter(jax.random.split(jax.random.key(seed), 4096))

  def make(leaf, shape):
    norm = len(shape) == 1 and not leaf.path[-1].endswith("bias")
    return _normal(next(keys), shape, config.dtype, 1.0 if norm else 0.0, scale)

  return make


@functools.partial(jax.jit, static_argnums=(1, 2))
def _normal(key, shape, dtype, mean, scale):
  values = mean + scale * jax.random.normal(key, shape, jnp.float32)
  return values.astype(dtype)


def model(config: Config, make: Callable, mesh=None) -> Model:
  """A Llama of parameters that `make` makes."""
  return Model(
    config=config,
    params={"params": parameters(config, families.leaves(config), make)},
    apply=families.apply(config, mesh),
    mesh=mesh,
    source="random",
  )


def head(target: Model, make: Callable) -> Head:
  """An EAGLE-1 head for `target`: one layer of the same kind, with a bias."""
  own = dataclasses.replace(target.config, num_hidden_layers=1)
  leaves = eagle.leaves(own, bias=True)
  params = parameters(own, leaves, make) | shared(target.params["params"])
  return Head(
    config=own,
    params={"params": params},
    apply=eagle.Eagle(own, True, target.mesh).apply,
    bias=True,
    mesh=target.mesh,
    source="random",
  )


# Programs.


def plan(
  target: Model,
  draft: Model | Head | None = None,
  tree: Tree | str = "eagle",
  verifier: str = "traversal",
  proposal: str = "without_replacement",
  **others,
) -> decoding.Plan:
  """What `tv_jax.generate` would compile on a GPU; plain without a draft."""
  speculation = None
  if draft is not None:
    kind = "eagle" if isinstance(draft, Head) else "independent"
    speculation = decoding.Speculation(
      drafter=drafting.KINDS[kind](draft.apply),
      tree=tree_lib.parse(tree) if isinstance(tree, str) else tree,
      proposal=proposals.PROPOSALS[proposal],
      verifier=verifiers.VERIFIERS[verifier],
    )
  return decoding.Plan(
    target=target.apply, speculation=speculation, one_by_one=False, **others
  )


def request(
  batch: int, prompt: int, limit: int, vocabulary: int, seed: int = 0
) -> decoding.Request:
  """Rows with random prompts of `prompt` tokens."""
  prompts, rows = jax.random.split(jax.random.key(seed))
  shape = batch, prompt + 1
  return decoding.Request(
    prompts=jax.random.randint(prompts, shape, 0, vocabulary, jnp.int32),
    length=jnp.full(batch, prompt, jnp.int32),
    keys=jax.random.split(rows, batch),
    limit=jnp.full(batch, limit, jnp.int32),
    temperature=jnp.ones((), jnp.float32),
    draft_temperature=jnp.ones((), jnp.float32),
  )


def empty_caches(
  target: Config, draft: Config | None, batch: int, slots: int
) -> decoding.Caches:
  """Caches for both models."""
  return decoding.Caches(
    caches.empty(target, batch, slots),
    draft and caches.empty(draft, batch, slots),
  )


# Bytes.


def bytes_of(tree) -> int:
  """Of all its arrays, or shapes."""
  return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(tree))


def bytes_of_pass(model: Model | Head, slots: int, batch: int = 1) -> int:
  """What a pass must read: weights once, a cache of `slots` for each row.

  Of an embedding only some rows, unless it is the unembedding too. What is
  written, and activations, are little beside it.
  """
  params, own = model.params["params"], model.config
  weights = bytes_of(params)
  if not own.tie_word_embeddings:
    weights -= bytes_of(params["embedding"])
  row = own.num_key_value_heads * own.head_dim * jnp.dtype(own.dtype).itemsize
  return weights + 2 * own.num_hidden_layers * slots * row * batch


def bytes_of_cycle(
  target: Model, draft: Model | Head, tree: Tree, slots: int
) -> int:
  """Of a cycle of one row: all passes, and each law read once."""
  laws = 4 * target.config.vocab_size * (len(tree) + len(tree.inner))
  passes = tree.max_depth * bytes_of_pass(draft, slots)
  return bytes_of_pass(target, slots) + passes + laws
