"""DSpark and DFlash: a draft of all levels in one pass, in Linen.

As published for Qwen3 by deepseek-ai/DeepSpec (MIT). A pass processes a block:
the last committed token, then a mask token for each unknown token. Its rows
attend to each other and to the tokens that the target has processed: each layer
computes keys and values from the target's features. The output at place k gives
the logits of the token after depth k. A Markov head adds a bias that depends on
the token at depth k. DFlash has no Markov head.

Letters as in decoder.py, and M rank of the Markov head, K rows of a block.
"""

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.sharding import Mesh

from tv_jax.io import checks
from tv_jax.io.errors import UserError
from tv_jax.models import borrowed, decoder, layout, products, sharding
from tv_jax.models.cache import Cache
from tv_jax.models.checkpoint import Checkpoint
from tv_jax.models.config import Block, Config
from tv_jax.models.model import Model


def block_of(config: Config) -> Block:
  """Returns the block settings of a draft's configuration."""
  assert config.block is not None
  return config.block


class DSpark(nn.Module):
  """The draft. `embedding` and `unembedding` are the target's.

  Attributes:
    config: The draft's shape, with a `block`.
    mesh: The mesh that splits the draft, or None for one device.
  """

  config: Config
  mesh: Mesh | None = None
  of_target = decoder.OF_TARGET
  format = layout.Format(
    title="a DSpark draft",
    layouts={"qwen3": layout.DSPARK},
    architectures=("Qwen3DSparkModel",),
    required={
      "block_size": checks.integer(1),
      "enable_confidence_head": checks.boolean,
      "markov_rank": checks.integer(0),
      "mask_token_id": checks.integer(0),
      "target_layer_ids": checks.list_of(checks.integer(decoder.INPUT)),
    },
    optional={
      # No published draft has another head.
      "confidence_head_with_markov": checks.one_of([True]),
      "markov_head_type": checks.one_of(["vanilla"]),
      "tie_word_embeddings": checks.one_of([False]),
    },
    fields=lambda own: {
      "target_layers": own["target_layer_ids"],
      "block": Block(
        size=own["block_size"],
        mask=own["mask_token_id"],
        rank=own["markov_rank"],
        confidence=own["enable_confidence_head"],
      ),
    },
  )

  def setup(self):
    """Names the Markov head, which `after` calls."""
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
    """Reads the features of T tokens, and drafts after a block of K tokens.

    Args:
      tokens: [B, K] int32, the block. With K = 0 only the features are read.
      features: [B, T, J] The target's features.
      positions: [B, T + K] int32, of the T tokens and then of the block.
      mask: [B, 1, S] float32, added to the attention's scores of all K rows.
      cache: The draft's cache; the pass appends the keys and values of the T
        tokens and then of the block.

    Returns:
      Logits [B, K, V] float32 of the token after each place, without the Markov
      head's bias; outputs [B, K, E] for `after`; and the cache, longer by
      T + K.
    """
    config, mesh = self.config, self.mesh
    table = decoder.embedding(self)
    with jax.named_scope("fuse"):
      x = products.rows(table, tokens, mesh)
      E, axes = config.hidden_size, (None, None)
      fc = decoder.Dense(config, mesh, E, axes, name="fc")
      context = sharding.replicate(fc(features.astype(x.dtype)), mesh)
      context = decoder.RMSNorm(config, name="context_norm")(context)
    (*_, x), cache = decoder.layers(
      self, x, positions, mask, cache, None, context
    )
    with jax.named_scope("unembed"):
      outputs = decoder.RMSNorm(config, name="norm")(x)
      logits = decoder.unembed(self, table, outputs)
    if self.is_initializing():
      self.markov(tokens, outputs)
    return logits, outputs, cache

  def after(self, tokens: jax.Array, outputs: jax.Array):
    """Runs the Markov head on tokens of the same depth; see `Markov`."""
    bias, confidence = self.markov(tokens, outputs)
    if self.config.draft_vocab_size and block_of(self.config).rank:
      place = self.get_variable("params", "place")
      bias = decoder.scatter_logits(bias, place, 0.0)
    return bias, confidence

  @property
  def draft_config(self) -> dict:
    """Returns the attributes of config.json that only a draft has."""
    block = block_of(self.config)
    raw = {
      "architectures": [*self.format.architectures],
      "block_size": block.size,
      "enable_confidence_head": block.confidence,
      "markov_rank": block.rank,
      "mask_token_id": block.mask,
      "target_layer_ids": [*self.config.target_layers],
      "tie_word_embeddings": False,
    }
    if block.rank:
      raw["markov_head_type"] = "vanilla"
    if block.confidence:
      raw["confidence_head_with_markov"] = True
    return raw

  @classmethod
  def drafting_for(cls, target: Model, config: Config, checkpoint: Checkpoint):
    """Makes the draft of a checkpoint for this target."""
    del checkpoint
    if (block := block_of(config)).confidence and not block.rank:
      raise UserError(
        "enable_confidence_head=True is not supported with markov_rank=0: our"
        " confidence head reads the Markov head's embedding"
      )
    borrowed.check_layers(config.target_layers, target.config)
    return cls(config, target.mesh)


class Markov(nn.Module):
  """The Markov head and the confidence head of a draft."""

  config: Config
  mesh: Mesh | None = None

  @nn.compact
  def __call__(self, tokens, outputs):
    """Computes the logits' bias after given tokens, and the confidence.

    Args:
      tokens: [B, n] int32, all at the same depth.
      outputs: [B, 1, E] or [B, n, E] The draft's outputs at that depth.

    Returns:
      The bias on the next token's logits [B, n, U], float32; and the predicted
      probability that the next token will be accepted, [B, n] float32, or None
      without a confidence head.
    """
    config, block = self.config, block_of(self.config)
    dtype = jnp.dtype(config.dtype)
    B, n = tokens.shape
    if not block.rank:
      return jnp.zeros((B, n, 1)), None
    V, U, M = config.vocab_size, config.draft_vocab_size, block.rank
    kernel = decoder.weights("vocab", None)
    before = self.param("before", kernel, (V, M), dtype)
    known = products.rows(before, tokens, self.mesh)
    kernel = decoder.weights(None if U else "vocab", None)
    after = self.param("next", kernel, (U or V, M), dtype)
    bias = products.logits(known, after, self.mesh)
    bias = sharding.replicate(bias, self.mesh)
    if not block.confidence:
      return bias, None
    outputs = jnp.broadcast_to(outputs, (B, n, outputs.shape[-1]))
    x = jnp.concatenate([outputs, known], axis=-1)
    dense = decoder.Dense(config, self.mesh, 1, (None, None), True, name="sure")
    return bias, nn.sigmoid(dense(x)[..., 0].astype(jnp.float32))
