"""The EAGLE-1 draft head (Li et al. 2024, arXiv:2401.15077), in Linen.

It sees each token beside the target's feature of the token before it, and
predicts the target's next feature; the target's own unembedding makes it a
law. One layer of the target's kind without the norm of its attention's
input, and no norm at the end: what comes out lives where features live.

Published heads count positions from the first pair: token i, which is paired
with feature i - 1, has position i - 1. Rotations see differences alone, so
that any count that steps with the tokens does.

Letters as in decoder.py.
"""

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.sharding import Mesh

from tv_jax.models import cache as caches
from tv_jax.models import decoder, layout, sharding
from tv_jax.models.cache import Cache
from tv_jax.models.config import Config

# Of targets and of the head's own layer: published heads are of this kind.
FAMILY = "llama"


class Eagle(nn.Module):
  """The head. `embedding` and `unembedding` are the target's own.

  Attributes:
    config: The head's shape, with the target's vocabulary and width; tied if
      the target is, for then there is no unembedding.
    bias: Whether the fusing product has a bias.
    mesh: The devices that it is split over, if more than one.
  """

  config: Config
  bias: bool
  mesh: Mesh | None = None
  of_target = decoder.OF_TARGET
  layout = layout.EAGLE

  @nn.compact
  def __call__(
    self,
    tokens: jax.Array,
    features: jax.Array,
    positions: jax.Array,
    mask: jax.Array,
    cache: Cache,
  ) -> tuple[jax.Array, jax.Array, Cache]:
    """Processes T tokens of each row.

    Args:
      tokens: [B, T] int32.
      features: [B, T, E]: of the token before each, its parent in a tree. The
        target's for committed tokens, the head's own for drafted ones.
      positions: [B, T] int32.
      mask: [B, T, S] float32, added to the attention's scores.
      cache: Their keys and values are written to it from its length on.

    Returns:
      Logits [B, T, V] float32 of the token after each, the predicted features
      [B, T, E] of each, and the cache, longer by T.
    """
    table = decoder.embedding(self)
    with jax.named_scope("fuse"):
      x = sharding.columns(table, tokens, self.mesh)
      x = jnp.concatenate([x, features.astype(x.dtype)], axis=-1)
      E = self.config.hidden_size
      x = decoder.dense(self.config, E, (None, None), "fc", self.bias)(x)
      x = sharding.replicate(x, self.mesh)
    x, keys, values = decoder.layer(self, "layer", attention_norm=False)(
      x,
      decoder.rotation(self.config, positions),
      mask,
      cache.keys[0],
      cache.values[0],
      cache.length,
    )
    with jax.named_scope("unembed"):
      logits = decoder.unembed(self, table, x)
    length = cache.length + tokens.shape[1]
    return logits, x, Cache(keys=(keys,), values=(values,), length=length)

  def example(self) -> tuple:
    """Returns the inputs of the smallest pass."""
    one = jnp.zeros([1, 1], jnp.int32)
    feature = jnp.zeros([1, 1, self.config.hidden_size], self.config.dtype)
    cache = caches.empty(self.config, 1, 1)
    return one, feature, one, jnp.zeros([1, 1, 1]), cache
