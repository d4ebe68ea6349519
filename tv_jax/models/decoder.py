"""The decoder of Llama (Touvron et al. 2023) and its variants, in Linen.

The caller gives positions and an additive mask. So the same call processes a
prompt, a token, a level of a tree or a whole tree. It takes the cache and
returns the updated cache.

B batch, T query length, S cache length, V vocabulary, U tokens that a draft
knows, E embedding, F columns of the MLP, H query heads, G key and value heads,
R = H / G query heads per key head, P = R + 2 projections per key head (R
queries, a key, a value), C channels of a head, J width of the target features
that a draft reads.

Kernels are [out, in] and embeddings [V, E], as in checkpoints. The rows of
`qkv` are [G, P, C] and the rows of `gate_up` are [F, 2], so that both can be
split over devices. Norms, rotations, attention weights and logits are computed
in float32 whatever the dtype of the weights.
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
from tv_jax.models.products import Matrix
from tv_jax.models.quantised import Quantised

INPUT = -1  # in the place of a layer's index: the embedding, input of layer 0
# Parameters that a draft may take from its target.
OF_TARGET = ("embedding", "unembedding", "place")


def weights(*axes: str | None) -> nn.initializers.Initializer:
  """Returns an initialiser for weights with these logical axis names."""
  return nn.with_logical_partitioning(nn.initializers.normal(0.02), axes)


def matrix(module: nn.Module, name: str, axes, shape, dtype) -> Matrix:
  """Returns a matrix among a module's parameters."""
  if module.has_variable("params", name):
    value = module.get_variable("params", name)
    if isinstance(value, Quantised):  # flax compares shapes of arrays only
      return value
  return module.param(name, weights(*axes), shape, dtype)


class Dense(nn.Module):
  """A linear layer.

  Attributes:
    config: The model's configuration.
    mesh: The mesh that splits the model, or None for one device.
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
    kernel = matrix(self, "kernel", self.axes, shape, dtype)
    y = products.dense(x, kernel, self.mesh)
    if not self.bias:
      return y
    zeros = nn.with_logical_partitioning(nn.initializers.zeros, self.axes[:1])
    bias = self.param("bias", zeros, shape[:1], dtype, unbox=True)
    return y + jnp.expand_dims(bias, tuple(range(y.ndim - 1)))


class RMSNorm(nn.Module):
  """Normalises the last axis by root mean square, then scales it."""

  config: Config

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Returns the normalised x [.., E]."""
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


def embedding(module: nn.Module) -> Matrix:
  """Returns the embedding [V, E] among a module's parameters."""
  config = module.config
  shape = config.vocab_size, config.hidden_size
  dtype = jnp.dtype(config.dtype)
  return matrix(module, "embedding", ("vocab", None), shape, dtype)


def unembed(module: nn.Module, table, features: jax.Array) -> jax.Array:
  """Returns logits [B, T, V] in float32, with the embedding if it is tied.

  A draft with fewer known tokens gives all other tokens -inf.
  """
  config, dtype = module.config, jnp.dtype(module.config.dtype)
  if U := config.draft_vocab_size:
    shape = U, config.hidden_size
    table = matrix(module, "unembedding", (None, None), shape, dtype)
    place = module.param("place", no_places, config.vocab_size, unbox=True)
    known = products.logits(features, table, module.mesh)
    return scatter_logits(known, place, -jnp.inf)
  if not config.tie_word_embeddings:
    axes, shape = ("vocab", None), table.shape
    table = matrix(module, "unembedding", axes, shape, dtype)
  mesh = module.mesh
  return sharding.replicate(products.logits(features, table, mesh), mesh)


def no_places(key, size: int) -> nn.LogicallyPartitioned:
  """Initialises each token's index among the tokens that a draft knows."""
  del key
  return nn.LogicallyPartitioned(jnp.zeros(size, jnp.int32), (None,))


def scatter_logits(
  logits: jax.Array, index: jax.Array, fill: float
) -> jax.Array:
  """Returns logits [.., V] of all tokens, given those [.., U] of known tokens.

  Args:
    logits: The logits.
    index: [V] each token's index among the known tokens; U: not known.
    fill: The logit of the other tokens.
  """
  others = jnp.full((*logits.shape[:-1], 1), fill)
  whole = jnp.concatenate([logits, others], axis=-1)
  return jnp.take(whole, index, axis=-1, mode="clip")


