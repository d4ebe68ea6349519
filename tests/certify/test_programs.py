"""User programs: right programs are certified, planted faults are caught."""

import functools
import re

import numpy as np
import pytest

from examples.faults import closed_coin, row_after_rejection, softmax_residual
from tests.lib import commands, quick
from tests.lib.samplers import by_choice, chain, verify
from tv_jax import certify
from tv_jax import tree as tree_lib
from tv_jax.certify import certificate as certificate_lib
from tv_jax.certify import plan
from tv_jax.certify.report import FLOAT32
from tv_jax.proposals import WITHOUT_REPLACEMENT


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


@pytest.mark.parametrize("program", [chain, token, coupled])
def test_a_right_program_is_certified(program):
  certificate = certify.check_program(program, cases=16, vocabulary=3)
  assert certificate.lossless, repr(certificate)
  assert certificate.distance < 1e-12
  assert len(certificate.cases) == 16


def test_the_smallest_failing_case_is_spelled_out():
  certificate = certify.check_program(row_after_rejection.faulty)
  assert certificate.verdict == "NOT LOSSLESS"
  assert certificate.smallest.world.vocabulary == 2
  report, failure = repr(certificate), certificate.smallest.prefix
  assert "smallest failing case:\n  tokens a b" in report
  assert failure.chance > failure.wanted + 1e-9
  assert f"variation {certificate.smallest.distance:.2g}" in report


CLOSED = "a coin is compared with <="


def test_a_closed_coin_is_a_remark():
  certificate = certify.check_program(closed_coin.faulty)
  assert certificate.lossless
  assert certificate.smallest is None
  assert len(certificate.cases) == 32  # the search went on
  assert certificate.smallest_at_zero.world.vocabulary == 2
  report = repr(certificate)
  assert report.startswith("LOSSLESS, but for a coin that is exactly 0: total")
  assert CLOSED in report
  assert "the output begins '" in report
  assert "which the target never does, if a uniform is exactly 0" in report
  with pytest.raises(AssertionError, match="NOT LOSSLESS, but for a coin"):
    certify.assert_lossless(closed_coin.faulty, strict=True, cases=8)
  certify.assert_lossless(closed_coin.fixed, strict=True, cases=8)


def test_a_closed_coin_does_not_hide_a_fault():
  def program(p, q, context, rng):
    tokens = closed_coin.faulty(p, q, context, rng)
    return [*tokens, by_choice(rng, p((*context, *tokens)) ** 2)]

  certificate = certify.check_program(program)
  assert certificate.verdict == "NOT LOSSLESS"
  assert certificate.smallest.prefix.chance > 0
  report = repr(certificate)
  assert report.startswith("NOT LOSSLESS: total variation")
  assert report.index("with probability") < report.index(CLOSED)


def test_a_fault_behind_rounding_is_found():
  """Rounding fails first; the search goes on, and the clear case is told."""

  def program(p, q, context, rng):
    law = p(context).astype(np.float32)
    if np.count_nonzero(law) < 2:
      return [0]
    return [by_choice(rng, law)]

  certificate = certify.check_program(program)
  assert certificate.verdict == "NOT LOSSLESS"
  assert certificate.smallest.distance > 0.1
  assert "float32" not in repr(certificate)


def verify_chain(tree, tokens, q, p, rng, power=1):
  """Speculative sampling of a chain, whatever the tree."""
  for i, x in enumerate(tokens[1:]):
    if rng.random() * q[i][x] >= p[i][x]:
      return range(1, i + 1), by_choice(rng, np.maximum(p[i] - q[i], 0))
  return range(1, len(tokens)), by_choice(rng, p[-1] ** power)


def test_a_chain_verifier_is_given_chains():
  """On a tree it is wrong, and may have been meant for trees."""
  with pytest.raises(certify.ExploreError, match="--trees=chain"):
    certify.check_program(verify_chain)
  certificate = certify.check_program(verify_chain, tree="chain")
  assert certificate.lossless
  report = repr(certificate)
  for told in ("cases of 5 tokens", "cases of 64 tokens", "depth 5"):
    assert told in report
  wrong = functools.partial(verify_chain, power=2)
  found = certify.check_program(wrong, tree="chain")
  assert found.verdict == "NOT LOSSLESS"
  assert "case:\n  tree parents:0, tokens a b" in repr(found)


def recovers_at_once(tree, tokens, q, p, rng):
  """Draws the token after each node, as serving engines do, and keeps one."""
  laws = [x if x.any() else p[0] for x in np.maximum(p[:-1] - q[:-1], 0)]
  drawn = [by_choice(rng, law) for law in [*laws, p[-1]]]
  for i, x in enumerate(tokens[1:]):
    if rng.random() * q[i][x] >= p[i][x]:
      return range(1, i + 1), drawn[i]
  return range(1, len(tokens)), drawn[-1]


