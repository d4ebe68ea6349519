"""The certificate's settings and results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tv_jax.certify import words, worlds
from tv_jax.certify.outcome import Outcome
from tv_jax.certify.worlds import World
from tv_jax.proposals import Proposal
from tv_jax.tree import Tree
from tv_jax.verifiers import NOT_OFFERED


class Settings(NamedTuple):
  """How much to check.

  Attributes:
    vocabulary: Number of tokens; None: as many as the tree needs.
    cases: Random worlds for each exact row.
    dtype: The rules' dtype.
    seed: Random seed.
  """

  vocabulary: int | None = None
  cases: int = 27
  dtype: type = np.float64
  seed: int = 0

  def tokens(self, tree: Tree) -> int:
    """Returns V."""
    return worlds.tokens_for(tree.max_children, self.vocabulary)


class Failure(NamedTuple):
  """A failure of a rule.

  Attributes:
    tree: The tree on which the rule failed.
    faults: Breaches of the contract, in words.
    law_broken: Whether the output's distribution is wrong; None: not known.
    proposal_wrong: Whether the proposal is wrong, so that no rule was run.
    proposal: How siblings were drawn; None, like `world` and `outcome`, if no
      distribution is known.
    world: The distributions p and q.
    outcome: The rule's output in this world.
  """

  tree: Tree
  faults: tuple[str, ...] = ()
  law_broken: bool | None = None
  proposal_wrong: bool = False
  proposal: Proposal | None = None
  world: World | None = None
  outcome: Outcome | None = None

  @property
  def contract_broken(self) -> bool:
    """Whether the rule breaks its contract."""
    return bool(self.faults) and not self.proposal_wrong

  @property
  def distance(self) -> float:
    """Total variation of the output from the target; 0 if it is not known."""
    return self.outcome.distance if self.outcome else 0.0

  @property
  def verdict(self) -> str:
    """The verdict, in capitals."""
    if self.proposal_wrong:
      return "NOT RUN (wrong proposal)"
    if self.law_broken:
      return "NOT LOSSLESS" + ", CONTRACT BROKEN" * bool(self.faults)
    known = "law not known" if self.law_broken is None else "law intact"
    return f"CONTRACT BROKEN ({known})"

  def __repr__(self) -> str:
    """Shows the tree, the world, all faults, the worst prefix and a draft."""
    world, outcome, where = self.world, self.outcome, words.tree(self.tree)
    faults = [f"  fault: {fault}" for fault in self.faults]
    if not (world and outcome):
      return "\n".join([where, *faults])
    V, law = world.p.shape[1], "the target's"
    if self.law_broken:
      law = f"{self.distance:.2g} from the target's (total variation)"
    lines = [
      f"{where}, vocabulary {' '.join(map(words.name, range(V)))}, case of kind"
      f" {world.kind!r}",
      *faults,
      f"  the output's law is {law}",
    ]
    errors = np.abs(outcome.law - outcome.target)
    row, token = np.unravel_index(errors.argmax(), errors.shape)
    worst = *worlds.path_of(outcome.contexts[row], V), int(token)
    few = len(outcome.contexts) <= 13
    for context in outcome.contexts.tolist():
      path = worlds.path_of(context, V)
      if few or path == worst[: len(path)]:
        at = context % len(world.p)
        lines.append(words.laws(path, world.p[at], world.q[at]))
    if self.law_broken:
      chances = outcome.law[row, token], outcome.target[row, token]
      lines.append(words.begins(worst, *chances))
    return "\n".join([*lines, *self._families(worst)])

  def _families(self, worst: tuple[int, ...]) -> Iterator[str]:
    """Yields the siblings of one draft along the worst prefix."""
    assert self.proposal
    assert self.world
    assert self.outcome
    tree, drawn = self.tree, self.outcome.example
    V, q = self.world.q.shape[1], self.world.q
    for node in tree.inner.tolist():
      above = tree.paths[node][1 : tree.depth[node] + 1]
      path, context = tuple(drawn[above].tolist()), 0
      if path != worst[: len(path)]:
        continue
      for token in path:
        context = worlds.below(context, token, V)
      below = tree.children[node, : tree.num_children[node]]
      tokens = drawn[below].tolist()
      row, k = q[context % len(q)].astype(float), len(tokens)
      laws = (
        words.row(self.proposal.following(row, tuple(tokens[:j]), k))
        for j in range(k)
      )
      passed = (
        "-" if x == NOT_OFFERED else f"{x:.4g}"
        for x in self.outcome.thresholds[below]
      )
      yield (
        f"  in a draft nodes {' '.join(map(str, below))} are"
        f" {words.siblings(tokens)}, drawn from {', '.join(laws)}; thresholds"
        f" {' '.join(passed)}"
      )


class Check(NamedTuple):
  """One row of the certificate.

  Attributes:
    method: How the output's distribution was computed.
    vocabulary: Number of tokens.
    cases: Number of worlds that were enumerated.
    whole: Whether all drafts were enumerated, not only those of few tokens.
    distance: Largest total variation from the target in these worlds.
    length: Expected tokens of a cycle, mean over worlds.
    reached: [4, N] `Outcome.reached` in any world; None without worlds.
    failure: None if no fault was found.
  """

  method: str
  vocabulary: int
  cases: int = 0
  whole: bool = True
  distance: float = np.nan
  length: float = np.nan
  reached: np.ndarray | None = None
  failure: Failure | None = None

  @property
  def lossless(self) -> bool:
    """Whether the law and the contract were checked, and have no fault."""
    return self.failure is None and self.cases > 0

  @property
  def verdict(self) -> str:
    """The verdict, in capitals."""
    if self.failure is not None:
      return self.failure.verdict
    if self.cases:
      return "LOSSLESS"
    return "UNDECIDED (give a tree of 6 nodes or fewer)"

  @property
  def cells(self) -> tuple[str, ...]:
    """The cells of a printed row, from the vocabulary to the verdict."""
    return (
      str(self.vocabulary),
      self.method + f", {self.cases} cases" * bool(self.cases),
      f"{self.distance:.1e}" if self.cases else "-",
      f"{self.length:.4f}" if self.cases else "-",
      self.verdict,
    )


class ProposalCheck(NamedTuple):
  """The result of certifying a proposal."""

  sizes: tuple[int, ...]  # numbers of siblings that were checked
  error: float  # largest relative error of `laws`
  faults: tuple[str, ...]  # descriptions of the faults

  @property
  def sound(self) -> bool:
    """Whether no fault was found."""
    return not self.faults

  def __repr__(self) -> str:
    """Returns the verdict, the sizes of families, and the faults."""
    verdict = (
      f"{'SOUND' if self.sound else 'WRONG'}, families of"
      f" {', '.join(map(str, self.sizes))}, laws off by {self.error:.1e}"
    )
    return "\n  fault: ".join([verdict, *self.faults])