def attend(
  queries: jax.Array, keys: jax.Array, values: jax.Array, mask: jax.Array
) -> jax.Array:
  """Attends with `queries` [B, T, G, R, C] to all slots of the cache."""
  B, T, G, R, C = queries.shape
  # Each einsum is a plain batched product: with more axes, XLA transposes the
  # cache. T stands before R because XLA otherwise finds no tiles if T is not a
  # power of two. Q = T R.
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
  """Attention and MLP, each with a residual connection.

  Attributes:
    config: The model's configuration.
    mesh: The mesh that splits the model, or None for one device.
    attention_norm: Whether the attention's input is normalised.
  """

  config: Config
  mesh: Mesh | None
  attention_norm: bool = True

  @nn.compact
  def __call__(
    self, x, rotation, mask, keys, values, start, inputs=None, context=None
  ):
    """Returns x [B, T, E] and the layer's keys and values.

    If `inputs` [B, T, 2 E] are given, the attention reads them instead of x.
    The T tokens also attend to the rows of `context` [B, .., E], whose keys and
    values are written to the slots before theirs.
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
      if context is not None:
        y = jnp.concatenate([context, y], axis=1)
      rows = G * (R + 2) * C
      qkv = dense(rows, ("heads", None), family.qkv_bias, name="qkv")(y)
      qkv = qkv.reshape(*y.shape[:2], G, R + 2, C)
      if family.query_key_norm:
        qkv = NormHeads(config, name="head_norms")(qkv)
      rotated = rope.rotate(qkv[..., : R + 1, :], rotation)
      new_keys, new_values = rotated[..., R, :], qkv[..., R + 1, :]
      keys = caches.write(keys, new_keys.swapaxes(1, 2), start)
      values = caches.write(values, new_values.swapaxes(1, 2), start)
      if not x.shape[1]:
        return x, keys, values
      queries = rotated[:, y.shape[1] - x.shape[1] :, :, :R]
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
  """Normalises the queries and keys of each head, as Qwen3 does."""

  config: Config

  @nn.compact
  def __call__(self, qkv: jax.Array) -> jax.Array:
    """Returns `qkv` [B, T, G, P, C] with normalised queries and keys."""
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


def layers(
  module: nn.Module,
  x: jax.Array,
  positions: jax.Array,
  mask: jax.Array,
  cache: Cache,
  *more: jax.Array | None,
  name: str = "layers_{}",
  attention_norm: bool = True,
) -> tuple[list[jax.Array], Cache]:
  """Runs all layers of `module`; only for calls by `module` itself.

  Args:
    module: The module that owns the layers.
    x: [B, T, E] Input of the first layer.
    positions: [B, T] int32.
    mask: [B, T, S] float32.
    cache: The cache.
    *more: Further arguments of each `Layer`.
    name: Name of a layer, with {} for its number.
    attention_norm: Whether the attention's input is normalised.

  Returns:
    The output [B, T, E] of each layer, and the cache with T more rows.
  """
  # nn.jit would draw other initial weights.
  kind = Layer if module.is_initializing() else _TracedOnce
  config = module.config
  frequency = rope.frequencies(
    config.rope_theta, config.head_dim, config.rope_scaling
  )
  rotation = rope.rotation(positions, frequency)
  outputs, keys, values = [], [], []
  for i, pair in enumerate(zip(cache.keys, cache.values, strict=True)):
    layer = kind(config, module.mesh, attention_norm, name=name.format(i))
    x, k, v = layer(x, rotation, mask, *pair, cache.length, *more)
    outputs.append(x)
    keys.append(k)
    values.append(v)
  length = cache.length + positions.shape[1]
  cache = Cache(keys=tuple(keys), values=tuple(values), length=length)
  return outputs, cache


class Decoder(nn.Module):
  """The language model.

  Attributes:
    config: The model's shape and constants.
    mesh: The mesh that splits the model, or None for one device.
    outputs: Indices of the layers whose outputs are concatenated as features;
      `INPUT` stands for the embedding, and L for the final norm. If empty, the
      features are the output of the final norm. The target of a draft that
      reads layers is `module.clone(outputs=draft.config.target_layer_ids)`.
  """

  config: Config
  mesh: Mesh | None = None
  outputs: tuple[int, ...] = ()
  format = layout.LANGUAGE_MODEL

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
      cache: The cache; the pass appends the tokens' keys and values.

    Returns:
      Logits [B, T, V] float32, features [B, T, E] (wider with several
      `outputs`), and the cache, longer by T.
    """
    table = embedding(self)
    with jax.named_scope("embed"):
      x = products.rows(table, tokens, self.mesh)
    outputs, cache = layers(self, x, positions, mask, cache)
    with jax.named_scope("unembed"):
      features = RMSNorm(self.config, name="norm")(outputs[-1])
      logits = unembed(self, table, features)
    if self.outputs:
      outputs = [x, *outputs, features]  # the embedding's index is -1
      features = [outputs[i + 1] for i in self.outputs]
      features = jnp.concatenate(features, axis=-1)
    return logits, features, cache

  @property
  def of_target(self) -> tuple[str, ...]:
    """Returns the parameters that it takes from a target, if it is a draft."""
    return OF_TARGET if self.config.shares_embedding else ()