def test_a_bonus_drawn_after_every_node_of_64_tokens_is_decided(monkeypatch):
  """Two rows of 64 tokens at once would have too many paths."""
  asked = WITHOUT_REPLACEMENT, "chain", certify.Settings()
  every, _ = plan.of_program(False, *asked)
  wide = [x for x in every if x.world.vocabulary == plan.WIDE]
  monkeypatch.setattr(plan, "of_program", lambda *_: (wide, len(wide)))
  assert certify.check_program(recovers_at_once, tree="chain").lossless
  cut_last = functools.partial(verify, bug="bonus cut")
  found = certify.check_program(cut_last, tree="chain")
  assert found.verdict == "NOT LOSSLESS"
  assert found.distance > 0.01


PLACES = ["cut", "bonus 4", "bonus 5"]
FAMILIES = (1, 4), (2, 3), (3, 3), (4, 3), (5, 2), (4, 1), (5, 1)
PLACES += [f"chance {level} {rank}" for level, rank in FAMILIES]


@pytest.mark.parametrize("wrong", quick.shorter(PLACES, keep=1))
def test_a_fault_at_one_place_of_a_usual_tree_is_found(wrong):
  certificate = certify.check_program(functools.partial(verify, bug=wrong))
  assert certificate.verdict == "NOT LOSSLESS"
  assert certificate.smallest.distance > 1e-6
  # The printed tree has the failing place and what it needs, no more.
  level, rank = [*map(int, re.findall(r"\d", wrong)), 1, 1][:2]
  level = 4 if wrong == "cut" else level
  told = re.search(r"tree (\S+), tokens", repr(certificate)).group(1)
  assert len(tree_lib.parse(told)) == level + rank


@pytest.mark.long
def test_the_tree_that_fails_is_made_smaller(monkeypatch):
  """A small failure may be rounding, so further trees are tried after it."""
  made_smaller = []
  monkeypatch.setattr(
    certificate_lib,
    "smaller",
    lambda known, _: made_smaller.append(known) or [],
  )

  def nearly(tree, tokens, q, p, rng):
    path, next_token = verify(tree, tokens, q, p, rng)
    if not len(path) and tree.max_children == 4 and rng.random() < 1e-7:
      next_token = 0
    return path, next_token

  certificate = certify.check_program(nearly)
  assert certificate.verdict == "NOT LOSSLESS"
  assert certificate.cases[-1].tree.max_children == 2
  (known,) = made_smaller
  assert known.tree.max_children == 4


@pytest.mark.long
def test_all_places_of_a_usual_tree_are_tried():
  certificate = certify.check_program(verify)
  assert certificate.lossless
  assert "trees to depth 5" in repr(certificate)


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
  certificate = certify.check_program(wrong, cases=2, tolerance=0.0)
  assert len(certificate.smallest.prefix.tokens) == 14


def test_a_rare_failure_is_a_remark():
  """As in float32, where a residual may be 0 by rounding."""

  def fails(p, q, context, rng, rare):
    if rng.random() < rare:
      raise ValueError("a residual of 0")
    return token(p, q, context, rng)

  settings = {"cases": 8, "tolerance": 1e-6, "vocabulary": 3}
  rarely = functools.partial(fails, rare=1e-7)
  certificate = certify.check_program(rarely, **settings)
  assert certificate.lossless
  report = repr(certificate)
  assert "remark: with a probability of 1e-07, the program fails: " in report
  with pytest.raises(certify.ExploreError, match="a residual of 0"):
    certify.check_program(functools.partial(fails, rare=1e-5), **settings)


def race(p, q, context, rng, most=99):
  """A race of noise over the likeliest tokens, NumPy's idiom."""
  law = p(context)
  kept = np.argsort(-law)[:most]
  return [int(kept[np.argmin(rng.exponential(size=len(kept)) / law[kept])])]


@pytest.mark.filterwarnings("ignore:divide by zero")
def test_a_race_over_64_tokens_is_no_case_too_large():
  certificate = certify.check_program(race)
  assert certificate.lossless
  assert "4 cases of 64 tokens" in repr(certificate)
  cut = certify.check_program(functools.partial(race, most=50))
  assert cut.verdict == "NOT LOSSLESS"


