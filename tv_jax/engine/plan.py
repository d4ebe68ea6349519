"""What a decoding program is compiled for, and the arrays that it works on.

Axes: B batch, N nodes, D depth, V vocabulary, E embedding, P prompt length,
W new tokens at most, C cycles at most.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from tv_jax.drafting import Drafter, News
from tv_jax.engine import sizes
from tv_jax.engine.trace import Trace
from tv_jax.models import Cache
from tv_jax.proposals import Proposal
from tv_jax.tree import Adaptive, Tree
from tv_jax.verifiers import Verifier


@dataclasses.dataclass(frozen=True, kw_only=True)
class Speculation:
  """How tokens are drafted and verified.

  Attributes:
    drafter: The draft model's functions.
    tree: What it grows: a tree, or what shapes another one in each row.
    proposal: How siblings are drawn.
    verifier: The rule.
    others: Rules that the program holds as well. `Request.rule` says which of
      (verifier, *others) decides: one compilation serves all of them.
  """

  drafter: Drafter
  tree: Tree | Adaptive
  proposal: Proposal
  verifier: Verifier
  others: tuple[Verifier, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
  """Everything static: programs are compiled once for each plan and shape.

  Attributes:
    target: The target's module.
    speculation: None for plain autoregressive decoding.
    panel: Verifiers whose expected lengths are computed
      on every draft.
    greedy: Whether the temperature is 0; any other one is an argument.
    top_k: Of both laws; 0: all.
    top_p: Of both laws; 1: all.
    ends: The tokens that end an answer.
    logprobs: Whether the target's log-probability of each token is recorded.
    trace: Of how many first cycles everything about the tree is recorded.
  """

  target: Any
  speculation: Speculation | None
  panel: tuple[Verifier, ...] = ()
  greedy: bool = False
  top_k: int = 0
  top_p: float = 1.0
  ends: tuple[int, ...] = ()
  logprobs: bool = False
  trace: int = 0

  @property
  def nodes(self) -> int:
    """N; 1 without a tree."""
    return len(self.speculation.tree) if self.speculation else 1

  @property
  def depth(self) -> int:
    """D; 0 without a tree."""
    return self.speculation.tree.max_depth if self.speculation else 0

  def slots(self, prompt: int, new: int) -> int:
    """Returns the cache slots that `new` tokens after `prompt` need at most."""
    if not self.speculation:
      return sizes.least_slots(None, prompt, new)
    tree, ahead = self.speculation.tree, self.speculation.drafter.block
    return sizes.least_slots(tree, prompt, new, ahead)


class Request(NamedTuple):
  """The rows of one batch. A prompt of length 0 is padding, never decoded."""

  prompts: jax.Array  # [B, P + 1] int32, padded on the right
  length: jax.Array  # [B] int32
  keys: jax.Array  # [B] each row's own
  limit: jax.Array  # [B] int32: new tokens at most
  temperature: jax.Array  # [] float32; not read if the plan is greedy
  draft_temperature: jax.Array  # [] float32
  rule: jax.Array | None = None  # [] int32; not read if there is a single one
  # [S, V] int16 from how far a text is that ends an answer, and a token, to how
  # far it is then: negative where it is complete. None: there is no such text.
  stop: jax.Array | None = None


class Seat(NamedTuple):
  """A prompt, and the row that it is to have."""

  tokens: jax.Array | np.ndarray  # [P + 1] int32, padded on the right
  length: jax.Array | np.integer  # [] int32
  limit: jax.Array | np.integer  # [] int32: new tokens at most
  item: jax.Array | np.integer  # [] uint32: its key is folded from it
  row: jax.Array | np.integer  # [] int32


class Params(NamedTuple):
  """Of both models; the draft's are None in plain decoding."""

  target: dict
  draft: dict | None


class Caches(NamedTuple):
  """Donated to a program, and given back to be used again."""

  target: Cache
  draft: Cache | None

  def map(self, function: Callable[[Cache], Cache]) -> Caches:
    """Returns what a function makes of each."""
    return Caches(function(self.target), self.draft and function(self.draft))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class Records:
  """What a run leaves behind, one column a cycle."""

  tokens: jax.Array  # [B, W + D + 1] int32, the prompt not included
  kept: jax.Array  # [B] int32: how many of them, cut at an end or the limit
  cycles: jax.Array  # [B] int32: how many were run
  accepted: jax.Array  # [B, C] int32: tokens gained in each, before any cut
  drafted: jax.Array  # [B, C] int32: nodes that were drafted, without the root
  expected: dict[str, jax.Array]  # [B, C] float32 by verifier of the panel
  stops: jax.Array  # [B, N] int32: how often each node was the accepted one
  faults: jax.Array  # [B] int32: cycles in which a NaN was met
  logprobs: jax.Array | None  # [B, W + D + 1] float32, of the tokens
  trace: Trace | None  # [B, cycles traced, ..]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, kw_only=True)
class State:
  """Between two cycles; all arrays are of rows, which know of no other.

  With `length` tokens committed, the target's cache holds all but the last,
  which is the root of the next tree. Nothing of a finished row changes.
  """

  length: jax.Array  # [B] int32, the prompt included
  done: jax.Array  # [B] bool
  stopping: jax.Array | None  # [B] int32: how far a text is, of `Request.stop`
  news: News  # what the draft has yet to read
  caches: Caches
  records: Records
