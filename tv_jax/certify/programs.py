"""Certifies a program: compares its exact output law with the target's.

A program is a Python function in one of two contracts (contracts.py). It runs
as a cycle on random laws. Its output, continued by the target alone, must have
the target's law on all prefixes. `assert_lossless` is a certificate for tests.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from tv_jax import proposals
from tv_jax.certify import certificate, trials, words, worlds
from tv_jax.certify.contracts import (
  CONTEXT,
  FLOAT32,
  Settings,
  as_cycle,
  is_cycle,
)
from tv_jax.certify.dice import ExploreError, Law, explore
from tv_jax.certify.trials import Laws, Trial
from tv_jax.io.errors import UserError
from tv_jax.proposals import WITHOUT_REPLACEMENT
from tv_jax.tree import Tree

_VERDICTS = ("LOSSLESS", "UNDECIDED", "NOT LOSSLESS")
_BUT_FOR = ", but for a coin that is exactly 0"


class WrongPrefix(NamedTuple):
  """A prefix whose probability differs from the target's."""

  prefix: tuple[int, ...]  # the shortest; among several, the largest excess
  chance: float  # its probability
  wanted: float  # its probability under the target


class Case(NamedTuple):
  """The result of running a program with one pair of laws."""

  laws: tuple[Laws, Laws]  # the target's and the draft's
  law: Law  # the output's
  distance: float  # total variation, see `compare`
  failure: WrongPrefix | None
  closed: tuple[int, ...] = ()  # a forbidden prefix, see `_closed`
  tree: Tree | None = None  # of a verifier

  def verdict(self, settings: Settings) -> str:
    """Returns an entry of `_VERDICTS`."""
    if self.failure:
      return "NOT LOSSLESS"
    near = self.distance <= settings.allowed and self.law.blur <= FLOAT32
    return "LOSSLESS" if near else "UNDECIDED"

  def __repr__(self) -> str:
    """Shows the laws, and a prefix with a wrong probability."""
    p, q = self.laws
    prefix = self.failure.prefix if self.failure else self.closed
    alphabet = " ".join(map(words.name, range(p.V)))
    tree = f"{words.tree(self.tree)}, " if self.tree else ""
    lines = [f"  {tree}tokens {alphabet}, laws of kind {p.kind!r}"]
    for path in words.paths(p.V, max(len(prefix), 2), prefix):
      after = (*CONTEXT, *path)
      lines.append(words.laws(path, p(after), q(after)))
    if self.failure:
      begins = words.begins(*self.failure)
      lines.append(f"{begins}; total variation {self.distance:.2g}")
    elif self.closed:
      lines.append(
        f"  the output begins {words.word(prefix)}, which the target never"
        " does, if a uniform is exactly 0"
      )
    return "\n".join(lines)


class Certificate(NamedTuple):
  """The result of running a program with all laws."""

  verdict: str  # an entry of `_VERDICTS`
  cases: list[Case]  # in the order of their runs
  smallest: Case | None  # the clearest failing case
  closed: Case | None  # the smallest case that shows a <= on a coin
  notes: list[str]  # lines about the trees and the cases left out

  @property
  def lossless(self) -> bool:
    """Whether the verdict is LOSSLESS."""
    return self.verdict == "LOSSLESS"

  @property
  def distance(self) -> float:
    """The largest total variation of all cases, `smallest` included."""
    failing = [self.smallest] if self.smallest else []
    return max(case.distance for case in [*self.cases, *failing])

  def __repr__(self) -> str:
    """Returns the verdict and the smallest failing case."""
    counts = collections.Counter(case.laws[0].V for case in self.cases)
    several = (f"{n} cases of {V} tokens" for V, n in sorted(counts.items()))
    laws = [case.law for case in self.cases]
    lengths = [len(x) * y for law in laws for x, y in law.chances.items()]
    only_closed = self.closed and not self.smallest
    lines = [
      f"{self.verdict}{_BUT_FOR * bool(only_closed)}:"
      " total variation"
      f" {self.distance:.2g} at most in {', '.join(several)},"
      f" {float(sum(lengths)) / len(laws):.3f} tokens a cycle,"
      f" {sum(law.runs for law in laws)} runs",
      *self.notes,
    ]
    if unexplored := max(float(law.unexplored) for law in laws):
      lines.append(
        f"  not followed: paths of weight {unexplored:.2g} at most in a case,"
        " which count as wrong unless the law fails without them"
      )
    if blur := max(float(law.blur) for law in laws):
      lines.append(
        "  tiny numbers that are added to noise, or clamp it, are left out;"
        f" they change the law by {blur:.2g} at most"
      )
    for told, chance in collections.ChainMap(
      *(law.failures for law in laws)
    ).items():
      lines.append(f"remark: with a probability of {float(chance):.1g}, {told}")
    if self.smallest:
      lines += ["smallest failing case:", repr(self.smallest)]
      if self.distance < FLOAT32:
        lines.append(
          "  so little is the rounding of a program that computes in float32:"
          f" with a tolerance of {FLOAT32:g} it is not looked at"
        )
    if self.closed:
      lines += [
        "remark: a coin is compared with <= or >=, where < is right. It matters"
        " if a uniform is exactly 0 (one in 2^24 in float32, one in 2^53 in"
        " float64) and the target forbids a token, as under a grammar; --strict"
        " makes it a failure:",
        repr(self.closed._replace(failure=None)),
      ]
    return "\n".join(lines)


