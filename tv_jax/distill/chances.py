"""Acceptance probabilities along a text that the target sampled.

Let x be the text after a root, and R_i = q(x_1 .. x_i) / p(x_1 .. x_i). The
probability that the first i drafted tokens equal the text and are all accepted,
divided by the probability p(x_1 .. x_i) of the text, is

  traversal and block:  min(1, R_1, .., R_i)
  token-level:          min(1, q(x_1) / p(x_1)) .. min(1, q(x_i) / p(x_i))

(Lemma 2 of the paper, and a change of measure). The last token can be averaged
out. Let m be the value above for the tokens before it, and R their R_(i-1). The
values are then sum_x min(m p(x), R q(x)) and m sum_x min(p(x), q(x)). `Prefix`
has logarithms.

Axes: [..] any, B rows, T tokens, W roots of a row, D levels, U tokens that the
draft knows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tv_jax.distill.data import Rows
from tv_jax.drafting import drafter_of, passes
from tv_jax.models import Config

RULES = ("token_level", "traversal")


class Prefix(NamedTuple):
  """The first tokens of the text after each root; all fields are [..]."""

  ratio: jax.Array  # log R
  traversal: jax.Array  # log min(1, R_1, .., R_i)
  token_level: jax.Array  # log of the product above

  @classmethod
  def empty(cls, shape: tuple[int, ...]) -> Prefix:
    """Returns the prefix of no tokens."""
    return cls(*(jnp.zeros(shape) for _ in cls._fields))

  def longer(self, log_p: jax.Array, log_q: jax.Array) -> Prefix:
    """Returns the prefix with one more token of these log probabilities [..].

    A token that the draft does not know has the ratio 0, even if log_p is -inf.
    """
    step = jnp.where(log_q > -jnp.inf, log_q - log_p, -jnp.inf)
    ratio = self.ratio + step
    return Prefix(
      ratio=ratio,
      traversal=jnp.minimum(self.traversal, ratio),
      token_level=self.token_level + jnp.minimum(step, 0),
    )

  def chance(self, rule: str) -> jax.Array:
    """Returns the acceptance probability of the whole prefix."""
    return jnp.exp(getattr(self, rule))

  def next_chance(
    self, rule: str, log_p: jax.Array, log_q: jax.Array
  ) -> jax.Array:
    """Returns the acceptance probability with one more, averaged token.

    Args:
      rule: One of `RULES`.
      log_p: [.., U] the target's log probabilities of that token.
      log_q: [.., U] the draft's.
    """
    if rule == "traversal":
      log_p = log_p + self.traversal[..., None]
      return overlap(log_p, log_q + self.ratio[..., None])
    return self.chance(rule) * overlap(log_p, log_q)


def overlap(log_p: jax.Array, log_q: jax.Array) -> jax.Array:
  """Returns the sum of min(p, q): 1 minus the total variation."""
  return jnp.sum(jnp.exp(jnp.minimum(log_p, log_q)), axis=-1)


class Known(NamedTuple):
  """The target's tokens that a draft knows; both fields are None for all."""

  tokens: jax.Array | None  # [U] token ids
  place: jax.Array | None  # [V] index of each token in `tokens`; U: unknown

  @classmethod
  def of(cls, params: dict, config: Config) -> Known:
    """Reads them from a draft's parameters."""
    if not (U := config.draft_vocab_size):
      return cls(None, None)
    place = params["place"]
    return cls(jnp.argsort(place, stable=True)[:U], place)

  def columns(self, array: jax.Array) -> jax.Array:
    """Selects the draft's tokens [.., U] of an array [.., V]."""
    return array if self.tokens is None else array[..., self.tokens]

  def chance(self, log_q: jax.Array, token: jax.Array) -> jax.Array:
    """Returns log_q of a token [..]; -inf if the draft does not know it."""
    place = token if self.place is None else self.place[token]
    chance = jnp.take_along_axis(
      log_q, place[..., None], axis=-1, mode="fill", fill_value=-jnp.inf
    )
    return chance[..., 0]


class Step(NamedTuple):
  """One level of the chains below the roots."""

  place: jax.Array  # [B, W] position of the token before
  log_p: jax.Array  # [B, W, U] of the target
  log_q: jax.Array  # [B, W, U] of the draft
  confidence: jax.Array | None  # [B, W]; None: not predicted
  before: Prefix  # the text's tokens above this level
  after: Prefix  # the same with this level's token


def teacher_forced_levels(
  module,
  params: dict,
  rows: Rows,
  roots: jax.Array,
  depth: int,
  log_p: jax.Array,
  temperature: jax.Array | float,
) -> Iterator[Step]:
  """Yields the levels of the chains that equal the text.

  Args:
    module: The draft's module.
    params: The draft's parameters.
    rows: The conversations, with the features that the draft reads.
    roots: [B, W] positions of the roots.
    depth: Depth of the chains.
    log_p: [B, .., U] the target's log probabilities, from each first root on.
    temperature: The draft's temperature.
  """
  known, prefix = Known.of(params, module.config), Prefix.empty(roots.shape)
  first, read = rows.first[:, None], jnp.asarray(rows.read, module.config.dtype)
  drafter = drafter_of(module)
  levels = drafter.teacher_forced(params, rows.tokens, read, roots, depth)
  for number, level in enumerate(levels):
    place = roots + number
    p = passes.at(log_p, place - first)
    q = jax.nn.log_softmax(level.logits / temperature, axis=-1)
    token = passes.at(rows.tokens, place + 1)
    after = prefix.longer(known.chance(p, token), known.chance(q, token))
    yield Step(place, p, q, level.confidence, prefix, after)
    prefix = after
