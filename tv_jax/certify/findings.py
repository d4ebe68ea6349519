"""How much a certificate looks at, and what it finds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tv_jax.certify.cases import Case
from tv_jax.tree import Adaptive, Tree


class Settings(NamedTuple):
  """How much to check."""

  vocabulary: int | None = None  # tokens; None: as the tree needs
  cases: int = 27
  drafts: int = 1000  # where they are sampled
  dtype: type = np.float64
  seed: int = 0

  def tokens(self, tree: Tree | Adaptive) -> int:
    """Returns V: where siblings leave their last no choice, no fault shows."""
    widest = tree.max_children
    return self.vocabulary or (3 if widest < 3 else widest + 2)


class Failure(NamedTuple):
  """How a rule was caught."""

  tree: Tree | Adaptive  # that it failed on
  # What of the contract is broken, in words: thresholds that are not the ones
  # used, shapes, a stop law that differs, ..
  faults: tuple[str, ...] = ()
  law_broken: bool | None = None  # None: that was not looked at
  proposal_wrong: bool = False  # and so nothing was run
  sigmas: float | None = None  # the law's largest deviation, if it was sampled
  case: Case | None = None  # None, like all that follows, if nothing was run
  law: np.ndarray | None = None  # of the output's first tokens
  target: np.ndarray | None = None  # of the same under the target

  @property
  def contract_broken(self) -> bool:
    """Returns whether the rule does not do as it should, whatever its law."""
    return bool(self.faults) and not self.proposal_wrong

  @property
  def distance(self) -> float:
    """Total variation of the law from the target's; 0 if nothing was run."""
    if self.law is None or self.target is None:
      return 0.0
    return 0.5 * float(abs(self.law - self.target).sum())

  @property
  def verdict(self) -> str:
    """Returns what was broken, in capitals."""
    if self.proposal_wrong:
      return "NOT RUN (wrong proposal)"
    if self.law_broken:
      return "NOT LOSSLESS" + ", CONTRACT BROKEN" * bool(self.faults)
    state = "not run" if self.law_broken is None else "intact"
    if self.sigmas is not None:
      state = f"within {self.sigmas:.1f} sigma"
    return f"CONTRACT BROKEN (law {state})"


class Check(NamedTuple):
  """One row of the certificate."""

  method: str  # how the law was computed
  vocabulary: int  # tokens
  cases: int = 0  # 0: the rule was not run
  # The largest total variation from the target, or for sampled drafts the
  # largest deviation in standard errors; and the largest that is allowed.
  distance: float = np.nan
  allowed: float = np.nan
  length: float = np.nan  # expected tokens gained in a cycle, mean over cases
  sampled: int = 0  # drafts of all cases, if they were sampled
  failure: Failure | None = None  # None: nothing is wrong, as far as was seen

  @property
  def lossless(self) -> bool:
    """Whether neither law nor contract is broken, as far as was seen."""
    return self.failure is None

  @property
  def verdict(self) -> str:
    """In capitals."""
    if self.failure is not None:
      return self.failure.verdict
    seen = f" (sampled, {self.sampled} drafts, {self.distance:.1f} sigma)"
    return "LOSSLESS" + seen * bool(self.sampled)
