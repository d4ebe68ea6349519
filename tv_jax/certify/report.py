"""What a certificate looks at, what it finds, and how that is printed."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from tv_jax.certify import words
from tv_jax.certify.cases import Case, below, num_contexts
from tv_jax.tree import ROOT, Adaptive, Tree

LEGEND = """\
largest error: total variation of the output's first depth + 1 tokens, or
  standard errors of what is sampled; length: expected tokens gained in a cycle.
  docs/new-verifier.md has the verdicts."""


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
  law_broken: bool | None = None  # None: that is not known
  proposal_wrong: bool = False  # and so nothing was run
  sigmas: float | None = None  # the law's largest deviation, if it was sampled
  case: Case | None = None  # None, like all that follows, if no law is known
  law: np.ndarray | None = None  # of the output's first tokens
  target: np.ndarray | None = None  # of the same under the target

  @property
  def contract_broken(self) -> bool:
    """Returns whether the rule does not do as it should, whatever its law."""
    return bool(self.faults) and not self.proposal_wrong

  @property
  def distance(self) -> float:
    """Total variation of the law from the target's; 0 if it is not known."""
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
    if self.law_broken is None:
      return "CONTRACT BROKEN (law not known)"
    state = "intact"
    if self.sigmas is not None:
      state = f"within {self.sigmas:.1f} sigma"
    return f"CONTRACT BROKEN (law {state})"

  def __repr__(self) -> str:
    """Tells the case, its laws, what is broken, and where the law is wrong."""
    tree, case = self.tree, self.case
    where = repr(tree)
    if isinstance(tree, Tree):
      where = f"tree {list(tree.parents)} (parents)"
    faults = [f"  fault: {fault}" for fault in self.faults]
    if case is None or self.law is None or self.target is None:
      return "\n".join([where, *faults])
    V, law = case.p.shape[1], "the target's"
    if self.law_broken:
      law = f"{self.distance:.2g} from the target's (total variation)"
    lines = [
      f"{where}, vocabulary {' '.join(map(words.name, range(V)))}, case of kind"
      f" {case.kind!r}",
      *faults,
      f"  the output's law is {law}",
    ]
    worst = int(np.abs(self.law - self.target).argmax())
    length = round(np.log(len(self.law)) / np.log(V))
    worst_path = np.unravel_index(worst, (V,) * length)
    if len(case.p) == num_contexts(V, tree.max_depth):
      for path in words.paths(V, tree.max_depth + 1, worst_path):
        context = functools.reduce(lambda c, t: below(c, t, V), path, ROOT)
        lines.append(words.laws(path, case.p[context], case.q[context]))
    if self.law_broken:
      chances = self.law[worst], self.target[worst]
      lines.append(words.begins(worst_path, *chances))
    return "\n".join(lines)


class Check(NamedTuple):
  """One row of the certificate."""

  method: str  # how the law was computed
  vocabulary: int  # tokens
  cases: int = 0  # 0: no law is known
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


class ProposalCheck(NamedTuple):
  """What a proposal does."""

  sizes: tuple[int, ...]  # numbers of siblings
  error: float  # the largest relative one of `laws`
  faults: tuple[str, ...]  # what is wrong, in words

  @property
  def sound(self) -> bool:
    """Returns whether nothing was found against the proposal."""
    return not self.faults

  def __repr__(self) -> str:
    """Returns the verdict, what was looked at, and what is wrong."""
    verdict = (
      f"{'SOUND' if self.sound else 'WRONG'}, families of"
      f" {', '.join(map(str, self.sizes))}, laws off by {self.error:.1e}"
    )
    return "\n  fault: ".join([verdict, *self.faults])


def table(rows: Iterable[tuple[str, str, str, Check]]) -> str:
  """Makes a table of rows (verifier, proposal, tree, its check)."""
  heading = (
    *("verifier", "proposal", "tree", "tokens", "check", "largest error"),
    *("allowed", "length", "verdict"),
  )
  cells = (
    (*names, str(check.vocabulary), *_numbers(check), check.verdict)
    for *names, check in rows
  )
  return words.table([heading, *cells])


def _numbers(check):
  """Returns the columns between the names and the verdict."""
  if not check.cases:
    return [check.method, *["-"] * 3]
  form = "{:.1f} sigma" if check.sampled else "{:.1e}"
  return [
    f"{check.method}, {check.cases} cases",
    form.format(check.distance),
    f"{check.allowed:g}{' sigma' * bool(check.sampled)}",
    f"{check.length:.4f}",
  ]
