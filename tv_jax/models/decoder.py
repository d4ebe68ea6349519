"""The decoder of Llama (Touvron et al. 2023), and of what varies it, in Linen.

The caller gives positions and an additive mask, so a prompt, one token, a
level of a tree and a whole tree are the same call. The cache goes in and
comes out.

B batch, T query length, S cache length, V vocabulary, U tokens that a draft
knows, E embedding, F columns of the MLP, H query heads, G key and value heads,
R = H / G query heads of one of those, P = R + 2 projections of one of those
(its queries, its key, its value), C channels of a head; J what a draft reads
of each token.

Kernels are [out, in] and embeddings [V, E], as in checkpoints. The rows of
`qkv` are [G, P, C] and those of `gate_up` are [F, 2], so that both can be split
over devices. Norms, rotations, attention weights and logits are computed in
float32 whatever the dtype of the weights.
"""

import functools

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.sharding import Mesh

from tv_jax.models import cache as caches
from tv_jax.models import families, layout, products, rope, sharding
from tv_jax.models.cache import Cache
from tv_jax.models.config import Config

INPUT = -1  # among layers' numbers: the embedding, which the first one reads
# Parameters that a draft may have of its target.
OF_TARGET = ("embedding", "unembedding", "place")


def weights(*axes: str | None) -> nn.initializers.Initializer:
  """Returns an initialiser of weights whose axes have these logical names."""
  return nn.with_logical_partitioning(nn.initializers.normal(0.02), axes)


class Dense(nn.Module):
  """A linear layer.

  Attributes:
    config: The model's configuration.
    mesh: The devices that the model is split over, if more than one.
    features: Size of the output.
    axes: Logical axes of the kernel [out, in].
    bias: Whether a bias is added.
  """

  config: Config
  mesh: Mesh | None
  features: int
  axes: tuple[str | None, str | None]
  bias: bool = False

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Returns the layer's output [.., out] for an input [.., in]."""
    dtype = jnp.dtype(self.config.dtype)
    shape = self.features, x.shape[-1]
    y = products.dense(
      x, self.param("kernel", weights(*self.axes), shape, dtype), self.mesh
    )
    if not self.bias:
      return y
    zeros = nn.with_logical_partitioning(nn.initializers.zeros, self.axes[:1])
    bias = self.param("bias", zeros, shape[:1], dtype)
    return y + jnp.expand_dims(bias, tuple(range(y.ndim - 1)))


class RMSNorm(nn.Module):
  """Normalises the last axis by root mean square, then scales it."""

  config: Config

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Returns x [.., E] normalised."""
    ones = nn.with_logical_partitioning(nn.initializers.ones, (None,))
    dtype = jnp.dtype(self.config.dtype)
    scale = self.param("scale", ones, x.shape[-1:], dtype, unbox=True)
    return rms_norm(x, scale, self.config.rms_norm_eps)


def rms_norm(x: jax.Array, scale: jax.Array, epsilon: float) -> jax.Array:
  """Normalises `x` over its last axis by root mean square, then scales it."""
  wide = x.astype(jnp.float32)
  wide *= jax.lax.rsqrt(jnp.mean(wide**2, axis=-1, keepdims=True) + epsilon)
  scale = jnp.expand_dims(scale, tuple(range(x.ndim - scale.ndim)))
  return (wide * scale.astype(jnp.float32)).astype(x.dtype)


def embedding(module: nn.Module) -> jax.Array:
  """Returns the embedding [V, E] among a module's parameters."""
  config = module.config
  shape = config.vocab_size, config.hidden_size
  dtype = jnp.dtype(config.dtype)
  return module.param("embedding", weights("vocab", None), shape, dtype)


def unembed(module: nn.Module, table, features: jax.Array) -> jax.Array:
  """Returns logits [B, T, V] in float32, by the embedding if that is tied.

  A draft that knows few tokens gives all others -inf.
  """
  config, dtype = module.config, jnp.dtype(module.config.dtype)
  if U := config.draft_vocab_size:
    kernel, shape = weights(None, None), (U, config.hidden_size)
    matrix = module.param("unembedding", kernel, shape, dtype)
    place = module.param("place", no_places, config.vocab_size, unbox=True)
    known = products.logits(features, matrix, module.mesh)
    return spread(known, place, -jnp.inf)
  if not config.tie_word_embeddings:
    kernel, shape = weights("vocab", None), table.shape
    table = module.param("unembedding", kernel, shape, dtype)
  mesh = module.mesh
  return sharding.replicate(products.logits(features, table, mesh), mesh)


