"""What a run yields, and how it prints.

Axes: N nodes, D depth.
"""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from tv_jax.engine.estimates import FAULT, IDLE, Estimate
from tv_jax.engine.pair import Pair
from tv_jax.engine.settings import Settings
from tv_jax.engine.trace import Trace
from tv_jax.models import stops
from tv_jax.tree import Adaptive, Tree


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Generation:
  """What `generate` returns; print it for a summary.

  Attributes:
    tokens: Of each prompt, the new tokens, an end token among them, or all of
      the one that completes a text of `stop`.
    accepted: Of each prompt, the tokens gained in each cycle, the bonus token
      included, before an end or the limit cuts.
    drafted: Of each prompt, the nodes that each cycle drafted, the root not
      among them: fewer than there are places where a tree takes shape, or
      where a law has no more tokens.
    expected: By verifier of the panel, what it expects of each of these cycles,
      given the draft.
    stops: [N] how often each node was the accepted one.
    faults: Cycles in which a law was NaN, the rule's decision none, or the
      policy's tree.
    logprobs: Of each prompt, the target's log-probability of each of its tokens
      given all before, if asked for: by its law as it is, at temperature 1 and
      with all tokens, whatever they were drawn at.
    trace: Of each prompt, its first cycles' trees [cycles, N], if asked for.
    seconds: Of decoding, prompts included, without compilation.
    compile_seconds: Of compilation; 0 if it was compiled before.
    settings: What was asked for.
    pair: What was asked; None in what was pickled, which has the text.
  """

  tokens: list[list[int]]
  accepted: list[np.ndarray]
  drafted: list[np.ndarray]
  expected: dict[str, list[np.ndarray]]
  stops: np.ndarray
  faults: int
  logprobs: list[np.ndarray] | None
  trace: list[Trace] | None
  seconds: float
  compile_seconds: float
  settings: Settings
  pair: Pair | None

  @functools.cached_property
  def text(self) -> list[str]:
    """The tokens as text without special tokens, up to what `stop` names."""
    assert self.pair is not None  # what was pickled has its text
    decode = self.pair.tokenizer.decode
    return [
      stops.cut(decode(own, skip_special_tokens=True), self.settings.stop)
      for own in self.tokens
    ]

  @property
  def tree(self) -> Tree | Adaptive | None:
    """Returns the tree that was drafted, or what shaped them."""
    how = self.settings.plan.speculation
    return how and how.tree

  @property
  def cycles(self) -> int:
    """Returns how many cycles there were."""
    return sum(map(len, self.accepted))

  @property
  def idle(self) -> bool:
    """Returns whether no cycle drafted anything, though no law was broken."""
    wanted = self.tree and self.cycles and not self.faults
    return bool(wanted) and not any(map(np.any, self.drafted))

  @property
  def acceptance_length(self) -> Estimate:
    """Tokens gained in a cycle, over all cycles."""
    return Estimate.of(np.concatenate(self.accepted))

  @property
  def check(self) -> Estimate | None:
    """Realised minus own expected length: 0 within its error, or a bug."""
    if self.settings.name not in self.expected:
      return None
    own = np.concatenate(self.expected[self.settings.name])
    return Estimate.of(np.concatenate(self.accepted) - own)

  @property
  def node_acceptance(self) -> np.ndarray:
    """[N] the share of cycles in which each node was kept."""
    if not isinstance(self.tree, Tree):
      raise ValueError("only a static tree's places are nodes: see `trace`")
    return self.stops @ self.tree.ancestors / max(self.cycles, 1)

  @property
  def depth_acceptance(self) -> np.ndarray:
    """[D + 1] the share of cycles in which some node of a depth was kept."""
    depth = self.tree.depth if self.tree else np.zeros(1, int)
    here = np.bincount(depth, weights=self.stops)
    return here[::-1].cumsum()[::-1] / max(self.cycles, 1)

  @property
  def tokens_per_second(self) -> float:
    """New tokens that were kept, over all prompts, per second."""
    return sum(map(len, self.tokens)) / self.seconds

  def __getstate__(self) -> dict:
    """What is pickled: all but the models, with the text that they decoded."""
    state = dict(self.__dict__, pair=None)
    if self.pair is not None and self.pair.path is not None:
      state["text"] = self.text
    return state

  def __repr__(self) -> str:
    """Returns the summary."""
    return "\n".join(f"{name:<10} {line}" for name, line in self._lines())

  def _lines(self):
    how, kept = self.settings, sum(map(len, self.tokens))
    yield "prompts", f"{len(self.tokens)}, {kept} new tokens, seed {how.seed}"
    if self.tree:
      yield (
        "decoding",
        f"{how.name} on {self.tree!r}, {how.proposal},"
        f" temperature {how.temperature:g}",
      )
      yield "accepted", f"{self.acceptance_length} tokens a cycle"
      yield from self._panel()
    else:
      yield "decoding", f"plain, temperature {how.temperature:g}"
    yield (
      "speed",
      f"{self.tokens_per_second:.1f} tokens/s: {self.seconds:.3f} s, and"
      f" {self.compile_seconds:.1f} s of compilation",
    )
    if self.faults:
      yield "FAULTS", f"IN {self.faults} CYCLES: {FAULT}"
    if self.idle:
      yield "NOTHING", f"WAS DRAFTED IN ANY CYCLE: {IDLE}"

  def _panel(self):
    expected = {k: np.concatenate(v) for k, v in self.expected.items()}
    own = expected.get(self.settings.name or "")
    for name, values in expected.items():
      line = f"{name} {Estimate.of(values)}"
      if own is not None and name != self.settings.name:
        line += f" ({self.settings.name} {Estimate.of(own - values):+.3f})"
      yield "expected", line
    if own is not None:
      check = self.check
      yield "check", f"realised - expected = {check:+.3f}"