def certify(program: Callable, settings: Settings | None = None) -> Certificate:
  """Certifies a program.

  Args:
    program: A function in one of the contracts. The names of its parameters
      tell the contract.
    settings: How much to try.

  Raises:
    ExploreError: The program cannot be explored; one line tells why and where.
  """
  settings = settings or Settings()
  cycle, proposal = is_cycle(program), proposals.resolve(settings.proposal)
  if cycle and proposal != WITHOUT_REPLACEMENT:
    raise UserError("a cycle is not told how siblings are drawn")
  every, tried, found, runs = trials.plan(cycle, settings), [], [], 0
  for number, trial in enumerate(every):
    case = _case(program, trial, number, settings)
    runs += case.law.runs
    tried.append(case)
    if case.failure or case.closed:
      found.append((trial, case))
    # A small failure may be rounding: further cases may show a real fault.
    failed = case.failure and case.distance > FLOAT32
    if failed or runs > settings.runs:
      break
  # A clear failure, if there is one, is made smaller.
  found.sort(key=lambda pair: pair[1].failure is not None and pair[1].distance)
  cases = [case for _, case in found]
  if found and every[0].V > 2:
    cases += _smaller(program, found[-1][0], settings)
  failing = [case for case in cases if case.failure]
  clear = max((case.distance for case in failing), default=0) / 10
  smallest = _smallest(case for case in failing if case.distance >= clear)
  closed = _smallest(case for case in cases if case.closed)
  notes = [] if cycle else [f"  {trials.told(every)} {settings.proposal}"]
  if not smallest and len(tried) < len(every):
    notes.append(
      f"  {runs} runs were made after {len(tried)} of {len(every)} cases; the"
      f" first {len(worlds.KINDS)} have each kind of laws"
    )
  verdicts = {case.verdict(settings) for case in tried}
  # A slow program was not tried on every kind of laws.
  if len(tried) < sum(trial.needed for trial in every):
    verdicts.add("UNDECIDED")
  if settings.strict and closed:
    verdicts.add("NOT LOSSLESS")
  verdict = max(verdicts, key=_VERDICTS.index)
  if verdict == "UNDECIDED":
    notes.append(_way_out(tried, cycle, settings))
  return Certificate(verdict, tried, smallest, closed, notes)


def _way_out(tried: Sequence[Case], cycle: bool, settings: Settings) -> str:
  """Says which smaller certificate may decide."""
  large = [case for case in tried if case.verdict(settings) == "UNDECIDED"]
  V = max((case.laws[0].V for case in large), default=0)
  if V == trials.WIDE:
    return (
      "  too many paths with 64 tokens (a race of noise is one choice as an"
      " argmax); --vocab=5 leaves these cases out, and with them faults beyond"
      " the 50 likeliest tokens"
    )
  smaller = "--vocab=3" if cycle else "--trees=chain:2 --vocab=3"
  return f"  too many paths: {smaller} has fewer"


def _smallest(cases: Iterable[Case]) -> Case | None:
  """Returns the case with the fewest nodes, tokens and runs."""
  return min(
    cases,
    key=lambda x: (len(x.tree or ()), x.laws[0].V, x.law.runs),
    default=None,
  )


