"""How much a certificate looks at, and what it finds."""

from __future__ import annotations

import dataclasses
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
  bound: bool = False  # whether to ask what any lossless rule could gain
  sampled: bool = False  # whether coins are tossed, thresholds not looked at

  def tokens(self, tree: Tree | Adaptive) -> int:
    """Returns V: where siblings leave their last no choice, no fault shows."""
    widest = tree.max_children
    return self.vocabulary or (3 if widest < 3 else widest + 2)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Failure:
  """How a rule was caught.

  Attributes:
    tree: The tree that it failed on.
    faults: What of the contract is broken, in words: thresholds that are not
      the ones used, shapes, a stop law that differs, ..
    law_broken: Whether the output's law is not the target's; None if that was
      not looked at.
    proposal_wrong: Whether the proposal is wrong, and so nothing was run.
    sigmas: The law's largest deviation in standard errors, if it was sampled.
    case: The laws; None, like all that follows, if nothing was run.
    law: Of the output's first tokens, under the rule.
    target: The same under the target.
  """

  tree: Tree | Adaptive
  faults: tuple[str, ...] = ()
  law_broken: bool | None = None
  proposal_wrong: bool = False
  sigmas: float | None = None
  case: Case | None = None
  law: np.ndarray | None = None
  target: np.ndarray | None = None

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class Check:
  """One row of the certificate.

  Attributes:
    method: How the law was found.
    vocabulary: Tokens.
    cases: How many there were; 0 if the rule was not run.
    distance: The largest total variation from the target, or for sampled
      drafts the largest deviation in standard errors.
    allowed: The largest `distance` that is.
    expected: Tokens gained in a cycle, mean over cases.
    gain: The same over token-level on the same drafts, relative.
    shorter: Cases in which it gains less than token-level; None: not known.
    shortfall: By how many tokens at most.
    possible: The largest length of any lossless rule, mean over cases; NaN if
      it was not asked for, or if drafts were too many to enumerate.
    sampled: Drafts of all cases, if they were sampled; else 0.
    failure: None if nothing was found against the rule.
  """

  method: str
  vocabulary: int
  cases: int = 0
  distance: float = np.nan
  allowed: float = np.nan
  expected: float = np.nan
  gain: float = np.nan
  shorter: int | None = 0
  shortfall: float = 0.0
  possible: float = np.nan
  sampled: int = 0
  failure: Failure | None = None

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
