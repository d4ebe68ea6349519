"""The expected acceptance lengths of a draft's chains on the target's own text.

chances.py gives the acceptance probabilities of a cycle that begins at a place
of the text. Whatever a cycle accepts, the text after it has the target's
distribution. Given the text, a run therefore moves from place to place with
these probabilities, and the expected number of cycles that begin at each place
can be computed without sampling. (A plain mean over all places would be too
high: it gives the easy places, which long cycles skip, too much weight.)

Axes: B rows, T tokens, W roots of a row, D levels.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from tv_jax import probs
from tv_jax.distill.chances import RULES, Known, teacher_forced_levels
from tv_jax.distill.data import Rows, Shape, usable
from tv_jax.distill.text import Conversation
from tv_jax.drafting import passes
from tv_jax.engine.config import COLDEST_DRAFT
from tv_jax.engine.pair import Pair
from tv_jax.engine.results import Estimate
from tv_jax.io import checks
from tv_jax.io.errors import UserError
from tv_jax.runs import stats

# Default depth of the longest chain.
LONGEST = 8
# Conversations that are processed together.
_ROWS = 4


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Scores:
  """Expected acceptance lengths; item d is for chains of depth d + 1.

  Attributes:
    lengths: Expected lengths by rule.
    gain: Gain of the traversal over token-level verification, in percent. On a
      chain, block verification equals the traversal.
    tokens: Number of tokens of the answers.
    cycles: Expected number of cycles for each answer, by rule.
  """

  lengths: dict[str, list[Estimate]]
  gain: list[Estimate]
  tokens: int
  cycles: dict[str, list[np.ndarray]]

  def over(self, other: Scores, rule: str) -> list[Estimate]:
    """Returns the gain in length over another draft, in percent.

    A deeper draft is compared at the depths that the other has, too.

    Args:
      other: Scores on the same text, which are compared answer by answer.
      rule: One of `RULES`.
    """
    found = []
    pairs = zip(self.cycles[rule], other.cycles[rule], strict=False)
    for ours, theirs in pairs:  # with fewer cycles for a text, they are longer
      table = pd.DataFrame({"ours": ours, "theirs": theirs})
      table["question"] = table.index
      gain = stats.percent(stats.ratio(table, (), ["theirs"], ["ours"]))
      mean, error = gain[["mean", "error"]].to_numpy()[0].tolist()
      found.append(Estimate(mean=mean, error=error, n=len(ours)))
    return found

  def __repr__(self) -> str:
    """Returns a table."""
    lines = ["depth  token-level       traversal         gain"]
    columns = *(self.lengths[rule] for rule in RULES), self.gain
    for depth, (base, length, gain) in enumerate(zip(*columns, strict=True), 1):
      lines.append(f"{depth:>5}  {base}     {length}     {gain:+.1f} %")
    return "\n".join(lines)


def score(
  pair: Pair,
  text: Sequence[Conversation],
  *,
  depth: int | None = None,
  temperature: float = 1.0,
) -> Scores:
  """Scores a draft on text that its target sampled.

  Args:
    pair: The draft and the target.
    text: Conversations that the target sampled at this temperature.
    depth: Depth of the longest chain; by default `LONGEST`, or the block size
      of a one-pass draft.
    temperature: Temperature of the target. The draft has the same, but at least
      0.1, as in runs.

  Returns:
    The expected lengths for each depth.
  """
  if pair.draft is None:
    raise UserError("the pair has no draft to score")
  target, draft = pair.target, pair.draft
  most = draft.config.block_size
  if depth is None:
    depth = min(LONGEST, most or LONGEST)
  checks.integer(1)(depth, "depth")
  if most and depth > most:
    raise UserError(f"depth={depth}: {draft.source} drafts 1 to {most} levels")
  checks.number(probs.COLDEST)(temperature, "temperature")
  text = usable(text, target.config.vocab_size)
  shape, chances = Shape.of(text, depth), []
  temperatures = jnp.array(
    [temperature, max(temperature, COLDEST_DRAFT)], jnp.float32
  )
  for start in range(0, len(text), _ROWS):
    part = Rows.of(text[start : start + _ROWS], shape.T)
    features, read = passes.target_features(
      target, draft.config.target_layer_ids, part.tokens
    )
    part = part._replace(features=features, read=read)
    each = measure(
      draft.module, target.params, draft.params, part, temperatures, shape
    )
    for row, roots in enumerate(part.end - part.first):
      chances.append(
        jax.tree.map(lambda x: np.float64(x[row, :, :roots]), each)  # noqa: B023
      )
  return summary(chances)


class Chances(NamedTuple):
  """Acceptance probabilities of one rule, given the text."""

  exact: jax.Array | np.ndarray  # at least d + 1 tokens of the text
  averaged: jax.Array | np.ndarray  # the same, averaged over the last token


@functools.partial(jax.jit, static_argnums=(0, 5))
def measure(
  module,
  target: dict,
  params: dict,
  rows: Rows,
  temperatures: jax.Array,
  shape: Shape,
) -> dict[str, Chances]:
  """Returns the acceptance probabilities [B, D, W] of each rule.

  Values after a conversation's last root are meaningless.

  Args:
    module: The draft's module.
    target: The target's parameters; only the unembedding is read.
    params: The draft's parameters.
    rows: The conversations, with features.
    temperatures: [2] temperatures of target and draft.
    shape: Padded sizes of the rows.
  """
  roots = jnp.asarray(rows.first)[:, None] + jnp.arange(shape.W)[None]
  features = jnp.asarray(rows.features, module.config.dtype)
  features = passes.window(features, rows.first, shape.W + shape.D - 1)
  log_p = jax.nn.log_softmax(
    passes.logits(target, features) / temperatures[0], axis=-1
  )
  log_p = Known.of(params, module.config).columns(log_p)
  levels = [
    {
      rule: Chances(
        step.after.chance(rule),
        step.before.next_chance(rule, step.log_p, step.log_q),
      )
      for rule in RULES
    }
    for step in teacher_forced_levels(
      module, params, rows, roots, shape.D, log_p, temperatures[1]
    )
  ]
  return jax.tree.map(lambda *level: jnp.stack(level, axis=1), *levels)


def summary(chances: Sequence[dict[str, Chances]]) -> Scores:
  """Estimates lengths from the chances of each conversation."""
  sizes = [x[RULES[0]].exact.shape for x in chances]  # depth and roots
  D = sizes[0][0]
  if (longest := max(roots for _, roots in sizes)) < D:
    raise UserError(
      f"depth={D}: give {longest} at most, the tokens of the longest answer"
    )
  lengths = {rule: [] for rule in RULES}
  cycles = {rule: [] for rule in RULES}
  gains = []
  for depth in range(1, D + 1):
    parts = [
      _length([[y[:depth] for y in x[rule]] for x in chances]) for rule in RULES
    ]
    for rule, (values, begun) in zip(RULES, parts, strict=True):
      lengths[rule].append(Estimate.of(values))
      cycles[rule].append(begun)
    (base, _), (longer, _) = parts
    share = longer.mean() / base.mean()
    around = (longer - share * base) / base.mean()  # its mean is 0
    gains.append(Estimate.of(100 * (share - 1 + around)))
  tokens = sum(roots for _, roots in sizes)
  return Scores(lengths=lengths, gain=gains, tokens=tokens, cycles=cycles)


def visits(chances: np.ndarray) -> np.ndarray:
  """Returns the probability, given the text, that a cycle begins at each root.

  Args:
    chances: [D, roots] probability that at least d + 1 tokens are accepted.
  """
  D, roots = chances.shape
  ends = np.ones((1, roots)), chances, np.zeros((1, roots))
  at_least = np.concatenate(ends)
  gained = at_least[:-1] - at_least[1:]  # [D + 1, roots]: P(gain = d + 1)
  begun = np.zeros(roots + D + 1)
  begun[0] = 1
  for root in range(roots):
    begun[root + 1 : root + D + 2] += begun[root] * gained[:, root]
  return begun[:roots]


def _length(chances: list[list]) -> tuple[np.ndarray, np.ndarray]:
  """Returns values whose mean is the length, and each conversation's cycles.

  A conversation's value is the mean plus its first-order effect on the mean,
  times the number of conversations. So the spread of the values gives the error
  of the mean. The last roots lack deeper levels, since the text ends, so each
  level's mean is over the roots that have this level.
  """
  D = len(chances[0][0])
  weights, sums = np.zeros((2, len(chances), D))
  cycles = np.zeros(len(chances))
  for i, (exact, averaged) in enumerate(chances):
    begun = visits(exact)
    cycles[i] = begun.sum()
    for level in range(D):
      count = max(len(begun) - level, 0)
      weights[i, level] = begun[:count].sum()
      sums[i, level] = begun[:count] @ averaged[level, :count]
  means = sums.sum(0) / weights.sum(0)
  around = (sums - weights * means) / weights.mean(0)
  return 1 + (means + around).sum(1), cycles
