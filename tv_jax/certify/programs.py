"""Is somebody's program lossless? Its exact output law, on laws of our own.

A program is a Python function in one of two contracts (contracts.py). Both are
certified as a cycle: drafts are drawn, something decides, tokens come out. The
output, continued by the target, must have the target's law on all prefixes.
`assert_lossless` is this in a test of somebody's own.
"""

from __future__ import annotations

import collections
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from tv_jax import proposals
from tv_jax.certify import cases, words
from tv_jax.certify.contracts import (
  CONTEXT,
  Laws,
  Settings,
  as_cycle,
  fixed_tree,
  is_cycle,
)
from tv_jax.certify.dice import ExploreError, Law, explore
from tv_jax.proposals import WITHOUT_REPLACEMENT

# Trees of a verifier, and tokens, if nothing else is asked for.
_SMALL, _WIDE, _LONG = ("kary:2x2", 3), ("branching:3", 5), ("chain:1", 64)
_OPTIONAL_SECONDS = 10.0  # of a case that can be left out
_VERDICTS = ("LOSSLESS", "UNDECIDED", "NOT LOSSLESS")
FLOAT32 = 1e-6  # what rounding in single precision may do to a law


class Failure(NamedTuple):
  """How the output's law is not the target's."""

  prefix: tuple[int, ...]  # the shortest that is too likely, by most
  chance: float = 0.0  # of this prefix
  wanted: float = 0.0  # under the target
  fault: str = ""  # what is wrong besides the law


class Case(NamedTuple):
  """What a program does with one pair of laws."""

  laws: tuple[Laws, Laws]  # the target's and the draft's
  law: Law  # of the output
  distance: float  # total variation, see `compare`
  failure: Failure | None

  def verdict(self, settings: Settings) -> str:
    """Returns one of `_VERDICTS`."""
    if self.failure:
      return "NOT LOSSLESS"
    near = self.distance <= settings.tolerance
    return "LOSSLESS" if near else "UNDECIDED"

  def __repr__(self) -> str:
    """Tells the laws, and where the output's goes wrong."""
    p, q = self.laws
    prefix, chance, wanted, fault = self.failure or Failure(())
    alphabet = " ".join(map(words.name, range(p.V)))
    lines = [f"  tokens {alphabet}, laws of kind {p.kind!r}"]
    for path in words.paths(p.V, max(len(prefix), 2), prefix):
      after = (*CONTEXT, *path)
      lines.append(words.laws(path, p(after), q(after)))
    if fault:
      return "\n".join([*lines, f"  {fault}: {words.word(prefix)}"])
    begins = words.begins(prefix, chance, wanted)
    lines.append(f"{begins}; total variation {self.distance:.2g}")
    return "\n".join(lines)


class Certificate(NamedTuple):
  """What a program does with all that was tried."""

  verdict: str  # one of `_VERDICTS`
  cases: list[Case]  # that were tried
  smallest: Case | None  # that fails, tried or made for it
  notes: list[str]  # how siblings were drawn, and what was not tried

  @property
  def lossless(self) -> bool:
    """Whether it is."""
    return self.verdict == "LOSSLESS"

  @property
  def distance(self) -> float:
    """The largest total variation, that of the smallest failing case too."""
    failing = [self.smallest] if self.smallest else []
    return max(case.distance for case in [*self.cases, *failing])

  def __repr__(self) -> str:
    """Returns the verdict, and what fails."""
    counts = collections.Counter(case.laws[0].V for case in self.cases)
    several = (f"{n} cases of {V} tokens" for V, n in sorted(counts.items()))
    laws = [case.law for case in self.cases]
    lengths = [len(x) * y for law in laws for x, y in law.chances.items()]
    lines = [
      f"{self.verdict}: total variation {self.distance:.2g} at most in"
      f" {', '.join(several)}, {float(sum(lengths)) / len(laws):.3f} tokens a"
      f" cycle, {sum(law.runs for law in laws)} runs",
      *self.notes,
    ]
    if unexplored := max(float(law.unexplored) for law in laws):
      lines.append(
        f"  not followed: paths of weight {unexplored:.2g} at most in a case,"
        " which count as wrong unless the law fails without them"
      )
    if self.smallest:
      lines += ["smallest failing case:", repr(self.smallest)]
      failure = self.smallest.failure
      if failure and not failure.fault and self.distance < FLOAT32:
        lines.append(
          "  so little is the rounding of a program that computes in float32:"
          f" with a tolerance of {FLOAT32:g} it is not looked at"
        )
    return "\n".join(lines)


