"""Chances that drafted tokens are accepted, of a text that the target sampled.

Given the text x, and R_i = q(x_1 .. x_i) / p(x_1 .. x_i) of the i tokens behind
the root, the chance that the first i drafted tokens are the text's and that all
of them are accepted is, as a share of the chance of the text,

  traversal and block:  min(1, R_1, .., R_i)
  token-level:          min(1, q(x_1) / p(x_1)) .. min(1, q(x_i) / p(x_i))

(Lemma 2 of the paper, and a change of measure.) Given all tokens before the
last, that one can be averaged: sum_x min(m p(x), R q(x)), with m the chance
above and R the ratio of those before. Logarithms throughout.

Axes: [..] any, B rows, T tokens, W roots of a row, D levels, U tokens that the
draft knows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tv_jax.certify.engine import passes
from tv_jax.distill.data import Rows
from tv_jax.models import Config

RULES = ("token_level", "traversal")


class Prefix(NamedTuple):
  """The tokens of the text behind a root, up to some level; [..] each."""

  ratio: jax.Array  # log R
  traversal: jax.Array  # log of the chance above
  token_level: jax.Array  # likewise

  @classmethod
  def empty(cls, shape: tuple[int, ...]) -> Prefix:
    """Returns that of no token: all are certain."""
    return cls(*(jnp.zeros(shape) for _ in cls._fields))

  def longer(self, log_p: jax.Array, log_q: jax.Array) -> Prefix:
    """Returns it with the next token of the text, of these laws [..].

    A token that the draft does not know, q = 0, has the ratio 0 even where no p
    is given for it (-inf).
    """
    step = jnp.where(log_q > -jnp.inf, log_q - log_p, -jnp.inf)
    ratio = self.ratio + step
    return Prefix(
      ratio=ratio,
      traversal=jnp.minimum(self.traversal, ratio),
      token_level=self.token_level + jnp.minimum(step, 0),
    )

  def chance(self, rule: str) -> jax.Array:
    """Returns the chance that all of it is accepted."""
    return jnp.exp(getattr(self, rule))

  def next_chance(
    self, rule: str, log_p: jax.Array, log_q: jax.Array
  ) -> jax.Array:
    """Returns the chance of it and one token more, whichever that is.

    Args:
      rule: One of `RULES`.
      log_p: [.., U] the target's law of that token.
      log_q: [.., U] the draft's.
    """
    if rule == "traversal":
      log_p = log_p + self.traversal[..., None]
      return overlap(log_p, log_q + self.ratio[..., None])
    return self.chance(rule) * overlap(log_p, log_q)


def overlap(log_p: jax.Array, log_q: jax.Array) -> jax.Array:
  """Returns the sum of min(p, q), which is 1 less the total variation."""
  return jnp.sum(jnp.exp(jnp.minimum(log_p, log_q)), axis=-1)


class Known(NamedTuple):
  """Which of the target's tokens a draft knows; None and None: all."""

  tokens: jax.Array | None  # [U] their numbers
  place: jax.Array | None  # [V] of each among them; U: it is not there

  @classmethod
  def of(cls, params: dict, config: Config) -> Known:
    """Reads it from a draft's parameters."""
    if not (U := config.draft_vocab_size):
      return cls(None, None)
    place = params["place"]
    return cls(jnp.argsort(place, stable=True)[:U], place)

  def columns(self, array: jax.Array) -> jax.Array:
    """Returns what an array [.., V] has of the draft's tokens [.., U]."""
    return array if self.tokens is None else array[..., self.tokens]

  def chance(self, log_q: jax.Array, token: jax.Array) -> jax.Array:
    """Returns the draft's chance [..] of a token [..]; -inf: not known."""
    place = token if self.place is None else self.place[token]
    chance = jnp.take_along_axis(
      log_q, place[..., None], axis=-1, mode="fill", fill_value=-jnp.inf
    )
    return chance[..., 0]


class Step(NamedTuple):
  """A level of the chains that begin at some roots."""

  place: jax.Array  # [B, W] of the token before
  log_p: jax.Array  # [B, W, U] the target's law
  log_q: jax.Array  # [B, W, U] the draft's
  sure: jax.Array | None  # [B, W] how sure the draft is, if it says so
  before: Prefix  # of the text's tokens up to this level
  after: Prefix  # and with this level's


def along(
  module,
  params: dict,
  rows: Rows,
  roots: jax.Array,
  depth: int,
  laws: jax.Array,
  heat: jax.Array | float,
) -> Iterator[Step]:
  """Yields the levels of the chains that are the text's own.

  Args:
    module: The draft's.
    params: Its parameters.
    rows: The conversations, with what the draft reads.
    roots: [B, W] the places of the roots.
    depth: Of the chains.
    laws: [B, .., U] the target's, from the row's first root on, in logarithms.
    heat: The draft's temperature.
  """
  known, prefix = Known.of(params, module.config), Prefix.empty(roots.shape)
  first, read = rows.first[:, None], jnp.asarray(rows.read, module.config.dtype)
  levels = passes.levels(module, params, rows.tokens, read, roots, depth)
  for number, level in enumerate(levels):
    place = roots + number
    log_p = passes.at(laws, place - first)
    log_q = jax.nn.log_softmax(level.logits / heat, axis=-1)
    token = passes.at(rows.tokens, place + 1)
    after = prefix.longer(
      known.chance(log_p, token), known.chance(log_q, token)
    )
    yield Step(place, log_p, log_q, level.confidence, prefix, after)
    prefix = after
