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
from tv_jax.models import decoder, layout, products, sharding
from tv_jax.models.cache import Cache
from tv_jax.models.config import Config


class DSpark(nn.Module):
  """The draft. `embedding` and `unembedding` are the target's.

  Attributes:
    config: The draft's shape.
    mesh: The mesh that splits the draft, or None for one device.
  """

  config: Config
  mesh: Mesh | None = None
  of_target = decoder.OF_TARGET
  format = layout.Format(
    title="a DSpark draft",
    signature=r"hidden_norm\.weight",
    layouts={"qwen3": layout.DSPARK},
    required={
      "block_size": checks.integer(1),
      "enable_confidence_head": checks.boolean,
      "markov_rank": checks.integer(0),
      "mask_token_id": checks.integer(0),
      "target_layer_ids": checks.list_of(checks.integer(decoder.INPUT)),
    },
    fixed={  # no published draft has another head
      "confidence_head_with_markov": True,
      "markov_head_type": "vanilla",
      "tie_word_embeddings": False,
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
    if self.config.draft_vocab_size and self.config.markov_rank:
      place = self.get_variable("params", "place")
      bias = decoder.scatter_logits(bias, place, 0.0)
    return bias, confidence


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
    config = self.config
    dtype = jnp.dtype(config.dtype)
    B, n = tokens.shape
    if not config.markov_rank:
      return jnp.zeros((B, n, 1)), None
    V, U, M = config.vocab_size, config.draft_vocab_size, config.markov_rank
    kernel = decoder.weights("vocab", None)
    before = self.param("before", kernel, (V, M), dtype)
    known = products.rows(before, tokens, self.mesh)
    kernel = decoder.weights(None if U else "vocab", None)
    after = self.param("next", kernel, (U or V, M), dtype)
    bias = products.logits(known, after, self.mesh)
    bias = sharding.replicate(bias, self.mesh)
    if not config.enable_confidence_head:
      return bias, None
    outputs = jnp.broadcast_to(outputs, (B, n, outputs.shape[-1]))
    x = jnp.concatenate([outputs, known], axis=-1)
    dense = decoder.Dense(config, self.mesh, 1, (None, None), True, name="sure")
    return bias, nn.sigmoid(dense(x)[..., 0].astype(jnp.float32))
