"""DSpark and DFlash: a draft of all levels in one pass, in Linen.

As published for Qwen3 by deepseek-ai/DeepSpec (MIT). A pass is over a block:
the last committed token, and a mask in the place of each that is to come. Its
rows see each other and what the target has processed: in every layer the keys
and values of what is made of the target's features. The output at place k says
what may come after a token at depth k; a Markov head adds what that token
itself says of the next one. DFlash is the same without such a head.

Letters as in decoder.py, and M rank of the Markov head, K rows of a block.
"""

import functools
from collections.abc import Collection

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.sharding import Mesh

from tv_jax.edge import checks
from tv_jax.models import borrowed, decoder, layout, products, sharding
from tv_jax.models import config as configs
from tv_jax.models.cache import Cache
from tv_jax.models.config import Block, Config
from tv_jax.models.model import Model

HEADS = ("vanilla", "gated", "rnn")


def block_of(config: Config) -> Block:
  """Returns what a draft of one pass has in its configuration."""
  assert config.block is not None
  return config.block


class DSpark(nn.Module):
  """The draft. `embedding` and `unembedding` are the target's own.

  Attributes:
    config: Its shape, with a `block`.
    mesh: The devices that it is split over, if more than one.
  """

  config: Config
  mesh: Mesh | None = None
  of_target = decoder.OF_TARGET
  layout = layout.DSPARK

  def setup(self):
    """Names what `after` reads."""
    self.markov = Markov(self.config, self.mesh)

  @nn.compact
  def __call__(
    self,
    tokens: jax.Array,
    features: jax.Array,
    positions: jax.Array,
    mask: jax.Array,
    cache: Cache,
  ) -> tuple[jax.Array, jax.Array, Cache]:
    """Reads T tokens' features, and drafts after a block of K tokens.

    Args:
      tokens: [B, K] int32, the block; K = 0 to read alone.
      features: [B, T, J] the target's.
      positions: [B, T + K] int32, of those and of these.
      mask: [B, 1, S] float32, added to the attention's scores of all K rows.
      cache: Keys and values of the T rows, and of the K behind them, are
        written to it from its length on.

    Returns:
      Logits [B, K, V] float32 of the token after each place, without what the
      token there says; outputs [B, K, E], which `after` wants; and the cache,
      longer by T + K.
    """
    config, mesh = self.config, self.mesh
    table = decoder.embedding(self)
    with jax.named_scope("fuse"):
      x = sharding.rows(table, tokens, mesh)
      E, axes = config.hidden_size, (None, None)
      fc = decoder.Dense(config, mesh, E, axes, name="fc")
      beside = sharding.replicate(fc(features.astype(x.dtype)), mesh)
      beside = decoder.RMSNorm(config, name="beside_norm")(beside)
    turn = decoder.rotation(config, positions)
    keys, values = [], []
    layers = range(config.num_hidden_layers)
    for i, k, v in zip(layers, cache.keys, cache.values, strict=True):
      block = decoder.layer(self, f"layers_{i}")
      x, k, v = block(x, turn, mask, k, v, cache.length, None, beside)
      keys.append(k)
      values.append(v)
    with jax.named_scope("unembed"):
      outputs = decoder.RMSNorm(config, name="norm")(x)
      logits = decoder.unembed(self, table, outputs)
    if self.is_initializing():
      self.markov(tokens, outputs, self.state(tokens))
    length = cache.length + positions.shape[1]
    cache = Cache(keys=tuple(keys), values=tuple(values), length=length)
    return logits, outputs, cache

  def example(self) -> tuple:
    """Returns the inputs of the smallest pass."""
    config = self.config
    width = len(config.target_layers) * config.hidden_size
    return decoder.example(config, width, places=2)

  def after(self, tokens: jax.Array, outputs: jax.Array, state: jax.Array):
    """Returns what tokens at a depth say of the next; see `Markov`."""
    bias, state, sure = self.markov(tokens, outputs, state)
    if self.config.draft_vocab_size and block_of(self.config).rank:
      place = self.get_variable("params", "place")
      bias = decoder.spread(bias, place, 0.0)
    return bias, state, sure

  def state(self, tokens: jax.Array) -> jax.Array:
    """Returns the state [B, n, ..] with which roots [B, n] begin."""
    block = block_of(self.config)
    width = block.rank if block.head == "rnn" else 0
    return jnp.zeros((*tokens.shape, width), self.config.dtype)

  @property
  def draft_config(self) -> dict:
    """Returns what config.json says of a draft beside a model's."""
    block = block_of(self.config)
    raw = {
      "architectures": [*FORMAT.architectures],
      "block_size": block.size,
      "enable_confidence_head": block.confidence,
      "markov_rank": block.rank,
      "mask_token_id": block.mask,
      "target_layer_ids": [*self.config.target_layers],
      "tie_word_embeddings": False,
    }
    if block.rank:
      raw["markov_head_type"] = block.head
    if block.confidence:
      raw["confidence_head_with_markov"] = block.sees_token
    return raw


