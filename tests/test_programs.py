"""User programs: right programs are certified, planted faults are caught."""

import functools

import numpy as np
import pytest

from examples.faults import (
  closed_coin,
  residual_of_one_token,
  row_after_rejection,
  softmax_residual,
)
from tests import commands
from tv_jax import certify
from tv_jax.certify import programs
from tv_jax.certify.programs import Settings


def by_choice(rng, law):
  return int(rng.choice(len(law), p=law / law.sum()))


def by_inverse(rng, law):
  total = np.cumsum(law)
  return int(np.searchsorted(total / total[-1], rng.random(), side="right"))


def by_gumbel(rng, law):
  with np.errstate(divide="ignore"):
    return int(np.argmax(np.log(law) + rng.gumbel(size=len(law))))


def by_race(rng, law):
  return int(np.argmax(law / rng.exponential(size=len(law))))


def by_ratio(rng, p, q):
  return rng.random() < p / q


def by_product(rng, p, q):
  return not rng.random() * q >= p


def by_log(rng, p, q):
  with np.errstate(divide="ignore"):
    return np.log(rng.random()) < np.log(p) - np.log(q)


def chain(p, q, context, rng, draw=by_choice, accept=by_ratio, levels=2):
  """Speculative sampling as it was published."""
  laws, drafted = [], []
  for _ in range(levels):
    laws.append(q((*context, *drafted)))
    drafted.append(draw(rng, laws[-1]))
  for i, (token, law) in enumerate(zip(drafted, laws, strict=True)):
    target = p((*context, *drafted[:i]))
    if not accept(rng, target[token], law[token]):
      return [*drafted[:i], draw(rng, np.maximum(target - law, 0))]
  return [*drafted, draw(rng, p((*context, *drafted)))]


RIGHT = [
  functools.partial(chain, draw=draw, accept=accept, levels=levels)
  for draw, accept, levels in [
    (by_choice, by_log, 2),
    (by_inverse, by_product, 3),
    (by_gumbel, by_log, 2),
    (by_race, by_ratio, 2),
  ]
]


def token(p, q, context, rng):
  """Does without drafts."""
  return [by_choice(rng, p(context))]


def coupled(p, q, context, rng):
  """Draws draft and target by one noise (Daliri et al. 2024)."""
  drafted, output = [], []
  noises = [rng.exponential(size=len(p(context))) for _ in range(2)]
  for noise in noises:
    drafted.append(int(np.argmax(q((*context, *drafted)) / noise)))
  for i, noise in enumerate(noises):
    output.append(int(np.argmax(p((*context, *output)) / noise)))
    if output[-1] != drafted[i]:
      return output
  return [*output, by_choice(rng, p((*context, *output)))]


RIGHT += [token, coupled]


def name_of(program):
  if not isinstance(program, functools.partial):
    return program.__name__
  return " ".join(
    getattr(x, "__name__", str(x)) for x in program.keywords.values()
  )


@pytest.mark.parametrize("program", RIGHT, ids=name_of)
def test_a_right_program_is_certified(program):
  settings = Settings(cases=16, vocabulary=3)
  certificate = programs.certify(program, settings)
  assert certificate.lossless, repr(certificate)
  assert certificate.distance < 1e-12
  assert len(certificate.cases) == 16


@pytest.mark.parametrize(
  ("fault", "V"),
  [
    (row_after_rejection, 2),
    # Without it, of two tokens one is left, as it should be.
    (residual_of_one_token, 3),
    (closed_coin, 2),
  ],
)
def test_the_smallest_failing_case_is_spelled_out(fault, V):
  certificate = programs.certify(fault.faulty)
  assert certificate.verdict == "NOT LOSSLESS"
  assert V == certificate.smallest.laws[0].V
  report, failure = repr(certificate), certificate.smallest.failure
  assert "smallest failing case:\n  tokens a b" in report
  if fault is closed_coin:
    assert "where a uniform is exactly 0" in report
  else:
    assert failure.chance > failure.wanted + 1e-9
    assert f"variation {certificate.smallest.distance:.2g}" in report


def cut(law):
  """Keeps the 50 likeliest tokens, as samplers have it by default."""
  return np.where(law < np.sort(law)[-50:][0], 0, law)


def verify(tree, tokens, q, p, rng, bug=""):
  """Recursive rejection sampling, from SpecInfer's and EAGLE's papers."""
  node, path = 0, []
  while True:
    target, draft = p[node].copy(), q[node].copy()
    children = [i for i, parent in enumerate(tree.parents) if parent == node]
    for rank, child in enumerate(children):
      x = tokens[child]
      twice = 1 + (rank == 2 and bug == "third doubled")
      if rng.random() * draft[x] < twice * target[x]:
        node = child
        path.append(child)
        break
      target = np.maximum(target - draft, 0)
      target = target / target.sum() if target.sum() else p[node]
      if bug != "with replacement":
        draft[x] = 0
        draft = draft / draft.sum() if draft.sum() else draft
    else:
      if bug == "bonus":
        target = p[node]
      if bug == "bonus cut" and path:
        target = cut(target)
      return np.array(path, int), by_choice(rng, target)


