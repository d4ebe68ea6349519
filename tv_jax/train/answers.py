"""Plain decoding of a batch of prompts, to see what a model has learned."""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.models import Model, mask
from tv_jax.train import tokens


def answer(
  model: Model,
  prompts: Sequence[Sequence[int]],
  *,
  limit: int,
  temperature: float,
  key: jax.Array,
) -> list[list[int]]:
  """One answer to each prompt.

  Args:
    model: The model.
    prompts: Tokens, up to where the answer begins.
    limit: How many tokens an answer has at most.
    temperature: Of the law that is drawn from; 0 for the likeliest token.
    key: Of the draws.

  Returns:
    The answers' tokens, with the end token where one was drawn.
  """
  lengths = np.array([len(prompt) for prompt in prompts], np.int32)
  # Few widths, so that few programs are compiled.
  width = -(-int(lengths.max()) // 64) * 64
  padded = np.full([len(prompts), width], tokens.PAD, np.int32)
  for row, prompt in zip(padded, prompts, strict=True):
    row[: len(prompt)] = prompt
  cache = model.init_cache(len(prompts), width + limit)
  drawn = np.asarray(
    _decode(
      model.apply, limit, temperature, model.params, padded, lengths, cache, key
    )
  )
  answers = []
  for row in drawn.tolist():
    end = row.index(tokens.END) + 1 if tokens.END in row else limit
    answers.append(row[:end])
  return answers


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _decode(apply, limit, temperature, params, prompts, lengths, cache, key):
  """Tokens [B, limit]; what comes behind an end token means nothing."""
  B, T = prompts.shape
  positions = jnp.broadcast_to(jnp.arange(T, dtype=jnp.int32)[None], (B, T))
  seen = mask.causal(cache.length, T, cache.slots)
  logits, _, cache = apply(params, prompts, positions, seen, cache)
  last = jnp.take_along_axis(logits, (lengths - 1)[:, None, None], axis=1)
  # Slots of the padding are written again before they are seen.
  cache = type(cache)(keys=cache.keys, values=cache.values, length=lengths)

  def draw(key, logits):
    if temperature == 0:
      return jnp.argmax(logits, axis=-1).astype(jnp.int32)
    return jax.random.categorical(key, logits / temperature).astype(jnp.int32)

  def going(loop):
    i, done = loop[0], loop[1]
    return (i < limit) & ~jnp.all(done)

  def step(loop):
    i, done, logits, cache, drawn = loop
    token = draw(jax.random.fold_in(key, i), logits)
    drawn = jax.lax.dynamic_update_slice(drawn, token[:, None], (0, i))
    logits, _, cache = apply(
      params,
      token[:, None],
      cache.length[:, None],
      mask.causal(cache.length, 1, cache.slots),
      cache,
    )
    return i + 1, done | (token == tokens.END), logits[:, 0], cache, drawn

  start = (
    jnp.int32(0),
    jnp.zeros([B], bool),
    last[:, 0],
    cache,
    jnp.zeros([B, limit], jnp.int32),
  )
  return jax.lax.while_loop(going, step, start)[-1]
