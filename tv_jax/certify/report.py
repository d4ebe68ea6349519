"""The certificate's settings and results, for rules and for programs alike."""

from __future__ import annotations

import collections
import enum
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.certify import words, worlds
from tv_jax.certify.worlds import World
from tv_jax.tree import Tree

FLOAT32 = 1e-6  # the largest distance that single precision explains
_BUT_FOR = ", but for a coin that is exactly 0"


class Settings(NamedTuple):
  """How much to check.

  Attributes:
    vocabulary: Number of tokens. None: as many as the tree needs; for a program
      without a tree 3, 5 and 64 in turn.
    cases: Number of random worlds. None: 27 for each tree of a rule. A program
      has 24 worlds of 3 tokens, and fewer of larger vocabularies.
    dtype: A rule's dtype.
    arrays: Array type of a program's laws: "numpy", "torch" or "jax". With
      "jax", `rng` is a `jax.random.key`.
    tolerance: Largest total variation of a program that counts as rounding.
      None: 1e-9, or `FLOAT32` for laws in JAX's float32.
    strict: Whether a program fails that compares a coin with `<=`.
    seed: Seed of the worlds.
  """

  vocabulary: int | None = None
  cases: int | None = None
  dtype: type = np.float64
  arrays: str = "numpy"
  tolerance: float | None = None
  strict: bool = False
  seed: int = 0

  @property
  def precision(self):
    """A context in which JAX has the precision of the dtype."""
    return jax.enable_x64(self.dtype == np.float64)

  def tokens(self, tree: Tree) -> int:
    """Returns V of a rule's worlds."""
    return worlds.tokens_for(tree.max_children, self.vocabulary)

  @property
  def allowed(self) -> float:
    """A program's tolerance, or its default for the arrays."""
    if self.tolerance is not None:
      return self.tolerance
    in_jax = self.arrays == "jax"
    in_float32 = in_jax and jnp.asarray(0.0).dtype == np.float32
    return FLOAT32 if in_float32 else 1e-9

  @property
  def most_runs(self) -> int:
    """Maximum number of a program's runs in a case.

    Once all cases together have had this many runs, no further case begins.
    Runs with tensors and JAX arrays take longer.
    """
    return 50_000 if self.arrays == "numpy" else 10_000


class Verdict(enum.StrEnum):
  """What was found."""

  LOSSLESS = "LOSSLESS"
  UNDECIDED = "UNDECIDED"
  NOT_LOSSLESS = "NOT LOSSLESS"
  # A rule's report of its decisions is wrong: what it says of its law, ..
  INTACT = "CONTRACT BROKEN (law intact)"
  UNKNOWN = "CONTRACT BROKEN (law not known)"
  BOTH = "NOT LOSSLESS, CONTRACT BROKEN"
  NOT_RUN = "NOT RUN (wrong proposal)"


def verdict(wrong: Iterable[bool | None], faults: Sequence[str]) -> Verdict:
  """Returns the verdict.

  Args:
    wrong: `Case.wrong` of each case; no case: the law is not known.
    faults: Breaches of the contract.
  """
  wrong = {*wrong} or {None}
  if True in wrong:
    return Verdict.BOTH if faults else Verdict.NOT_LOSSLESS
  if None in wrong:
    return Verdict.UNKNOWN if faults else Verdict.UNDECIDED
  return Verdict.INTACT if faults else Verdict.LOSSLESS


class WrongPrefix(NamedTuple):
  """A prefix of the output that is more likely than under the target."""

  tokens: tuple[int, ...]  # the shortest; among several, the largest excess
  chance: float  # its probability
  wanted: float  # its probability under the target


class Case(NamedTuple):
  """The output's distribution in one world.

  Attributes:
    tree: The tree; None for a cycle, which drafts for itself.
    world: The distributions p and q.
    runs: Number of decisions of a rule, or of runs of a program.
    length: Expected tokens of a cycle.
    distance: Total variation of the output from the target.
    wrong: Whether the distribution is wrong; None: not known.
    prefix: Where it is wrong.
    faults: Breaches of a rule's contract, in words.
    details: Further lines about a failing case.
    reached: [4, N] what happened at each node under a rule, see `REACHED`.
    at_zero: A prefix of probability 0 that a program gives if a uniform is
      exactly 0; empty: none.
    unexplored: Probability of a program's paths that were not followed.
    blur: Bound on the distance due to tiny numbers added to noise.
    failures: Probability of each rare failure of a program.
  """

  tree: Tree | None
  world: World
  runs: int
  length: float
  distance: float
  wrong: bool | None
  prefix: WrongPrefix | None = None
  faults: tuple[str, ...] = ()
  details: tuple[str, ...] = ()
  reached: np.ndarray | None = None
  at_zero: tuple[int, ...] = ()
  unexplored: float = 0.0
  blur: float = 0.0
  failures: Mapping[str, Fraction] = {}

  @property
  def failed(self) -> bool:
    """Whether there is anything to show."""
    return bool(self.wrong or self.faults or self.at_zero)

  def __repr__(self) -> str:
    """Shows the laws, and a prefix with a wrong probability."""
    V, prefix = (
      self.world.vocabulary,
      self.prefix.tokens if self.prefix else self.at_zero,
    )
    tree = f"{words.tree(self.tree)}, " if self.tree else ""
    alphabet = " ".join(map(words.name, range(V)))
    lines = [f"  {tree}tokens {alphabet}, laws of kind {self.world.kind!r}"]
    lines += [f"  fault: {fault}" for fault in self.faults]
    # All paths up to the last token of the prefix; if they are many, its own.
    length = max(len(prefix), 2)
    few = V ** (length - 1) <= 32
    for size in range(length if few else min(length, len(prefix) + 1)):
      every = itertools.product(range(V), repeat=size)
      for path in every if few else [prefix[:size]]:
        p, q = map(words.row, self.world.at(path))
        lines.append(f"  after {words.word(path):6} p = {p}   q = {q}")
    if self.prefix:
      _, chance, wanted = self.prefix
      lines.append(
        f"  the output begins {words.word(prefix)} with probability"
        f" {chance:.9g}, under the target {wanted:.9g}: {chance - wanted:+.2g};"
        f" total variation {self.distance:.2g}"
      )
    elif self.at_zero:
      lines.append(
        f"  the output begins {words.word(prefix)}, which the target never"
        " does, if a uniform is exactly 0"
      )
    return "\n".join([*lines, *self.details])


