"""The result of a run, means with their standard errors, and their text form.

Axes: N nodes, D depth.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np

from tv_jax.engine.config import DecodeConfig
from tv_jax.engine.pair import Pair
from tv_jax.tree import Tree

# Explains a fault in messages.
FAULT = (
  "logits or a confidence were NaN, or the rule returned an invalid decision"
)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Estimate:
  """A mean with its standard error.

  Attributes:
    mean: The mean; NaN if there are no values.
    error: The standard error (ddof 1); NaN for fewer than two clusters.
    n: Number of values, or of clusters if the values are clustered.
  """

  mean: float
  error: float
  n: int

  @classmethod
  def of(cls, values) -> Estimate:
    """Estimates the mean of independent values."""
    return cls.clustered(values, np.arange(len(values)))

  @classmethod
  def clustered(cls, values, cluster) -> Estimate:
    """Estimates the mean of values that are dependent within clusters.

    The mean is over all values. Its error treats clusters as independent.

    Args:
      values: The values.
      cluster: The cluster of each value, for example its item number.
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
    """Formats as 3.214 ± 0.021; `spec` (".3f") applies to both numbers."""
    spec = spec or ".3f"
    plain = spec.lstrip("+")
    error = "?" if np.isnan(self.error) else f"{self.error:{plain}}"
    return f"{self.mean:{spec}} ± {error}"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Generation:
  """The result of `tv_jax.generate`. Printing it gives a summary.

  The lists have one entry for each prompt.

  Attributes:
    tokens: New token ids, up to and including the end token, the token that
      completes a stop string, or the limit.
    gained: [cycles] Tokens gained in each cycle, bonus token included, before
      any cut at an end token or the limit.
    drafted: [cycles] Number of nodes drafted in each cycle, without the root.
      Exhausted distributions and `draft_stop` give fewer than the maximum.
    expected: For each verifier of the panel, by name, a list of [cycles]: its
      expected length of each cycle, given the draft.
    stops: [N] Number of cycles in which each node was the accepted one.
    faults: Number of cycles with a NaN or with an invalid decision of the rule.
    seconds: Time of decoding, prefill included, compilation excluded.
    compile_seconds: Time to compile programs, or to find compiled programs.
    config: The decoding options.
    pair: The target and its draft.
  """

  tokens: list[list[int]]
  gained: list[np.ndarray]
  drafted: list[np.ndarray]
  expected: dict[str, list[np.ndarray]]
  stops: np.ndarray
  faults: int
  seconds: float
  compile_seconds: float
  config: DecodeConfig
  pair: Pair

  @functools.cached_property
  def text(self) -> list[str]:
    """The answers as text, without special tokens and stop strings."""
    decode = self.pair.tokenizer.decode
    texts = [decode(row, skip_special_tokens=True) for row in self.tokens]
    return [cut(str(text), self.config.stop) for text in texts]

  @property
  def tree(self) -> Tree | None:
    """The tree; None in plain decoding."""
    return self.config.static.tree

  @property
  def cycles(self) -> int:
    """Total number of cycles."""
    return sum(map(len, self.gained))

  @property
  def acceptance_length(self) -> Estimate:
    """Mean tokens gained per cycle; its error treats cycles as independent."""
    return Estimate.of(np.concatenate(self.gained))

  @property
  def check(self) -> Estimate | None:
    """Mean of realised minus expected length: must be 0 within its error.

    None if the expected lengths of the verifier were not computed.
    """
    if self.config.name not in self.expected:
      return None
    expected = np.concatenate(self.expected[self.config.name])
    return Estimate.of(np.concatenate(self.gained) - expected)

  @property
  def depth_acceptance(self) -> np.ndarray:
    """[D + 1] Share of cycles that accepted a node at each depth or deeper."""
    depth = self.tree.depth if self.tree else np.zeros(1, int)
    counts = np.bincount(depth, weights=self.stops)
    return counts[::-1].cumsum()[::-1] / max(self.cycles, 1)

  @property
  def tokens_per_second(self) -> float:
    """New tokens of all prompts per second."""
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
  """Truncates a text before the first stop string in it."""
  places = [text.find(end) for end in stop if end in text]
  return text[: min(places)] if places else text


def stop_after(
  pair: Pair, tokens: Sequence[int], stop: Sequence[str]
) -> int | None:
  """Returns how many tokens it takes to complete a stop string, or None.

  Decoded text shows no special token. A special token counts as a match if its
  name is one of the stop strings.
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
