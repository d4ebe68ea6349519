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

import functools

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax.sharding import Mesh

from tv_jax.models import cache as caches
from tv_jax.models import decoder, layout, sharding
from tv_jax.models.cache import Cache
from tv_jax.models.config import Config
from tv_jax.models.products import project

# Of targets and of the head's own layer: published heads are of this kind.
FAMILY = "llama"
# The fusing product's weights, which nothing but a head has.
FUSING = "fc.weight"


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
    E = self.config.hidden_size
    dtype = jnp.dtype(self.config.dtype)
    embedding = decoder.weight(self, "embedding", "VE")
    with jax.named_scope("fuse"):
      x = decoder.embed(embedding, tokens, self.config, self.mesh)
      x = jnp.concatenate([x, features.astype(x.dtype)], axis=-1)
      x = project(x, decoder.weight(self, "fc", "EI"))
      if self.bias:
        bias = self.param("fc_bias", nn.initializers.zeros, (E,), dtype)
        x += bias[None, None]
      x = sharding.replicate(x, self.mesh)
    turn = decoder.rotation(self.config, positions)
    layer = decoder.layer(
      self,
      config=self.config,
      mesh=self.mesh,
      attention_norm=False,
      name="layer",
    )
    x, keys, values = layer(
      x, turn, mask, cache.keys[0], cache.values[0], cache.length
    )
    with jax.named_scope("unembed"):
      logits = decoder.unembed(self, embedding, x)
    length = cache.length + tokens.shape[1]
    return logits, x, Cache(keys=(keys,), values=(values,), length=length)


@functools.partial(jax.jit, static_argnames=("config", "bias"))
def init(key: jax.Array, config: Config, *, bias: bool) -> dict:
  """Makes random parameters, the shared ones among them."""
  one = jnp.zeros([1, 1], jnp.int32)
  feature = jnp.zeros([1, 1, config.hidden_size], config.dtype)
  cache = caches.empty(config, 1, 1)
  mask = jnp.zeros([1, 1, 1])
  return dict(
    Eagle(config, bias).init(key, one, feature, one, mask, cache)["params"]
  )


def leaves(config: Config, *, bias: bool) -> list[layout.Leaf]:
  """Returns the parameters that are the head's own."""
  E = config.hidden_size
  own = [layout.whole(("fc",), "EI", FUSING, (E, 2 * E))]
  if bias:
    own.append(layout.whole(("fc_bias",), "E", "fc.bias", (E,)))
  return own + layout.layer(
    config, ("layer",), "layers.0.", attention_norm=False
  )
