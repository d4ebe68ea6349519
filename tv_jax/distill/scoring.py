"""How long chains of a draft are, from the target's own text alone.

chances.py has what becomes of a cycle that begins at a place of the text. What
comes after a cycle has the target's law, whatever was accepted: so given its
text a run goes from place to place with just these chances, and how often it
begins a cycle at each needs no sampling. (Easy places, which long cycles skip,
count less than hard ones. A mean over all places would be too long.)

Axes: B rows, T tokens, W roots of a row, D levels, E embedding, J what a draft
reads of a token.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax import probs
from tv_jax.certify.engine import passes
from tv_jax.distill.chances import RULES, Known, along
from tv_jax.distill.data import Rows, Shape, usable
from tv_jax.distill.text import Conversation
from tv_jax.edge import checks
from tv_jax.engine.config import COLDEST_DRAFT
from tv_jax.engine.pair import Pair
from tv_jax.engine.results import Estimate
from tv_jax.runs import metrics

# Levels of the longest chain, where nothing else is said.
LONGEST = 8


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Scores:
  """Expected acceptance lengths of chains; item d is of depth d + 1.

  Attributes:
    lengths: By rule.
    gain: Of the traversal over token-level verification, in percent; on a chain
      block verification is the traversal.
    tokens: How many tokens of answers were scored.
    cycles: By rule: how many cycles a run is expected to take for each answer.
  """

  lengths: dict[str, list[Estimate]]
  gain: list[Estimate]
  tokens: int
  cycles: dict[str, list[np.ndarray]]

  def over(self, other: Scores, rule: str) -> list[Estimate]:
    """Returns by how many percent its chains are longer than another draft's.

    Args:
      other: Of the same text: conversations are compared one by one.
      rule: One of `RULES`.
    """
    return [
      metrics.relative(base, cycles, np.arange(len(base)))
      for cycles, base in zip(
        self.cycles[rule], other.cycles[rule], strict=True
      )
    ]

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
  draft_temperature: float | None = None,
  rows: int = 4,
) -> Scores:
  """Scores a draft on text that its target sampled.

  Args:
    pair: The draft and the target.
    text: What the target wrote at this temperature, with all of its tokens.
    depth: Of the longest chain; by default `LONGEST`, or of a draft of one pass
      as many levels as it has.
    temperature: The target's.
    draft_temperature: The draft's; by default the same, but 0.1 at least.
    rows: Conversations that are processed together.

  Returns:
    The lengths of chains of each depth up to that one.
  """
  if pair.draft is None:
    raise ValueError("the pair has no draft to score")
  target, draft = pair.target, pair.draft
  block = draft.config.block
  most = block.size if block else 1 << 30
  depth = min(LONGEST, most) if depth is None else depth
  if not 1 <= depth <= most:
    raise ValueError(f"depth={depth}: {draft.source} drafts 1 to {most} levels")
  if draft_temperature is None:
    draft_temperature = max(temperature, COLDEST_DRAFT)
  sampled = checks.number(probs.COLDEST)
  sampled(temperature, "temperature")
  sampled(draft_temperature, "draft_temperature")
  text = usable(text, target.config.vocab_size)
  shape, chances = Shape.of(text, depth), []
  heat = jnp.array([temperature, draft_temperature], jnp.float32)
  for start in range(0, len(text), rows):
    part = Rows.of(text[start : start + rows], shape.T)
    features, read = passes.of_target(
      target, draft.config.target_layers, part.tokens
    )
    part = part._replace(features=features, read=read)
    each = measure(draft.module, target.params, draft.params, part, heat, shape)
    each = np.asarray(each, np.float64)
    sizes = part.end - part.first
    chances += [x[..., :size] for x, size in zip(each, sizes, strict=True)]
  return summary(chances)


@functools.partial(jax.jit, static_argnums=(0, 5))
def measure(
  module, target: dict, params: dict, rows: Rows, heat: jax.Array, shape: Shape
) -> jax.Array:
  """Returns the chances [B, 2, 2, D, W] of each conversation.

  By rule; of the text itself, and with the last token averaged. Item d is of
  at least d + 1 accepted tokens. What is behind a conversation's last root
  means nothing.

  Args:
    module: The draft's.
    target: The target's parameters, of which the unembedding is used.
    params: The draft's.
    rows: The conversations, with features.
    heat: [2] the temperatures of target and draft.
    shape: Of the rows.
  """
  roots = jnp.asarray(rows.first)[:, None] + jnp.arange(shape.W)[None]
  features = jnp.asarray(rows.features, module.config.dtype)
  features = passes.window(features, rows.first, shape.W + shape.D - 1)
  log_p = jax.nn.log_softmax(passes.logits(target, features) / heat[0], axis=-1)
  log_p = Known.of(params, module.config).columns(log_p)
  chances = []
  for step in along(module, params, rows, roots, shape.D, log_p, heat[1]):
    pairs = [  # [B, 2, W] of each rule
      jnp.stack(
        [
          step.after.chance(rule),
          step.before.next_chance(rule, step.log_p, step.log_q),
        ],
        axis=1,
      )
      for rule in RULES
    ]
    chances.append(jnp.stack(pairs, axis=1))
  return jnp.stack(chances, axis=3)


def summary(chances: Sequence[np.ndarray]) -> Scores:
  """Estimates lengths from what `measure` returned of each conversation."""
  D = chances[0].shape[2]
  if (longest := max(x.shape[-1] for x in chances)) < D:
    raise ValueError(
      f"depth={D}: give {longest} at most, the tokens of the longest answer"
    )
  lengths = {rule: [] for rule in RULES}
  cycles = {rule: [] for rule in RULES}
  gains = []
  for depth in range(1, D + 1):
    parts = [
      _length([x[i, :, :depth] for x in chances]) for i in range(len(RULES))
    ]
    for rule, (mean, pull, begun) in zip(RULES, parts, strict=True):
      lengths[rule].append(_estimate(mean, pull))
      cycles[rule].append(begun)
    (base, base_pull, _), (mean, pull, _) = parts
    share = mean / base
    pull = 100 * (pull - share * base_pull) / base
    gains.append(_estimate(100 * (share - 1), pull))
  tokens = sum(x.shape[-1] for x in chances)
  return Scores(lengths=lengths, gain=gains, tokens=tokens, cycles=cycles)


def visits(chances: np.ndarray) -> np.ndarray:
  """Returns how often a run begins a cycle at each root, given its text.

  Args:
    chances: [D, roots] that at least d + 1 drafted tokens are accepted.
  """
  D, roots = chances.shape
  ends = np.ones((1, roots)), chances, np.zeros((1, roots))
  at_least = np.concatenate(ends)
  gained = at_least[:-1] - at_least[1:]  # [D + 1, roots]: one token and more
  begun = np.zeros(roots + D + 1)
  begun[0] = 1
  for root in range(roots):
    begun[root + 1 : root + D + 2] += begun[root] * gained[:, root]
  return begun[:roots]


def _length(chances: list) -> tuple[float, np.ndarray, np.ndarray]:
  """Returns the mean length, and of each conversation its pull and its cycles.

  The pull is what it adds to the error.

  Of the last roots no text tells the deeper levels: each level's mean is over
  the roots that have it.
  """
  D = chances[0].shape[1]
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
  pull = ((sums - weights * means) / weights.sum(0)).sum(1)
  return 1 + means.sum(), pull, cycles


def _estimate(mean: float, pull: np.ndarray) -> Estimate:
  n = len(pull)
  error = (n / (n - 1) * np.sum(pull**2)) ** 0.5 if n > 1 else float("nan")
  return Estimate(mean=float(mean), error=float(error), n=n)
