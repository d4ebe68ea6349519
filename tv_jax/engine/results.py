"""What a run yields, means with their errors, and how it prints.

Axes: N nodes, D depth.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np

from tv_jax.engine.config import DecodeConfig
from tv_jax.engine.pair import Pair
from tv_jax.engine.state import Trace
from tv_jax.tree import Adaptive, Tree

# What it means that a cycle is counted among the faults.
FAULT = (
  "the logits of the target or of the draft are broken there, or how sure the"
  " draft is, or the rule, or the policy that shapes the tree"
)

# What it means that no cycle of a run drafted anything.
IDLE = "the policy that shapes the tree wanted no child of any root"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Estimate:
  """A mean, its standard error (ddof 1), and how many values it is over.

  Attributes:
    mean: The mean; NaN of nothing.
    error: Its standard error; NaN if it is not known, as of a single value.
    n: How many values, or clusters of them.
  """

  mean: float
  error: float
  n: int

  @classmethod
  def of(cls, values) -> Estimate:
    """Returns the estimate from independent values."""
    return cls.clustered(values, np.arange(len(values)))

  @classmethod
  def clustered(cls, values, cluster) -> Estimate:
    """Returns the estimate from values of which those of a cluster go together.

    The error is that of a ratio of the clusters' sums; n counts clusters, which
    are named value by value, as by the item's number.
    """
    values = np.asarray(values, np.float64)
    if not len(values):
      return cls(mean=float("nan"), error=float("nan"), n=0)
    mean = values.mean()
    _, which = np.unique(cluster, return_inverse=True)
    sums = np.bincount(which, weights=values - mean)
    n = len(sums)
    error = float("nan")
    if n > 1:
      error = (n / (n - 1) * np.sum(sums**2)) ** 0.5 / len(values)
    return cls(mean=float(mean), error=float(error), n=n)

  def __format__(self, spec: str) -> str:
    """For example 3.214 ± 0.021; `spec` is that of the mean, as in "+.4f"."""
    spec = spec or ".3f"
    plain = spec.lstrip("+")
    error = "?" if np.isnan(self.error) else f"{self.error:{plain}}"
    return f"{self.mean:{spec}} ± {error}"


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
    trace: Of each prompt, its first cycles' trees [cycles, N], if asked for.
    seconds: Of decoding, prompts included, without compilation.
    compile_seconds: Of compilation; 0 if it was compiled before.
    config: How it was decoded.
    pair: What was asked.
  """

  tokens: list[list[int]]
  accepted: list[np.ndarray]
  drafted: list[np.ndarray]
  expected: dict[str, list[np.ndarray]]
  stops: np.ndarray
  faults: int
  trace: list[Trace] | None
  seconds: float
  compile_seconds: float
  config: DecodeConfig
  pair: Pair

  @functools.cached_property
  def text(self) -> list[str]:
    """The tokens as text without special tokens, up to what `stop` names."""
    decode = self.pair.tokenizer.decode
    texts = [decode(row, skip_special_tokens=True) for row in self.tokens]
    return [cut(str(text), self.config.stop) for text in texts]

  @property
  def tree(self) -> Tree | Adaptive | None:
    """Returns the tree that was drafted, or what shaped them."""
    return self.config.tree

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
    """Realised minus expected length: 0 within its error, or a bug."""
    if self.config.name not in self.expected:
      return None
    expected = np.concatenate(self.expected[self.config.name])
    return Estimate.of(np.concatenate(self.accepted) - expected)

  @property
  def depth_acceptance(self) -> np.ndarray:
    """[D + 1] the share of cycles in which some node of a depth was kept."""
    depth = self.tree.depth if self.tree else np.zeros(1, int)
    counts = np.bincount(depth, weights=self.stops)
    return counts[::-1].cumsum()[::-1] / max(self.cycles, 1)

  @property
  def tokens_per_second(self) -> float:
    """New tokens that were kept, over all prompts, per second."""
    return sum(map(len, self.tokens)) / self.seconds

  def __repr__(self) -> str:
    """Returns the summary."""
    return "\n".join(f"{name:<10} {line}" for name, line in self._lines())

  def _lines(self):
    kept = sum(map(len, self.tokens))
    yield (
      "prompts",
      f"{len(self.tokens)}, {kept} new tokens, seed {self.config.seed}",
    )
    yield "decoding", str(self.config)
    if self.tree:
      yield "accepted", f"{self.acceptance_length} tokens a cycle"
      yield from self._panel()
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
    name = self.config.name
    for other, lengths in expected.items():
      line = f"{other} {Estimate.of(lengths)}"
      if name in expected and other != name:
        line += f" ({name} {Estimate.of(expected[name] - lengths):+.3f})"
      yield "expected", line
    if self.check:
      yield "check", f"realised - expected = {self.check:+.3f}"


def cut(text: str, stop: Sequence[str]) -> str:
  """Cuts a text before the first of these in it."""
  places = [text.find(end) for end in stop if end in text]
  return text[: min(places)] if places else text


def stop_after(
  pair: Pair, tokens: Sequence[int], stop: Sequence[str]
) -> int | None:
  """Returns how many tokens complete one of the texts; None: they do not.

  A special token, which no text shows, completes what names it.
  """
  if not stop:
    return None
  tokenizer = pair.tokenizer
  named = {tokenizer.get_vocab().get(end) for end in stop}
  special = named & {*tokenizer.all_special_ids}

  def complete(count):
    text = tokenizer.decode(tokens[:count], skip_special_tokens=True)
    shown = any(end in text for end in stop)
    return shown or not special.isdisjoint(tokens[:count])

  if not complete(len(tokens)):
    return None
  return next(filter(complete, range(1, len(tokens) + 1)))


class Speech:
  """Tokens as text: what is said once is not changed by what comes later.

  Attributes:
    text: What has been said.
  """

  def __init__(self, tokenizer):
    """Has said nothing yet."""
    self.text, self._tokens, self._tokenizer = "", [], tokenizer

  def say(self, tokens: Sequence[int]) -> str:
    """Returns what is new, without a character that has only begun."""
    self._tokens += tokens
    return self._new(self._whole().rstrip("\ufffd"))

  def rest(self) -> str:
    """Returns what is left, at the end."""
    return self._new(self._whole())

  def _whole(self):
    # Special tokens are none of the text. No cleaning: it would take back
    # spaces that were said.
    return self._tokenizer.decode(
      self._tokens,
      skip_special_tokens=True,
      clean_up_tokenization_spaces=False,
    )

  def _new(self, whole):
    new = whole[len(self.text) :]
    self.text += new
    return new
