"""The EAGLE-1 draft head (Li et al. 2024, arXiv:2401.15077), in Linen.

The head reads each token with the target's feature of the token before it, and
predicts the target's next feature. The target's unembedding turns that into
logits. The head is a layer of the target's kind without the norm before
attention. It has no final norm, because its output is a feature.

Published heads count positions from the first pair: token i, which is paired
with feature i - 1, has position i - 1. Any count that grows with the tokens
gives the same result, because rotations depend only on differences.

Letters as in decoder.py.
"""

import functools

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.sharding import Mesh

from tv_jax.io import checks
from tv_jax.models import decoder, layout, products, sharding
from tv_jax.models.cache import Cache
from tv_jax.models.config import Config


class Eagle(nn.Module):
  """The head. `embedding` and `unembedding` are the target's.

  Attributes:
    config: The head's shape, with the target's vocabulary and width. It is
      tied if the target is, because then the target has no unembedding.
    mesh: The mesh that splits the head, or None for one device.
  """

  config: Config
  mesh: Mesh | None = None
  of_target = decoder.OF_TARGET
  format = layout.Format(
    title="an EAGLE-1 head",
    signature=r"fc\.weight",
    layouts={"llama": layout.EAGLE},
    optional={"bias": checks.boolean},
    fixed={"num_hidden_layers": 1},
  )

  @nn.compact
  def __call__(
    self,
    tokens: jax.Array,
    features: jax.Array,
    positions: jax.Array,
    mask: jax.Array,
    cache: Cache,
  ) -> tuple[jax.Array, jax.Array, Cache]:
    """Processes T tokens of each row, as `Decoder` does.

    Args:
      tokens: [B, T] int32.
      features: [B, T, E] Features of the token before each token, or of its
        parent in a tree. A committed token has the target's features, and a
        drafted token those that the head returned.
      positions: [B, T] int32.
      mask: [B, T, S] float32.
      cache: The head's cache.

    Returns:
      Logits [B, T, V] of the next token, the predicted features [B, T, E], and
      the cache, longer by T.
    """
    table = decoder.embedding(self)
    with jax.named_scope("fuse"):
      x = products.rows(table, tokens, self.mesh)
      x = jnp.concatenate([x, features.astype(x.dtype)], axis=-1)
      E = self.config.hidden_size
      dense = functools.partial(decoder.Dense, self.config, self.mesh)
      x = dense(E, (None, None), self.config.bias, name="fc")(x)
      x = sharding.replicate(x, self.mesh)
    (x,), cache = decoder.layers(
      self, x, positions, mask, cache, name="layer", attention_norm=False
    )
    with jax.named_scope("unembed"):
      logits = decoder.unembed(self, table, x)
    return logits, x, cache