class Certificate(NamedTuple):
  """The result for a rule on a tree, or for a program.

  Attributes:
    verdict: What was found.
    cases: The results in all worlds, in the order of their runs; empty if the
      output's distribution is not known.
    smallest: The smallest clear failing case.
    smallest_at_zero: The smallest case that shows a <= on a coin.
    faults: Breaches of the contract, in words.
    notes: Lines about the trees, and the cases left out.
  """

  verdict: Verdict
  cases: Sequence[Case] = ()
  smallest: Case | None = None
  smallest_at_zero: Case | None = None
  faults: tuple[str, ...] = ()
  notes: tuple[str, ...] = ()

  @property
  def lossless(self) -> bool:
    """Whether the law and the contract were checked, and have no fault."""
    return self.verdict == Verdict.LOSSLESS

  @property
  def distance(self) -> float:
    """The largest total variation of all cases, `smallest` included."""
    shown = [self.smallest] if self.smallest else []
    every = [case.distance for case in [*self.cases, *shown]]
    return max(every, default=np.nan)

  @property
  def length(self) -> float:
    """Expected tokens of a cycle, the mean over all cases."""
    return sum(case.length for case in self.cases) / len(self.cases)

  @property
  def reached(self) -> np.ndarray:
    """[4, N] what happened at each node in any world, see `Case.reached`."""
    every = [x.reached for x in self.cases if x.reached is not None]
    return np.any(every, axis=0)

  @property
  def told(self) -> str:
    """The verdict with its exception."""
    return self.verdict + _BUT_FOR * bool(
      self.smallest_at_zero and not self.smallest
    )

  def __repr__(self) -> str:
    """Returns the verdict and the smallest failing case."""
    return "\n".join([f"{self.told}{self._extent()}", *self._lines()])

  def _extent(self) -> str:
    """Says what was tried."""
    if not self.cases:
      return ""
    counts = collections.Counter(case.world.vocabulary for case in self.cases)
    several = (f"{n} cases of {V} tokens" for V, n in sorted(counts.items()))
    return (
      f": total variation {self.distance:.2g} at most in {', '.join(several)},"
      f" {self.length:.3f} tokens a cycle,"
      f" {sum(case.runs for case in self.cases)} runs"
    )

  def _lines(self) -> Iterator[str]:
    """Yields all lines but the first."""
    yield from self.notes
    if unexplored := max((x.unexplored for x in self.cases), default=0):
      yield (
        f"  not followed: paths of weight {unexplored:.2g} at most in a case,"
        " which count as wrong unless the law fails without them"
      )
    if blur := max((x.blur for x in self.cases), default=0):
      yield (
        "  tiny numbers that are added to noise, or clamp it, are left out;"
        f" they change the law by {blur:.2g} at most"
      )
    failures = collections.ChainMap(*({**x.failures} for x in self.cases))
    for told, chance in failures.items():
      yield f"remark: with a probability of {float(chance):.1g}, {told}"
    if self.smallest:
      yield f"smallest failing case:\n{self.smallest}"
      if self.distance < FLOAT32:
        yield (
          "  so little is the rounding of a program that computes in float32:"
          f" with a tolerance of {FLOAT32:g} it is not looked at"
        )
    else:
      yield from (f"  fault: {fault}" for fault in self.faults)
    if self.smallest_at_zero:
      at_zero = self.smallest_at_zero._replace(prefix=None)
      yield (
        "remark: a coin is compared with <= or >=, where < is right. It matters"
        " if a uniform is exactly 0 (one in 2^24 in float32, one in 2^53 in"
        " float64) and the target forbids a token, as under a grammar; --strict"
        f" makes it a failure:\n{at_zero}"
      )