def certify(program: Callable, settings: Settings | None = None) -> Certificate:
  """Certifies a program.

  Args:
    program: In one of the contracts; the names of its parameters tell which.
    settings: How much to try.

  Raises:
    ExploreError: It cannot be explored; in one line, why and where.
  """
  settings = settings or Settings()
  cycle, proposal = is_cycle(program), proposals.resolve(settings.proposal)
  if cycle and proposal != WITHOUT_REPLACEMENT:
    raise ValueError("a cycle is not told how siblings are drawn")
  worlds, tried, left_out = _worlds(cycle, settings), [], 0
  end = time.process_time() + settings.seconds
  for number, world in enumerate(worlds):
    case = _case(program, world, number)
    if world.optional and case.verdict(settings) == "UNDECIDED":
      left_out += 1
      continue
    tried.append(case)
    if case.failure or time.process_time() > end:
      break
  failing = [case for case in tried if case.failure]
  if failing and worlds[0].V > 2:
    failing += _smaller(program, world, end)
  smallest = min(
    failing, key=lambda case: (case.laws[0].V, case.law.runs), default=None
  )
  notes = [] if cycle else [f"  siblings drawn {proposal.name}"]
  if left_out:
    notes.append(
      f"  left out: {left_out} cases of {_LONG[1]} tokens, too many paths; a"
      " cut to the 50 likeliest may not show"
    )
  asked = len(worlds) - left_out
  if not smallest and len(tried) < asked:
    notes.append(
      f"  time was up after {len(tried)} of {asked} cases; the first"
      f" {len(cases.KINDS)} have each kind of laws"
    )
  verdicts = {case.verdict(settings) for case in tried}
  # Too slow a program has not met every kind of laws.
  if len(tried) < sum(world.needed for world in worlds):
    verdicts.add("UNDECIDED")
  verdict = max(verdicts, key=_VERDICTS.index)
  return Certificate(verdict, tried, smallest, notes)


class _World(NamedTuple):
  """What a case is made of."""

  settings: Settings
  V: int
  kind: str
  widest: int
  # Tokens that laws have at most; see `Laws`.
  draft: Sequence[int] = ()
  target: Sequence[int] = ()
  needed: bool = False  # for a verdict
  optional: bool = False  # left out if it takes too long


def _worlds(cycle: bool, settings: Settings) -> list[_World]:
  """Returns all cases; a third sibling with a choice is in the usual ones."""
  names = [*itertools.islice(itertools.cycle(cases.KINDS), settings.cases)]
  first, rest = names[: len(cases.KINDS)], names[len(cases.KINDS) :]

  def of(tree, V, names, **more):
    with_tree = settings._replace(tree=tree)
    widest = 1 if cycle else fixed_tree(with_tree).max_children
    V = V or (3 if widest < 3 else widest + 2)
    if widest >= V:
      raise ValueError(
        f"of {widest} siblings the last may have no choice among {V}"
        f" tokens, so that no fault there shows: give {widest + 1} or more"
      )
    return [_World(with_tree, V, name, widest, **more) for name in names]

  if settings.vocabulary or settings.tree:
    asked = settings.tree, settings.vocabulary
    return of(*asked, first, needed=True) + of(*asked, rest)
  long, few = of(*_LONG, ["smooth"], optional=True)[0], (2, 2)
  return [
    *of(*_SMALL, first, needed=True),
    *of(*_WIDE, first[:4], needed=True, draft=(5, 1)),
    # Of many tokens either the draft or the target has few.
    long._replace(draft=(2, 1)),
    long._replace(draft=(long.V, 1), target=few),
    *of(*_SMALL, rest),
  ]


def _case(program: Callable, world: _World, number: int) -> Case:
  settings, V = world.settings, world.V
  made_of = world.kind, V, (settings.seed, number, V)
  p = Laws(*made_of, 0, most=world.target)
  q = Laws(*made_of, 1, world.widest, world.draft)
  cycle = as_cycle(program, settings)
  try:
    law = explore(
      lambda rng: _tokens(cycle(p, q, CONTEXT, rng), V),
      budget=settings.budget,
      seconds=_OPTIONAL_SECONDS if world.optional else settings.seconds,
    )
  except ExploreError as error:
    if _SMALL[1] == V:
      raise
    raise ExploreError(f"with {V} tokens: {error}") from error
  return Case((p, q), law, *compare(law, p, settings.tolerance))


