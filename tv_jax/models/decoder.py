"""The decoder of Llama (Touvron et al. 2023), and of what varies it, in Linen.

The caller gives positions and an additive mask, so a prompt, one token, a
level of a tree and a whole tree are the same call. The cache goes in and
comes out.

B batch, T query length, S cache length, V vocabulary, U tokens that a draft
knows, E embedding, F columns of the MLP, H query heads, G key and value heads,
R = H / G query heads of one of those, P = R + 2 projections of one of those
(its queries, its key, its value), C channels of a head; Q = T R; X what comes
out of a product, I what goes into it (as a weight's axis 2 E, what an EAGLE
head fuses), J the E of each of the target's layers that a draft reads. Of a
Markov head (dspark.py): M its rank, N = 3 M, Z what its gate or its recurrence
reads, W what its confidence reads.

Weights keep PyTorch's [out, in], so that loading moves bytes and transposes
none, but on a CPU (products.py). Norms, rotations, attention weights and logits
are computed in float32 whatever the dtype of the weights.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.sharding import Mesh

from tv_jax.models import cache as caches
from tv_jax.models import products, rope, sharding
from tv_jax.models.cache import Cache
from tv_jax.models.config import Config
from tv_jax.models.products import Quantised, project

Heads = Callable[[Any, jax.Array], jax.Array]
INPUT = -1  # among layers' numbers: the embedding, which the first one reads


def sizes(config: Config) -> dict[str, int]:
  """Returns the length of each axis."""
  E = config.hidden_size
  sizes = {
    "V": config.vocab_size,
    "U": config.draft_vocab_size or config.vocab_size,
    "E": E,
    "F": config.intermediate_size,
    "G": config.num_key_value_heads,
    "R": config.heads_per_group,
    "P": config.heads_per_group + 2,
    "C": config.head_dim,
    "I": 2 * E,
    "J": len(config.target_layers) * E,
    "2": 2,
  }
  if own := config.block:
    M = own.rank
    joint = {"gated": M + E, "rnn": 2 * M + E}.get(own.head or "", 0)
    width = E + M if own.sees_token else E
    sizes |= {"M": M, "N": 3 * M, "Z": joint, "W": width, "1": 1}
  return sizes


def weight(module, name: str, axes: str) -> Any:
  """Returns a parameter of `module`: an array, or `Quantised` if it is that.

  Args:
    module: It has a `config`.
    name: Of the parameter.
    axes: A letter for each axis.
  """
  size = sizes(module.config)
  shape = tuple(size[axis] for axis in axes)
  channels = products.channels(name, axes, module.config)
  if channels and module.config.quantised:  # only `load` makes real ones
    rows = tuple(size[axis] for axis in channels)
    return module.param(
      name,
      lambda _: Quantised(jnp.zeros(shape, jnp.int8), jnp.ones(rows)),
    )
  norm = name.endswith("norm")
  return module.param(
    name,
    nn.initializers.ones if norm else nn.initializers.normal(0.02),
    shape,
    jnp.dtype(module.config.dtype),
  )


def embed(
  table: jax.Array | Quantised, tokens: jax.Array, config: Config, mesh
) -> jax.Array:
  """Returns rows [B, T, E] of an embedding."""
  if not isinstance(table, Quantised):
    return sharding.rows(table, tokens, mesh)
  values, scale = (
    sharding.rows(x, tokens, mesh).astype(jnp.float32)
    for x in (table.values, table.scale[:, None])
  )
  return (values * scale).astype(config.dtype)


def rotation(config: Config, positions: jax.Array) -> jax.Array:
  """Returns what `rope.rotate` needs to know of `positions` [B, T]."""
  frequency = rope.frequencies(
    config.rope_theta, config.head_dim, config.rope_scaling
  )
  return rope.rotation(positions, frequency)


def rms_norm(x: jax.Array, scale: jax.Array, epsilon: float) -> jax.Array:
  """Normalises `x` over its last axis by root mean square, then scales it."""
  wide = x.astype(jnp.float32)
  wide *= jax.lax.rsqrt(jnp.mean(wide**2, axis=-1, keepdims=True) + epsilon)
  scale = jnp.expand_dims(scale, tuple(range(x.ndim - scale.ndim)))
  return (wide * scale.astype(jnp.float32)).astype(x.dtype)


def attend(
  queries: jax.Array, keys: jax.Array, values: jax.Array, mask: jax.Array
) -> jax.Array:
  """Attends with `queries` [B, T, G, R, C] to all slots of the cache."""
  B, T, G, R, C = queries.shape
  # One plain batched product each: given more axes, XLA transposes the cache.
  # T before R, or XLA finds no tiles where T is not a power of two.
  queries = queries.swapaxes(1, 2).reshape(B, G, T * R, C)
  scores = jnp.einsum(
    "BGQC,BGSC->BGQS", queries, keys, preferred_element_type=jnp.float32
  )
  scores = scores.reshape(B, G, T, R, -1) * C**-0.5 + mask[:, None, :, None]
  weights = jax.nn.softmax(scores, axis=-1).astype(values.dtype)
  weights = weights.reshape(B, G, T * R, -1)
  y = jnp.einsum("BGQS,BGSC->BGQC", weights, values)
  return y.reshape(B, G, T, R, C).swapaxes(1, 2)


def unembed(module, embedding, features: jax.Array) -> jax.Array:
  """Returns logits [B, T, V] in float32, by the embedding if that is tied.

  A draft that knows few tokens gives all others -inf.
  """
  config = module.config
  if config.draft_vocab_size:
    matrix = weight(module, "unembedding", "UE")
    known = products.product(features, matrix, jnp.float32)
    place = module.param(
      "place", lambda _: jnp.zeros(config.vocab_size, jnp.int32)
    )
    return spread(known, place, -jnp.inf)
  tied = config.tie_word_embeddings
  matrix = embedding if tied else weight(module, "unembedding", "VE")
  logits = products.product(features, matrix, jnp.float32)
  return sharding.replicate(logits, module.mesh)


def spread(known: jax.Array, place: jax.Array, rest: float) -> jax.Array:
  """Returns [.., V] of [.., U] that a draft knows; all others get `rest`."""
  others = jnp.full((*known.shape[:-1], 1), rest)
  whole = jnp.concatenate([known, others], axis=-1)
  return jnp.take(whole, place, axis=-1, mode="clip")


class Layer(nn.Module):
  """Attention and MLP, each added to its own input.

  Attributes:
    config: The model's.
    mesh: The devices that it is split over, if more than one.
    heads: As of `Decoder`.
    attention_norm: Whether the attention's input is normalised first.
  """

  config: Config
  mesh: Mesh | None
  heads: Heads | None = None
  attention_norm: bool = True

  @nn.compact
  def __call__(
    self, x, turn, mask, keys, values, start, inputs=None, beside=None
  ):
    """Returns x [B, T, E] and the layer's keys and values.

    The attention reads `inputs` [B, T, I] in the place of x, if they are given.
    What is `beside` the T tokens, [B, .., E], is seen by them and sees nothing:
    rows before theirs of which there are keys and values alone.
    """
    R = self.config.heads_per_group
    norm = functools.partial(rms_norm, epsilon=self.config.rms_norm_eps)

    with jax.named_scope("attention"):
      y = (
        norm(x, weight(self, "attention_norm", "E"))
        if self.attention_norm
        else x
      )
      axes = "GPCE" if inputs is None else "GPCI"
      y = y if inputs is None else inputs
      if beside is not None:
        y = jnp.concatenate([beside, y], axis=1)
      qkv = project(y, weight(self, "qkv", axes))
      if self.heads is not None:
        qkv = self.heads(self, qkv)
      turned = rope.rotate(qkv[..., : R + 1, :], turn)
      new_keys, new_values = turned[..., R, :], qkv[..., R + 1, :]
      keys = caches.write(keys, new_keys.swapaxes(1, 2), start)
      values = caches.write(values, new_values.swapaxes(1, 2), start)
      if not x.shape[1]:
        return x, keys, values
      queries = turned[:, y.shape[1] - x.shape[1] :, :, :R]
      y = attend(queries, keys, values, mask)
      y = y.reshape(*y.shape[:2], -1)
      y = project(y, weight(self, "out", "EGRC"), channels=1)
      x = sharding.replicate(x + y, self.mesh)

    with jax.named_scope("mlp"):
      y = norm(x, weight(self, "mlp_norm", "E"))
      y = project(y, weight(self, "gate_up", "F2E"))
      y = project(nn.silu(y[..., 0]) * y[..., 1], weight(self, "down", "EF"))
      x = sharding.replicate(x + y, self.mesh)

    return x, keys, values


# Traced and lowered once for all layers of a model.
_TracedOnce = nn.jit(Layer)


def layer(module: nn.Module, **own) -> Layer:
  """Returns a layer of `module`, which calls this."""
  # Lifted, it would draw other initial weights.
  return (Layer if module.is_initializing() else _TracedOnce)(**own)


class Decoder(nn.Module):
  """The model.

  Attributes:
    config: Its shape and constants.
    mesh: The devices that it is split over, if more than one.
    heads: What is done to queries, keys and values [B, T, G, P, C] before
      positions are; it takes the layer first, whose parameters it may use.
    outputs: Of which layers the outputs are the features, side by side: 0 is
      the first layer, `INPUT` what goes into it. Without any they are what
      comes out of the final norm. A target of a draft that reads these is
      `module.clone(outputs=draft.config.target_layers)`.
  """

  config: Config
  mesh: Mesh | None = None
  heads: Heads | None = None
  outputs: tuple[int, ...] = ()

  @nn.compact
  def __call__(
    self,
    tokens: jax.Array,
    positions: jax.Array,
    mask: jax.Array,
    cache: Cache,
  ) -> tuple[jax.Array, jax.Array, Cache]:
    """Processes T tokens of each row.

    Args:
      tokens: [B, T] int32.
      positions: [B, T] int32.
      mask: [B, T, S] float32, added to the attention's scores.
      cache: Their keys and values are written to it from its length on.

    Returns:
      Logits [B, T, V] float32, features [B, T, E] (after the final norm, or E
      for each of `outputs`), and the cache, longer by T.
    """
    embedding = weight(self, "embedding", "VE")
    with jax.named_scope("embed"):
      x = embed(embedding, tokens, self.config, self.mesh)
      turn = rotation(self.config, positions)
    keys, values, outputs = [], [], {INPUT: x}
    layers = range(self.config.num_hidden_layers)
    for i, k, v in zip(layers, cache.keys, cache.values, strict=True):
      own = layer(
        self,
        config=self.config,
        mesh=self.mesh,
        heads=self.heads,
        name=f"layers_{i}",
      )
      x, k, v = own(x, turn, mask, k, v, cache.length)
      outputs[i] = x
      keys.append(k)
      values.append(v)
    with jax.named_scope("unembed"):
      features = rms_norm(
        x, weight(self, "norm", "E"), self.config.rms_norm_eps
      )
      logits = unembed(self, embedding, features)
    if self.outputs:
      own = [outputs[i] for i in self.outputs]
      features = jnp.concatenate(own, axis=-1)
    length = cache.length + tokens.shape[1]
    cache = Cache(keys=tuple(keys), values=tuple(values), length=length)
    return logits, features, cache