def no_places(key, size: int) -> nn.LogicallyPartitioned:
  """Initialises where a draft's tokens are among its target's."""
  del key
  return nn.LogicallyPartitioned(jnp.zeros(size, jnp.int32), (None,))


def spread(known: jax.Array, place: jax.Array, rest: float) -> jax.Array:
  """Returns [.., V] of [.., U] that a draft knows; all others get `rest`."""
  others = jnp.full((*known.shape[:-1], 1), rest)
  whole = jnp.concatenate([known, others], axis=-1)
  return jnp.take(whole, place, axis=-1, mode="clip")


def rotation(config: Config, positions: jax.Array) -> jax.Array:
  """Returns what `rope.rotate` needs to know of `positions` [B, T]."""
  frequency = rope.frequencies(
    config.rope_theta, config.head_dim, config.rope_scaling
  )
  return rope.rotation(positions, frequency)


def example(config: Config, features: int = 0, places: int = 1) -> tuple:
  """Returns the inputs of a pass over one token, which may have features."""
  token = jnp.zeros([1, 1], jnp.int32)
  beside = [jnp.zeros([1, 1, features], config.dtype)] if features else []
  positions, mask = jnp.zeros([1, places], jnp.int32), jnp.zeros([1, 1, places])
  cache = caches.empty(config, 1, places)
  return token, *beside, positions, mask, cache


def attend(
  queries: jax.Array, keys: jax.Array, values: jax.Array, mask: jax.Array
) -> jax.Array:
  """Attends with `queries` [B, T, G, R, C] to all slots of the cache."""
  B, T, G, R, C = queries.shape
  # One plain batched product each: given more axes, XLA transposes the cache.
  # T before R, or XLA finds no tiles where T is not a power of two. Q = T R.
  queries = queries.swapaxes(1, 2).reshape(B, G, T * R, C)
  scores = jnp.einsum(
    "BGQC,BGSC->BGQS", queries, keys, preferred_element_type=jnp.float32
  )
  scores = scores.reshape(B, G, T, R, -1) * C**-0.5 + mask[:, None, :, None]
  weights = jax.nn.softmax(scores, axis=-1).astype(values.dtype)
  weights = weights.reshape(B, G, T * R, -1)
  y = jnp.einsum("BGQS,BGSC->BGQC", weights, values)
  return y.reshape(B, G, T, R, C).swapaxes(1, 2)


class Layer(nn.Module):
  """Attention and MLP, each added to its own input.

  Attributes:
    config: The model's.
    mesh: The devices that it is split over, if more than one.
    attention_norm: Whether the attention's input is normalised first.
  """

  config: Config
  mesh: Mesh | None
  attention_norm: bool = True

  @nn.compact
  def __call__(
    self, x, turn, mask, keys, values, start, inputs=None, beside=None
  ):
    """Returns x [B, T, E] and the layer's keys and values.

    The attention reads `inputs` [B, T, 2 E] in the place of x, if they are
    given. What is `beside` the T tokens, [B, .., E], is seen by them and sees
    nothing: rows before theirs of which there are keys and values alone.
    """
    config, family = self.config, families.FAMILIES[self.config.model_type]
    E, F = config.hidden_size, config.intermediate_size
    G, C = config.num_key_value_heads, config.head_dim
    R = config.heads_per_group
    dense = functools.partial(Dense, config, self.mesh)

    with jax.named_scope("attention"):
      y = x if inputs is None else inputs
      if self.attention_norm:
        y = RMSNorm(config, name="attention_norm")(y)
      if beside is not None:
        y = jnp.concatenate([beside, y], axis=1)
      rows = G * (R + 2) * C
      qkv = dense(rows, ("heads", None), family.qkv_bias, name="qkv")(y)
      qkv = qkv.reshape(*y.shape[:2], G, R + 2, C)
      if family.query_key_norm:
        qkv = NormHeads(config, name="head_norms")(qkv)
      turned = rope.rotate(qkv[..., : R + 1, :], turn)
      new_keys, new_values = turned[..., R, :], qkv[..., R + 1, :]
      keys = caches.write(keys, new_keys.swapaxes(1, 2), start)
      values = caches.write(values, new_values.swapaxes(1, 2), start)
      if not x.shape[1]:
        return x, keys, values
      queries = turned[:, y.shape[1] - x.shape[1] :, :, :R]
      y = attend(queries, keys, values, mask)
      y = dense(E, (None, "heads"), name="out")(y.reshape(*y.shape[:2], -1))
      x = sharding.replicate(x + y, self.mesh)

    with jax.named_scope("mlp"):
      y = RMSNorm(config, name="mlp_norm")(x)
      y = dense(2 * F, ("mlp", None), name="gate_up")(y)
      y = y.reshape(*y.shape[:2], F, 2)
      y = nn.silu(y[..., 0]) * y[..., 1]
      y = dense(E, (None, "mlp"), name="down")(y)
      x = sharding.replicate(x + y, self.mesh)

    return x, keys, values