def test_a_case_of_64_tokens_that_is_too_large_is_undecided():
  def pairs(p, q, context, rng):
    laws = np.maximum(p(context), 1e-300)
    noise = [rng.exponential() / x for x in laws.tolist()]
    return [min(range(len(noise)), key=noise.__getitem__)]

  certificate = certify.check_program(pairs)
  assert certificate.verdict == "UNDECIDED"
  assert "--vocab=5 leaves these cases out" in repr(certificate)


def test_what_is_not_explored_is_undecided(monkeypatch):
  def by_bits(p, q, context, rng):
    bits = [rng.integers(2) for _ in range(60)]
    below = np.cumsum(p(context)) <= sum(
      x / 2**i for i, x in enumerate(bits, 1)
    )
    return [int(below.sum())]

  monkeypatch.setattr(certify.Settings, "most_runs", 50)
  certificate = certify.check_program(by_bits, cases=1)
  assert certificate.verdict == "UNDECIDED"
  assert certificate.distance == 1


def test_a_program_that_meets_few_kinds_of_laws_is_not_certified(monkeypatch):
  monkeypatch.setattr(certify.Settings, "most_runs", 10)
  certificate = certify.check_program(token)
  assert (certificate.verdict, len(certificate.cases)) == ("UNDECIDED", 5)
  report = repr(certificate)
  assert "runs were made after 5 of 32 cases; the first 8 have each" in report
  assert "--vocab=3" in report
  with pytest.raises(AssertionError, match=r"of 10 cases\n") as fewer:
    certify.assert_lossless(token, cases=3)
  assert "each kind" not in str(fewer.value)


def test_rounding_in_float32_is_told_from_a_fault():
  def cycle(p, q, context, rng):
    target, draft = (law(context).astype(np.float32) for law in (p, q))
    drafted = by_choice(rng, draft)
    if rng.random() < target[drafted] / draft[drafted]:
      return [drafted]
    return [by_choice(rng, np.maximum(target - draft, 0))]

  certificate = certify.check_program(cycle, cases=8)
  assert certificate.verdict == "NOT LOSSLESS"
  assert "rounding of a program that computes in float32" in repr(certificate)
  assert certify.check_program(cycle, cases=8, tolerance=FLOAT32).lossless
  assert "float32" not in repr(certify.check_program(softmax_residual.faulty))


@pytest.mark.parametrize(
  ("program", "message"),
  [
    (lambda p, q, context, rng: [], r"it returns \[\]: return a list"),
    (lambda p, q, context, rng: [3], r"it returns \[3\]: tokens are 0 to 2"),
    (lambda p, q, context, rng: [q(())], "prefixes begin with the context"),
    (lambda tree, tokens, q, p, rng: ([3], 0), "a child of the root down"),
    (
      lambda tree, tokens, q, p, rng: [1, 3],
      r"it returns \[1, 3\] and not a pair \(path, next token\), as a verify",
    ),
    (lambda tree, tokens, q, p, rng: [], r"and not a pair \(path, next token"),
  ],
)
def test_what_is_no_output_is_refused(program, message):
  with pytest.raises(certify.ExploreError, match=message):
    certify.check_program(program)


@pytest.mark.parametrize("seed", range(16))
def test_draws_that_are_not_seen_do_not_pass_for_a_fault(seed):
  unseen = np.random.default_rng(seed).random

  def verify_one(tree, tokens, q, p, rng):
    if unseen() * q[0][tokens[1]] < p[0][tokens[1]]:
      return [1], by_choice(rng, p[1])
    left = np.maximum(p[0] - q[0], 0)
    return [], by_choice(rng, left / left.sum())

  with pytest.raises(certify.ExploreError, match="numbers that are not seen"):
    certify.check_program(verify_one, tree="chain:1", vocabulary=3)


def test_a_program_in_no_contract_is_refused():
  with pytest.raises(ValueError, match="name its parameters"):
    certify.check_program(lambda x: x)


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
    (["--program=mine:old_cycle"], 0, "LOSSLESS: total variation "),
    (
      [
        "--program=tests.lib.samplers:verify",
        "--proposals=with_replacement",
        "--trees=branching:2",
      ],
      1,
      "to 2 siblings, drawn with_replacement",
    ),
    (
      ["--program=mine:looks_cycle"],
      2,
      "mine.py, line 15: takes int() of a random num",
    ),
    (
      ["--program=mine:old_cycle", "--f32"],
      2,
      "--f32 is for rules, not for --program",
    ),
    (["--strict"], 2, "--strict is for programs: give --program"),
  ):
    done = commands.run(*arguments, program="tv_jax.certify", cwd=tmp_path)
    assert done.returncode == status, done.stderr
    assert message in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
