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

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.sharding import Mesh

from tv_jax.edge import checks
from tv_jax.models import borrowed, decoder, layout, sharding
from tv_jax.models import cache as caches
from tv_jax.models import config as configs
from tv_jax.models.cache import Cache
from tv_jax.models.config import Block, Config
from tv_jax.models.decoder import rms_norm, weight
from tv_jax.models.families import qwen3
from tv_jax.models.products import product, project

HEADS = ("vanilla", "gated", "rnn")
# The norm of what is read, which nothing but such a draft has.
NORM = "hidden_norm.weight"


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
    embedding = weight(self, "embedding", "VE")
    with jax.named_scope("fuse"):
      x = decoder.embed(embedding, tokens, self.config, self.mesh)
      beside = project(features.astype(x.dtype), weight(self, "fc", "EJ"))
      beside = sharding.replicate(beside, self.mesh)
      norm = functools.partial(rms_norm, epsilon=self.config.rms_norm_eps)
      beside = norm(beside, weight(self, "beside_norm", "E"))
    turn = decoder.rotation(self.config, positions)
    keys, values = [], []
    layers = range(self.config.num_hidden_layers)
    for i, k, v in zip(layers, cache.keys, cache.values, strict=True):
      own = decoder.layer(
        self,
        config=self.config,
        mesh=self.mesh,
        heads=qwen3.norm_heads,
        name=f"layers_{i}",
      )
      x, k, v = own(x, turn, mask, k, v, cache.length, None, beside)
      keys.append(k)
      values.append(v)
    with jax.named_scope("unembed"):
      outputs = norm(x, weight(self, "norm", "E"))
      logits = decoder.unembed(self, embedding, outputs)
    if self.is_initializing():
      self.markov(tokens, outputs, self.state(tokens))
    length = cache.length + positions.shape[1]
    cache = Cache(keys=tuple(keys), values=tuple(values), length=length)
    return logits, outputs, cache

  def after(self, tokens: jax.Array, outputs: jax.Array, state: jax.Array):
    """Returns what tokens at a depth say of the next; see `Markov`."""
    bias, state, sure = self.markov(tokens, outputs, state)
    if self.config.draft_vocab_size and block_of(self.config).rank:
      place = self.get_variable("params", "place")
      bias = decoder.spread(bias, place, 0.0)
    return bias, state, sure

  def state(self, tokens: jax.Array) -> jax.Array:
    """Returns the state [B, n, ..] with which roots [B, n] begin."""
    own = block_of(self.config)
    width = own.rank if own.head == "rnn" else 0
    return jnp.zeros((*tokens.shape, width), self.config.dtype)


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
    own = block_of(self.config)
    B, n = tokens.shape
    outputs = jnp.broadcast_to(outputs, (B, n, outputs.shape[-1]))
    bias, known = jnp.zeros((B, n, 1)), None
    if own.rank:
      known = sharding.rows(weight(self, "before", "VM"), tokens, self.mesh)
      latent = known
      if own.head == "gated":
        gate = self._linear("gate", "MZ", outputs, known)
        latent = nn.sigmoid(gate) * known
      elif own.head == "rnn":
        joint = self._linear("joint", "NZ", state, known, outputs)
        gate, new, latent = jnp.split(joint, 3, axis=-1)
        gate = nn.sigmoid(gate)
        state = gate * state + (1 - gate) * jnp.tanh(new)
        latent = jnp.tanh(latent)
      axes = "UM" if self.config.draft_vocab_size else "VM"
      bias = product(latent, weight(self, "next", axes), jnp.float32)
      bias = sharding.replicate(bias, self.mesh)
    sure = None
    if own.confidence:
      seen = [outputs, known] if own.sees_token else [outputs]
      sure = self._linear("sure", "1W", *seen)[..., 0].astype(jnp.float32)
      sure = nn.sigmoid(sure)
    return bias, state, sure

  def _linear(self, name, axes, *inputs):
    """Returns an affine function of inputs that lie side by side."""
    x = jnp.concatenate(inputs, axis=-1)
    y = product(x, weight(self, name, axes))
    return y + weight(self, f"{name}_bias", axes[0])[None, None]