@pytest.mark.parametrize("bug", ["", "with replacement", "bonus"])
def test_a_verifier_of_trees(bug):
  settings = Settings(cases=12, tree="branching:2,1")
  program = functools.partial(verify, bug=bug)
  certificate = programs.certify(program, settings)
  assert certificate.lossless == (not bug), repr(certificate)


def test_what_a_verifier_changes_is_its_own():
  def pops(tree, tokens, q, p, rng):
    del tokens[0]
    for i, x in enumerate(tokens):
      if rng.random() * q[i, x] >= p[i, x]:
        return range(1, i + 1), by_choice(rng, np.maximum(p[i] - q[i], 0))
      q[i] = 0
    return range(1, len(tokens) + 1), by_choice(rng, p[-1])

  certify.assert_lossless(pops, tree="chain:2", cases=4)


def test_long_outputs_are_compared_where_they_differ():
  """All prefixes would be three to the power of 14."""

  def long(p, q, context, rng, last=False):
    output = []
    while len(output) < 14 and not any(output):
      law = q if last and len(output) == 13 else p
      output.append(by_choice(rng, law((*context, *output))))
    return output

  certify.assert_lossless(long, cases=2)
  wrong = functools.partial(long, last=True)
  certificate = programs.certify(wrong, Settings(cases=2, tolerance=0.0))
  assert len(certificate.smallest.failure.prefix) == 14


def test_what_is_not_explored_is_undecided():
  def by_bits(p, q, context, rng):
    bits = [rng.integers(2) for _ in range(60)]
    below = np.cumsum(p(context)) <= sum(
      x / 2**i for i, x in enumerate(bits, 1)
    )
    return [int(below.sum())]

  certificate = programs.certify(by_bits, Settings(cases=1, budget=50))
  assert certificate.verdict == "UNDECIDED"
  assert certificate.distance == 1


def test_a_program_that_meets_few_kinds_of_laws_is_not_certified():
  certificate = programs.certify(token, Settings(seconds=0))
  assert (certificate.verdict, len(certificate.cases)) == ("UNDECIDED", 1)
  assert "time was up after 1 of 30 cases" in repr(certificate)
  with pytest.raises(AssertionError, match="UNDECIDED"):
    certify.assert_lossless(token, seconds=0)


def test_rounding_in_float32_is_told_from_a_fault():
  def cycle(p, q, context, rng):
    target, draft = (law(context).astype(np.float32) for law in (p, q))
    drafted = by_choice(rng, draft)
    if rng.random() < target[drafted] / draft[drafted]:
      return [drafted]
    return [by_choice(rng, np.maximum(target - draft, 0))]

  certificate = programs.certify(cycle, Settings(cases=8))
  assert certificate.verdict == "NOT LOSSLESS"
  assert "rounding of a program that computes in float32" in repr(certificate)
  loose = Settings(cases=8, tolerance=programs.FLOAT32)
  assert programs.certify(cycle, loose).lossless
  assert "float32" not in repr(programs.certify(softmax_residual.faulty))


@pytest.mark.parametrize(
  ("program", "message"),
  [
    (lambda p, q, context, rng: [], r"it returns \[\]: return a list"),
    (lambda p, q, context, rng: [3], r"it returns \[3\]: tokens are 0 to 2"),
    (lambda p, q, context, rng: [q(())], "prefixes begin with the context"),
    (lambda tree, tokens, q, p, rng: ([3], 0), "a child of the root down"),
  ],
)
def test_what_is_no_output_is_refused(program, message):
  with pytest.raises(certify.ExploreError, match=message):
    programs.certify(program)


def test_a_program_in_no_contract_is_refused():
  with pytest.raises(ValueError, match="name its parameters"):
    programs.certify(lambda x: x)


MINE = """
import numpy as np
from random import choices, random

generator = np.random.default_rng(0)

def old_cycle(p, q, context, rng):
  drafted = choices(range(len(q(context))), q(context))[0]
  if random() * q(context)[drafted] < p(context)[drafted]:
    return [drafted]
  left = np.maximum(p(context) - q(context), 0)
  return [generator.choice(len(left), p=left / left.sum())]

def looks_cycle(p, q, context, rng):
  return [int(rng.random() * 3)]
"""


@pytest.mark.long
def test_the_command(tmp_path):
  (tmp_path / "mine.py").write_text(MINE)
  for arguments, status, message in (
    (["mine:old_cycle"], 0, "LOSSLESS: total variation "),
    (
      [
        "tests.test_programs:verify",
        "--proposals=with_replacement",
        "--trees=branching:2",
      ],
      1,
      "siblings drawn with_replacement",
    ),
    (["mine:looks_cycle"], 2, "mine.py, line 15: takes int() of a random num"),
  ):
    program, *rest = arguments
    done = commands.run(
      f"--program={program}", *rest, program="tv_jax.certify", cwd=tmp_path
    )
    assert done.returncode == status, done.stderr
    assert message in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
