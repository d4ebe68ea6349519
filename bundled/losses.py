"""What the models are trained to do."""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.typing import ArrayLike

from bundled.data import Rows
from tv_jax.models import cache as caches
from tv_jax.models import mask
from tv_jax.models.config import Config
from tv_jax.models.decoder import Decoder
from tv_jax.models.eagle import Eagle

# The head's features get uniform noise of up to half of this: at drafting time
# they are the head's own.
NOISE = 0.2


def _seen(document):
  """Masks [B, T, T]: each token sees those before it in its own document."""
  same = document[:, :, None] == document[:, None, :]
  before = jnp.tri(document.shape[1], dtype=bool)[None]
  return jnp.where(same & before, 0.0, mask.HIDDEN)


def llama(
  config: Config, params: dict, rows: Rows
) -> tuple[jax.Array, jax.Array]:
  """Returns logits [B, T, V] and features [B, T, E] of rows of documents."""
  cache = caches.empty(config, *rows.tokens.shape)
  seen = _seen(rows.document)
  found: Any = Decoder(config).apply(
    {"params": params}, rows.tokens, rows.positions, seen, cache
  )
  logits, features, _ = found
  return logits, features


def eagle(
  config: Config, params: dict, rows: Rows, features: jax.Array
) -> tuple[jax.Array, jax.Array]:
  """Returns the head's logits [B, T - 1, V] and features for tokens from 1 on.

  Token i is paired with feature i - 1 of its document; the first token of a
  document has no pair, and is not seen by the others.
  """
  tokens, document = rows.tokens[:, 1:], rows.document[:, 1:]
  paired = rows.positions[:, 1:] > 0
  # A number that no document has, so that nothing sees it.
  document = jnp.where(paired, document, -2)
  cache = caches.empty(config, *tokens.shape)
  found: Any = Eagle(config, bias=True).apply(
    {"params": params},
    tokens,
    features[:, :-1],
    rows.positions[:, :-1],
    _seen(document),
    cache,
  )
  logits, predicted, _ = found
  return logits, predicted


def mean(values: jax.Array, weights: ArrayLike) -> jax.Array:
  """Returns the weighted mean."""
  return jnp.sum(values * weights) / jnp.maximum(jnp.sum(weights), 1.0)


def cross_entropy(logits: jax.Array, rows: Rows) -> jax.Array:
  """Returns [B, T] nats of each next token; unused where its weight is 0."""
  following = jnp.roll(rows.tokens, -1, axis=1)
  return optax.softmax_cross_entropy_with_integer_labels(logits, following)


def text(config: Config, params: dict, key: jax.Array, rows: Rows):
  """Returns target's and drafts' loss, and to log: nats per answer's token."""
  del key
  nats = cross_entropy(llama(config, params, rows)[0], rows)
  return mean(nats, rows.weights), {"answer": mean(nats, rows.answer)}


def _compare(target_logits, logits):
  """Returns KL(p, q), the cross-entropy -sum p log q, and TV(p, q)."""
  log_p = jax.nn.log_softmax(target_logits)
  log_q = jax.nn.log_softmax(logits)
  p = jnp.exp(log_p)
  law = -jnp.sum(p * log_q, axis=-1)
  entropy = -jnp.sum(p * log_p, axis=-1)
  distance = 0.5 * jnp.sum(jnp.abs(p - jnp.exp(log_q)), axis=-1)
  return law - entropy, law, distance


def head(
  target_config: Config,
  config: Config,
  target_params: dict,
  params: dict,
  key: jax.Array,
  rows: Rows,
):
  """Returns the EAGLE head's loss: on the target's next feature, and its law.

  Li et al. 2024, section 4.2: smooth L1 between features and cross-entropy
  to the law that the target's own unembedding makes of its feature.
  """
  theirs, features = llama(target_config, target_params, rows)
  noise = jax.random.uniform(
    key, features.shape, minval=-0.5 * NOISE, maxval=0.5 * NOISE
  )
  shared = target_params["embedding"]
  params = params | {"embedding": shared}
  logits, predicted = eagle(config, params, rows, features + noise)
  weights, answer = (
    jnp.where(rows.positions[:, 1:] > 0, w[:, 1:], 0.0)
    for w in (rows.weights, rows.answer)
  )
  feature = jnp.mean(optax.huber_loss(predicted, features[:, 1:]), axis=-1)
  divergence, law, distance = _compare(theirs[:, 1:], logits)
  total = mean(feature, weights) + mean(law, weights) + mean(distance, weights)
  return total, {
    "feature": mean(feature, answer),
    "divergence": mean(divergence, answer),
    "accepted": 1 - mean(distance, answer),
  }
