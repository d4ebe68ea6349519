"""Is somebody's program lossless? Its exact output law, on laws of our own.

A program is a Python function in one of three contracts (`KINDS`). All are
certified as a cycle: drafts are drawn, something decides, tokens come out. The
output, gone on with by the target, must have the target's law on all prefixes.
`assert_lossless` is this in a test of somebody's own.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from tv_jax import proposals
from tv_jax.certify import cases, words
from tv_jax.certify.contracts import (
  CONTEXT,
  KINDS,
  Laws,
  Settings,
  fixed_tree,
  kind_of,
)
from tv_jax.certify.dice import ExploreError, Law, explore
from tv_jax.proposals import WITHOUT_REPLACEMENT

# How long a case may take that can be left out.
_OPTIONAL_SECONDS = 10.0
# What rounding in single precision may do to a law.
FLOAT32 = 1e-6
USUAL = Settings()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Failure:
  """A case in which the output's law is not the target's.

  Attributes:
    laws: The target's and the draft's.
    distance: Total variation.
    prefix: The shortest that is too likely, by most.
    found: Its chance.
    wanted: Its chance under the target.
    fault: What is wrong besides the law, in words.
  """

  laws: tuple[Laws, Laws]
  distance: float
  prefix: tuple[int, ...]
  found: float
  wanted: float
  fault: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Certificate:
  """What was found of a program.

  Attributes:
    verdict: "LOSSLESS", "NOT LOSSLESS" or "UNDECIDED".
    distance: The largest total variation.
    length: Tokens a cycle, the mean over cases.
    proposal: How siblings were drawn; empty: by the program itself.
    tokens: How many cases were tried, by the vocabulary.
    left_out: Cases of a large vocabulary that were not followed to their end.
    cases: How many were tried.
    asked: How many were to be.
    runs: Of the program.
    seconds: All took.
    unexplored: The largest weight that was not followed, of a case.
    failure: The smallest failing case.
  """

  verdict: str
  distance: float
  length: float
  proposal: str
  tokens: dict[int, int]
  left_out: int
  cases: int
  asked: int
  runs: int
  seconds: float
  unexplored: float
  failure: Failure | None

  @property
  def lossless(self) -> bool:
    """Whether it is."""
    return self.verdict == "LOSSLESS"

  def __repr__(self) -> str:
    """Returns the verdict, and what fails."""
    first, *others = self.tokens.items()
    several = f"{first[1]} cases of {first[0]} tokens"
    several += "".join(f", {count} of {V}" for V, count in others)
    drawn = f", siblings drawn {self.proposal}" * bool(self.proposal)
    lines = [
      f"{self.verdict}: total variation {self.distance:.2g} at most in"
      f" {several}{drawn}, {self.length:.3f} tokens a cycle, {self.runs} runs"
      f" in {self.seconds:.1f} s"
    ]
    if self.left_out:
      lines.append(
        f"  left out: {self.left_out} cases of {_LONG[1]} tokens, too many"
        " paths; a cut to the 50 likeliest may not show"
      )
    if self.failure is None and self.cases < self.asked:
      lines.append(
        f"  time was up after {self.cases} of {self.asked} cases; the first"
        f" {len(cases.KINDS)} have each kind of laws"
      )
    if self.unexplored > 0:
      lines.append(
        f"  not followed: paths of weight {self.unexplored:.2g} at most in a"
        " case, which count as wrong unless the law fails without them"
      )
    if self.failure is not None:
      lines += ["smallest failing case:", spell_out(self.failure)]
      if not self.failure.fault and self.distance < FLOAT32:
        lines.append(
          "  so little is the rounding of a program that computes in float32:"
          f" with a tolerance of {FLOAT32:g} it is not looked at"
        )
    return "\n".join(lines)


def certify(
  program: Callable, kind: str | None = None, settings: Settings = USUAL
) -> Certificate:
  """Certifies a program.

  Args:
    program: In the contract of its kind.
    kind: One of `KINDS`; None: by the names of its parameters.
    settings: How much to try.

  Raises:
    ExploreError: It cannot be explored; in one line, why and where.
  """
  kind = kind or kind_of(program)
  proposal = proposals.resolve(settings.proposal)
  if kind != "verify" and proposal != WITHOUT_REPLACEMENT:
    raise ValueError(f"a {kind} is not told how siblings are drawn")
  worlds = _worlds(kind, settings)
  begin = time.monotonic()
  end = time.process_time() + settings.seconds
  tried: list[_Case] = []
  left_out = 0
  for number, world in enumerate(worlds):
    case = _case(program, kind, world, number)
    if world.optional and not (case.sound or case.failure):
      left_out += 1
      continue
    tried.append(case)
    if case.failure or time.process_time() > end:
      break
  failing = [case for case in tried if case.failure]
  if failing and worlds[0].V > 2:
    failing += _smaller(program, kind, world, end)
  smallest = min(failing, key=lambda x: (x.laws[0].V, x.runs), default=None)
  # Too slow a program has not met every kind of laws.
  enough = len(tried) >= sum(world.needed for world in worlds)
  sound = enough and all(case.sound for case in tried)
  verdict = "LOSSLESS" if sound else "UNDECIDED"
  counts = collections.Counter(case.laws[0].V for case in tried)
  return Certificate(
    verdict="NOT LOSSLESS" if smallest else verdict,
    distance=max(case.distance for case in [*tried, *failing]),
    length=sum(case.length for case in tried) / len(tried),
    proposal="" if kind == "cycle" else proposal.name,
    tokens=dict(sorted(counts.items())),
    left_out=left_out,
    cases=len(tried),
    asked=len(worlds) - left_out,
    runs=sum(case.runs for case in tried),
    seconds=time.monotonic() - begin,
    unexplored=max(case.unexplored for case in tried),
    failure=smallest and smallest.failure,
  )


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


# Trees of a verifier, and tokens, if nothing else is asked for.
_SMALL, _WIDE, _LONG = ("kary:2x2", 3), ("branching:3", 5), ("chain:1", 64)


def _worlds(kind: str, settings: Settings) -> list[_World]:
  """Returns all cases; a third sibling with a choice is in the usual ones."""
  names = [*itertools.islice(itertools.cycle(cases.KINDS), settings.cases)]
  first, rest = names[: len(cases.KINDS)], names[len(cases.KINDS) :]

  def of(tree, V, names, **more):
    own = settings._replace(tree=tree)
    widest = 1 if kind == "cycle" else fixed_tree(own).max_children
    V = V or (3 if widest < 3 else widest + 2)
    if widest >= V:
      raise ValueError(
        f"of {widest} siblings the last may have no choice among {V}"
        f" tokens, so that no fault there shows: give {widest + 1} or more"
      )
    return [_World(own, V, name, widest, **more) for name in names]

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


class _Case(NamedTuple):
  """What was found in one case."""

  laws: tuple[Laws, Laws]
  sound: bool
  distance: float
  length: float
  runs: int
  unexplored: float
  failure: Failure | None


def _case(program: Callable, kind: str, world: _World, number: int) -> _Case:
  settings, V = world.settings, world.V
  made_of = world.kind, V, (settings.seed, number, V)
  p = Laws(*made_of, 0, most=world.target)
  q = Laws(*made_of, 1, world.widest, world.draft)

  def cycle(rng):
    return _tokens(KINDS[kind](program, settings, p, q, CONTEXT, rng), V)

  try:
    law = explore(
      cycle,
      budget=settings.budget,
      seconds=_OPTIONAL_SECONDS if world.optional else settings.seconds,
    )
  except ExploreError as error:
    if _SMALL[1] == V:
      raise
    raise ExploreError(f"with {V} tokens: {error}") from error
  distance, failure = compare(law, p, q, settings.tolerance)
  return _Case(
    laws=(p, q),
    sound=failure is None and distance <= settings.tolerance,
    distance=distance,
    length=float(sum(len(x) * chance for x, chance in law.chances.items())),
    runs=law.runs,
    unexplored=float(law.unexplored),
    failure=failure,
  )


def _smaller(program, kind, world: _World, end: float) -> Iterator[_Case]:
  """Yields failing cases of two tokens and laws that print well."""
  grid = _World(world.settings, 2, "grid", world.widest)
  for number in range(8 if world.widest <= 2 else 0):
    if time.process_time() > end:
      return
    try:
      case = _case(program, kind, grid, number)
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
  law: Law, p: Laws, q: Laws, tolerance: float
) -> tuple[float, Failure | None]:
  """Compares the law of what a cycle emits with the target's.

  Returns:
    Total variation at most, and what is wrong: with the shortest prefix that
    is too likely, or at a uniform of exactly 0.
  """
  worst, distance, missing = None, 0.0, float(law.unexplored) / 2
  for chances in _prefixes(law, p):
    apart = {x: found - wanted for x, (found, wanted) in chances.items()}
    distance = float(sum(map(abs, apart.values())) / 2)
    if worst is None and distance - missing > tolerance:
      prefix = max(apart, key=lambda x: (apart[x], [-t for t in x]))
      worst = prefix, *map(float, chances[prefix])
  if worst is not None:
    distance -= missing
    prefix, found, wanted = worst
    return distance, Failure(
      laws=(p, q), distance=distance, prefix=prefix, found=found, wanted=wanted
    )
  for tokens in law.edges:
    for i in range(1, len(tokens) + 1):
      if not _chance(p, tokens[:i], i - 1):
        fault = "where a uniform is exactly 0 it gives tokens that the target"
        fault += " never does: compare with <, not <="
        return distance, Failure(
          laws=(p, q),
          distance=0.0,
          prefix=tokens[:i],
          found=0.0,
          wanted=0.0,
          fault=fault,
        )
  return distance + missing, None


def _chance(p: Laws, tokens: Sequence[int], begin: int) -> Fraction:
  """Returns the target's chance of tokens from one on, given those before."""
  chance = Fraction(1)
  for i in range(begin, len(tokens)):
    law = [*map(Fraction, p((*CONTEXT, *tokens[:i])).tolist())]
    chance *= law[tokens[i]] / sum(law, Fraction(0))
  return chance


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
        share = _chance(p, (*x, token), len(x))
        new[*x, token] = after * share, alone * share
    level = new
    yield {
      x: (begins.get(x, Fraction(0)) + after, alone)
      for x, (after, alone) in level.items()
    }