def _smaller(program, world: _World, end: float) -> Iterator[Case]:
  """Yields failing cases of two tokens and laws that print well."""
  grid = _World(world.settings, 2, "grid", world.widest)
  for number in range(8 if world.widest <= 2 else 0):
    if time.process_time() > end:
      return
    try:
      case = _case(program, grid, number)
    except ExploreError:  # it may want more tokens
      return
    if case.failure:
      yield case


def _tokens(output, V: int) -> tuple[int, ...]:
  """Returns what a cycle returned; refuses what are no tokens."""
  output = output.tolist() if hasattr(output, "tolist") else output
  if not isinstance(output, list | tuple) or not output:
    raise TypeError(
      f"it returns {output!r}: return a list of tokens, one or more"
    )
  tokens = [x.item() if hasattr(x, "item") else x for x in output]
  if not {*tokens} <= {*range(V)}:
    raise TypeError(f"it returns {tokens}: tokens are 0 to {V - 1}")
  return tuple(map(int, tokens))


def compare(
  law: Law, p: Laws, tolerance: float
) -> tuple[float, Failure | None]:
  """Compares the law of what a cycle emits with the target's.

  Returns:
    Total variation, and what is wrong: with the shortest prefix that is too
    likely, or at a uniform of exactly 0. What was not followed counts as wrong,
    unless the law fails without it.
  """
  failure, distance, missing = None, 0.0, float(law.unexplored) / 2
  for chances in _prefixes(law, p):
    excess = {x: chance - wanted for x, (chance, wanted) in chances.items()}
    distance = float(sum(map(abs, excess.values())) / 2)
    if failure is None and distance - missing > tolerance:
      prefix = max(excess, key=lambda x: (excess[x], [-t for t in x]))
      chance, wanted = map(float, chances[prefix])
      failure = Failure(prefix=prefix, chance=chance, wanted=wanted)
  if failure:
    return distance - missing, failure
  for tokens in law.edges:
    for i in range(1, len(tokens) + 1):
      if not _share(p, tokens[:i]):
        fault = "where a uniform is exactly 0 it gives tokens that the target"
        fault += " never does: compare with <, not <="
        return distance, Failure(prefix=tokens[:i], fault=fault)
  return distance + missing, None


def _share(p: Laws, tokens: Sequence[int]) -> Fraction:
  """Returns the target's chance of the last token, given those before."""
  law = [*map(Fraction, p((*CONTEXT, *tokens[:-1])).tolist())]
  return law[tokens[-1]] / sum(law, Fraction(0))


def _prefixes(law: Law, p: Laws) -> Iterator[dict]:
  """Yields the chances of prefixes, of one token more each time.

  What no output goes beyond stays as it is: there the target goes on alone, and
  its difference is that of all that follow together.

  Yields:
    By prefix: its chance, and that under the target.
  """
  begins: dict[tuple, Fraction] = {}
  for tokens, chance in law.chances.items():
    for i in range(len(tokens) + 1):
      begins[tokens[:i]] = begins.get(tokens[:i], Fraction(0)) + chance
  inner = {x[:i] for x in law.chances for i in range(len(x))} | {()}
  # By prefix: the chance that the target came to it after a cycle, or alone.
  level = {(): (Fraction(0), Fraction(1))}
  for _ in range(max(map(len, law.chances), default=1)):
    new = {}
    for x, (after, alone) in level.items():
      if x not in inner:
        new[x] = after, alone
        continue
      after += law.chances.get(x, Fraction(0))
      for token in range(p.V):
        share = _share(p, (*x, token))
        new[*x, token] = after * share, alone * share
    level = new
    yield {
      x: (begins.get(x, Fraction(0)) + after, alone)
      for x, (after, alone) in level.items()
    }


def assert_lossless(program: Callable, **settings) -> None:
  """Fails with the smallest failing case, for somebody's own tests.

  Args:
    program: In one of the contracts.
    **settings: Fields of `Settings`.
  """
  certificate = certify(program, Settings(**settings))
  if not certificate.lossless:
    raise AssertionError(repr(certificate))