@functools.partial(jax.jit, static_argnames="config")
def init(key: jax.Array, config: Config) -> dict:
  """Makes random parameters, the shared ones among them."""
  one = jnp.zeros([1, 1], jnp.int32)
  features = jnp.zeros([1, 1, decoder.sizes(config)["J"]], config.dtype)
  places = jnp.zeros([1, 2], jnp.int32)
  cache = caches.empty(config, 1, 2)
  mask = jnp.zeros([1, 1, 2])
  return dict(
    DSpark(config).init(key, one, features, places, mask, cache)["params"]
  )


def leaves(config: Config) -> list[layout.Leaf]:
  """Returns the parameters that are the draft's own."""
  own, size = block_of(config), decoder.sizes(config)

  def one(path, axes, name, *shape):
    view = tuple(size[axis] for axis in axes)
    return layout.whole(path, axes, name, shape or view, view)

  def linear(path, axes, name):
    *before, last = path
    return [
      one(path, axes, f"{name}.weight"),
      one((*before, f"{last}_bias"), axes[0], f"{name}.bias"),
    ]

  found = [
    one(("fc",), "EJ", "fc.weight"),
    one(("beside_norm",), "E", NORM),
    one(("norm",), "E", "norm.weight"),
  ]
  for i in range(config.num_hidden_layers):
    found += qwen3.layer(config, (f"layers_{i}",), f"layers.{i}.")
  if own.rank:
    head = "markov_head."
    found += [
      one(("markov", "before"), "VM", f"{head}markov_w1.weight"),
      one(
        ("markov", "next"),
        "UM" if config.draft_vocab_size else "VM",
        f"{head}markov_w2.weight",
      ),
    ]
    if own.head == "gated":
      found += linear(("markov", "gate"), "MZ", f"{head}gate_proj")
    if own.head == "rnn":
      found += linear(("markov", "joint"), "NZ", f"{head}joint_proj")
  if own.confidence:
    found += linear(("markov", "sure"), "1W", "confidence_head.proj")
  return found


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
  attributes={
    "confidence_head_with_markov": checks.boolean,
    "markov_head_type": checks.one_of(HEADS),
    "tie_word_embeddings": checks.one_value(False),
    # Of its training, and of its target.
    "num_anchors": checks.anything,
    "num_target_layers": checks.anything,
  },
  fields=_fields,
)


def fitted(config: Config, target: Config, where) -> Config:
  """Returns a draft's configuration with what follows from its target's.

  Args:
    config: As it was read.
    target: The target's.
    where: What errors call the config.json.
  """
  own, layers = block_of(config), config.target_layers
  faults = []
  if config.model_type != "qwen3":
    faults.append(f"model_type={config.model_type!r} is not 'qwen3'")
  if fault := borrowed.wrong_layers(layers, target, least=1):
    faults.append(fault)
  if own.mask >= config.vocab_size:
    faults.append(
      f"mask_token_id={own.mask} is not in the vocabulary of"
      f" {config.vocab_size}"
    )
  if own.rank and own.head is None:
    faults.append("markov_head_type is missing")
  if own.sees_token and not own.rank:
    faults.append("a confidence head with the Markov head needs a markov_rank")
  if faults:
    raise ValueError(f"{where}: {'; '.join(faults)}")
  return borrowed.fitted(config, target, where)


def to_dict(config: Config) -> dict:
  """Returns what config.json says of a draft beside what it says of a model."""
  own = block_of(config)
  raw = {
    "architectures": [*FORMAT.architectures],
    "block_size": own.size,
    "enable_confidence_head": own.confidence,
    "markov_rank": own.rank,
    "mask_token_id": own.mask,
    "target_layer_ids": [*config.target_layers],
    "tie_word_embeddings": False,
  }
  if own.rank:
    raw["markov_head_type"] = own.head
  if own.confidence:
    raw["confidence_head_with_markov"] = own.sees_token
  return raw