def spell_out(failure: Failure) -> str:
  """Tells the case, its laws, and where the output's law goes wrong."""
  p, q = failure.laws
  lines = [
    f"  tokens {' '.join(map(words.name, range(p.V)))}, laws of kind {p.kind!r}"
  ]
  known = {*p.known, *q.known}
  known |= {
    (*x[:-1], token)
    for x in known
    if len(x) > len(CONTEXT)
    for token in range(p.V)
  }
  most = len(CONTEXT) + max(len(failure.prefix), 2)
  for prefix in sorted(known, key=lambda x: (len(x), x)):
    if len(prefix) >= most:
      break
    if p.V > 8 and prefix != (*CONTEXT, *failure.prefix)[: len(prefix)]:
      continue
    lines.append(words.laws(prefix[len(CONTEXT) :], p(prefix), q(prefix)))
  if failure.fault:
    lines.append(f"  {failure.fault}: {words.word(failure.prefix)}")
    return "\n".join(lines)
  begins = words.begins(failure.prefix, failure.found, failure.wanted)
  lines.append(f"{begins}; total variation {failure.distance:.2g}")
  return "\n".join(lines)


def assert_lossless(
  program: Callable, kind: str | None = None, **settings
) -> None:
  """Fails with the smallest failing case, for somebody's own tests.

  Args:
    program: In the contract of its kind.
    kind: As in `certify`.
    **settings: Fields of `Settings`.
  """
  certificate = certify(program, kind, Settings(**settings))
  if not certificate.lossless:
    raise AssertionError(repr(certificate))