class NormHeads(nn.Module):
  """Normalises queries and keys, head by head, as Qwen3 does."""

  config: Config

  @nn.compact
  def __call__(self, qkv: jax.Array) -> jax.Array:
    """Returns `qkv` [B, T, G, P, C] with its queries and keys normalised."""
    C, R = qkv.shape[-1:], self.config.heads_per_group
    ones = nn.with_logical_partitioning(nn.initializers.ones, (None,))
    query, key = (
      self.param(name, ones, C, jnp.dtype(self.config.dtype), unbox=True)
      for name in ("query", "key")
    )
    both, value = jnp.split(qkv, [R + 1], axis=-2)
    scale = jnp.stack([query] * R + [key])
    both = rms_norm(both, scale, self.config.rms_norm_eps)
    return jnp.concatenate([both, value], axis=-2)


# Traced and lowered once for all layers of a model.
_TracedOnce = nn.jit(Layer)


def layer(module: nn.Module, name: str, attention_norm: bool = True) -> Layer:
  """Returns a layer of `module`, which calls this."""
  # Lifted, it would draw other initial weights.
  kind = Layer if module.is_initializing() else _TracedOnce
  return kind(module.config, module.mesh, attention_norm, name=name)


class Decoder(nn.Module):
  """The model.

  Attributes:
    config: Its shape and constants.
    mesh: The devices that it is split over, if more than one.
    outputs: Of which layers the outputs are the features, side by side: 0 is
      the first layer, `INPUT` what goes into it. Without any they are what
      comes out of the final norm. A target of a draft that reads these is
      `module.clone(outputs=draft.config.target_layers)`.
  """

  config: Config
  mesh: Mesh | None = None
  outputs: tuple[int, ...] = ()
  layout = layout.MODEL

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
    table = embedding(self)
    with jax.named_scope("embed"):
      x = sharding.rows(table, tokens, self.mesh)
      turn = rotation(self.config, positions)
    keys, values, outputs = [], [], {INPUT: x}
    layers = range(self.config.num_hidden_layers)
    for i, k, v in zip(layers, cache.keys, cache.values, strict=True):
      block = layer(self, f"layers_{i}")
      x, k, v = block(x, turn, mask, k, v, cache.length)
      outputs[i] = x
      keys.append(k)
      values.append(v)
    with jax.named_scope("unembed"):
      features = RMSNorm(self.config, name="norm")(x)
      logits = unembed(self, table, features)
    if self.outputs:
      features = jnp.concatenate([outputs[i] for i in self.outputs], axis=-1)
    length = cache.length + tokens.shape[1]
    cache = Cache(keys=tuple(keys), values=tuple(values), length=length)
    return logits, features, cache

  def example(self) -> tuple:
    """Returns the inputs of the smallest pass."""
    return example(self.config)

  @property
  def draft_config(self) -> dict:
    """Returns what config.json says of a kind of draft besides."""
    return {}

  @property
  def of_target(self) -> tuple[str, ...]:
    """Returns the parameters that it has of its target, if it is a draft."""
    return OF_TARGET if self.config.shares_embedding else ()