def _case(
  program: Callable, trial: Trial, number: int, settings: Settings
) -> Case:
  V = trial.V
  made_of = trial.kind, V, (settings.seed, number, V)
  p = Laws(*made_of, 0, most=trial.target)
  q = Laws(*made_of, 1, trial.least, trial.draft)
  cycle = as_cycle(program, settings._replace(tree=trial.tree))
  try:
    law = explore(
      lambda rng: _tokens(cycle(p, q, CONTEXT, rng), V),
      budget=settings.runs // (10 if V == trials.WIDE else 1),
    )
  except ExploreError as error:
    if V == 3:
      raise
    raise ExploreError(f"with {V} tokens: {error}") from error.__cause__
  distance, failure = compare(law, p, settings.allowed)
  return Case((p, q), law, distance, failure, _closed(law, p), trial.tree)


def _smaller(program, trial: Trial, settings: Settings) -> Iterator[Case]:
  """Yields failing cases of few tokens and simple fractions.

  The parts of a tree are tried, the smallest first, until one fails clearly or
  the budget is spent.
  """
  trees, left = [trial.tree], settings.runs
  if trial.tree:
    trees[:0] = certificate.parts(trial.tree, range(1, len(trial.tree)))
  for tree in trees:
    widest, clear = tree.max_children if tree else trial.least, False
    grid = Trial(tree, 2 if widest <= 2 else widest + 1, "grid", widest)
    for number in range(8):
      try:
        case = _case(program, grid, number, settings)
      except ExploreError:  # it may need more tokens, or another tree
        break
      left -= case.law.runs
      clear |= case.failure is not None and case.distance > FLOAT32
      if case.failure or case.closed:
        yield case
    if clear or left < 0:
      return


def _tokens(output, V: int) -> tuple[int, ...]:
  """Returns the tokens that a cycle returned."""
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
) -> tuple[float, WrongPrefix | None]:
  """Compares the law of a cycle's output with the target's.

  Returns:
    Total variation, and the shortest prefix that is too likely. Unexplored
    paths count as wrong, unless the explored paths already fail.
  """
  failure, distance, missing = None, 0.0, float(law.unexplored) / 2
  for chances in _prefixes(law, p):
    excess = {x: chance - wanted for x, (chance, wanted) in chances.items()}
    distance = float(sum(map(abs, excess.values())) / 2)
    if failure is None and distance - missing - law.blur > tolerance:
      prefix = max(excess, key=lambda x: (excess[x], [-t for t in x]))
      failure = WrongPrefix(prefix, *map(float, chances[prefix]))
  return distance - missing if failure else distance + missing, failure


def _closed(law: Law, p: Laws) -> tuple[int, ...]:
  """Returns a prefix of probability 0 that a uniform of exactly 0 produces.

  A coin of 0 that is compared with `<=` accepts a forbidden token.
  """
  for tokens in law.edges:
    for i in range(1, len(tokens) + 1):
      if not _share(p, tokens[:i]):
        return tokens[:i]
  return ()


def _share(p: Laws, tokens: Sequence[int]) -> Fraction:
  """Returns the target's probability of the last token, given the others."""
  law = [*map(Fraction, p((*CONTEXT, *tokens[:-1])).tolist())]
  return law[tokens[-1]] / sum(law, Fraction(0))


def _prefixes(law: Law, p: Laws) -> Iterator[dict]:
  """Yields the probabilities of prefixes of 1, 2, .. tokens.

  A prefix that no output extends is not extended: there the target continues
  alone and adds nothing to the difference.

  Yields:
    For each prefix its probability, and its probability under the target.
  """
  begins: dict[tuple, Fraction] = {}
  for tokens, chance in law.chances.items():
    for i in range(len(tokens) + 1):
      begins[tokens[:i]] = begins.get(tokens[:i], Fraction(0)) + chance
  inner = {x[:i] for x in law.chances for i in range(len(x))} | {()}
  # For each prefix: the probability that the target completes it after a cycle,
  # and the probability under the target alone.
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
  """Raises AssertionError with the smallest failing case.

  Args:
    program: A function in one of the contracts.
    **settings: Fields of `Settings`.
  """
  certificate = certify(program, Settings(**settings))
  if not certificate.lossless:
    raise AssertionError(repr(certificate))