class Markov(nn.Module):
  """The Markov head of a draft, and how sure it is."""

  config: Config
  mesh: Mesh | None = None

  @nn.compact
  def __call__(self, tokens, outputs, state):
    """Adds what tokens say to what their depth says.

    Args:
      tokens: [B, n] int32, all at one depth.
      outputs: [B, 1, E] of that depth, or [B, n, E].
      state: [B, n, M] of their parents, if the head is "rnn"; else [B, n, 0].

    Returns:
      What is added to the logits after each token [B, n, U], float32; their
      state; and how sure the draft is that a next token will be accepted [B, n]
      float32, None if it does not say.
    """
    config, block = self.config, block_of(self.config)
    dtype = jnp.dtype(config.dtype)
    B, n = tokens.shape
    outputs = jnp.broadcast_to(outputs, (B, n, outputs.shape[-1]))
    bias, known = jnp.zeros((B, n, 1)), None
    if M := block.rank:
      V, U = config.vocab_size, config.draft_vocab_size
      kernel = decoder.weights("vocab", None)
      before = self.param("before", kernel, (V, M), dtype)
      known = latent = sharding.rows(before, tokens, self.mesh)
      if block.head == "gated":
        gate = self._affine("gate", M, outputs, known)
        latent = nn.sigmoid(gate) * known
      elif block.head == "rnn":
        joint = self._affine("joint", 3 * M, state, known, outputs)
        gate, new, latent = jnp.split(joint, 3, axis=-1)
        gate = nn.sigmoid(gate)
        state = gate * state + (1 - gate) * jnp.tanh(new)
        latent = jnp.tanh(latent)
      kernel = decoder.weights(None if U else "vocab", None)
      after = self.param("next", kernel, (U or V, M), dtype)
      bias = products.logits(latent, after, self.mesh)
      bias = sharding.replicate(bias, self.mesh)
    sure = None
    if block.confidence:
      read = [outputs, known] if block.sees_token else [outputs]
      sure = self._affine("sure", 1, *read)[..., 0].astype(jnp.float32)
      sure = nn.sigmoid(sure)
    return bias, state, sure

  def _affine(self, name: str, features: int, *inputs):
    """Returns an affine function of inputs that lie side by side."""
    x = jnp.concatenate(inputs, axis=-1)
    dense = functools.partial(decoder.Dense, self.config, self.mesh)
    return dense(features, (None, None), bias=True, name=name)(x)


def _fields(values: dict) -> dict:
  """Returns the fields of `Config` that these attributes are."""
  sure = values.get("enable_confidence_head", False)
  rank = values.get("markov_rank", 0)
  return {
    "target_layers": values.get("target_layer_ids", ()),
    "block": Block(
      size=values.get("block_size", 1),
      mask=values.get("mask_token_id", 0),
      rank=rank,
      head=values.get("markov_head_type") if rank else None,
      confidence=sure,
      sees_token=sure and values.get("confidence_head_with_markov", True),
    ),
  }


FORMAT = configs.DraftFormat(
  name="a DSpark draft",
  architectures=("Qwen3DSparkModel",),
  required={
    "block_size": checks.integer(1, 1000),
    "enable_confidence_head": checks.boolean,
    "markov_rank": checks.integer(0, checks.MOST),
    "mask_token_id": checks.integer(0, checks.MOST),
    "target_layer_ids": checks.list_of(checks.integer(decoder.INPUT)),
  },
  optional={
    "confidence_head_with_markov": checks.boolean,
    "markov_head_type": checks.one_of(HEADS),
    "tie_word_embeddings": checks.one_of([False]),
  },
  fields=_fields,
)


def from_config(
  raw: dict, where, target: Model, names: Collection[str]
) -> DSpark:
  """Makes the draft of a checkpoint; arguments as of `eagle.from_config`."""
  del names
  config = configs.from_dict(raw, str(where), FORMAT)
  borrowed.check_family(config, ("qwen3",), f"{where}: {FORMAT.name}")
  block, layers = block_of(config), config.target_layers
  faults = []
  if fault := borrowed.wrong_layers(layers, target.config, least=1):
    faults.append(fault)
  if block.rank and block.head is None:
    faults.append("markov_head_type is missing")
  if block.mask >= config.vocab_size:
    faults.append(f"mask_token_id={block.mask} is not in the vocabulary")
  if block.sees_token and not block.rank:
    faults.append("the confidence head reads a Markov head: give markov_rank")
  if faults:
    raise ValueError(f"{where}: {'; '.join(faults)}")
  config = borrowed.fitted(config, target.config, where)
  return DSpark(config, target.mesh)
