"""Faults that small vocabularies hide: a third sibling's, and of long tails."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import commands
from tv_jax import certify, tree
from tv_jax.certify import plan, programs
from tv_jax.certify.programs import Settings
from tv_jax.verifiers import DOWN, Verifier, token_level

WITHOUT = "without_replacement"


def cut(laws):
  """The 50 likeliest tokens, as samplers have it by default."""
  xp = jnp if isinstance(laws, jax.Array) else np
  least = xp.sort(laws, axis=-1)[..., -50:][..., :1]
  kept = xp.where(laws < least, 0, laws)
  return kept / xp.maximum(kept.sum(axis=-1, keepdims=True), 1e-300)


def faulty(fault, tree, proposal, tokens, q, p):
  sound = token_level.offers(tree, proposal, tokens, q, p)
  third = jnp.asarray(tree.rank) == 2
  if fault == "third doubled":
    chance = jnp.where(third, 2 * sound.chance, sound.chance)
    return sound._replace(chance=jnp.minimum(chance, 1))
  if fault == "third taken":
    chance = jnp.where(third & sound.offered, 1, sound.chance)
    return sound._replace(chance=chance)
  if fault == "bonus cut":
    return sound._replace(residual=lambda node: cut(sound.residual(node)))
  return sound


def rule(fault):
  return Verifier(
    name="faulty", offers=functools.partial(faulty, fault), walk=DOWN
  )


@pytest.mark.parametrize(
  ("fault", "shown"),
  [
    ("", ""),
    ("third doubled", "branching:3"),
    ("third taken", "branching:3"),
    ("bonus cut", "chain:1"),
  ],
)
def test_the_usual_rows_show_faults_of_rules(fault, shown, x64):
  for shape, tokens in plan.USUAL.items():
    if shape == "eagle":  # sampled
      continue
    own = certify.Settings(cases=4, vocabulary=tokens)
    found = certify.check(rule(fault), WITHOUT, shape, own)
    assert found.vocabulary == tokens
    assert found.lossless == (shape != shown), shape
    assert found.verdict == ("NOT LOSSLESS" if shape == shown else "LOSSLESS")
    if shown == shape == "chain:1":  # the laws of 65 contexts are not printed
      assert found.failure
      assert len(certify.spell_out(found.failure).splitlines()) < 8


def test_a_last_sibling_without_a_choice_is_refused_or_given_one():
  for proposal in (WITHOUT, "top_k", "sample_then_top"):
    own = certify.Settings(cases=1, vocabulary=3)
    with pytest.raises(ValueError, match=r"no choice among 3 tokens.*give 4"):
      certify.check("token_level", proposal, "branching:3", own)
  own = certify.Settings(cases=1)
  assert own.tokens(tree.parse("branching:3")) == 5


def siblings(p, q, context, rng, fault=""):
  """A cycle of up to three siblings without replacement."""
  left, law = p(context), q(context)
  for rank in range(min(3, np.count_nonzero(law))):
    law = law / law.sum()
    token = int(rng.choice(len(law), p=law))
    chance = left[token] / law[token]
    if rank == 2 and fault == "third doubled":
      chance *= 2
    if rng.random() < chance or (rank == 2 and fault == "third taken"):
      return [token]
    left = np.maximum(left - law, 0)
    left, law[token] = left / left.sum(), 0
  return [int(rng.choice(len(left), p=left))]


def one(p, q, context, rng, fault=""):
  """A cycle of one drafted token."""
  law, target = q(context), p(context)
  token = int(rng.choice(len(law), p=cut(law) if "draft" in fault else law))
  if rng.random() * law[token] >= target[token]:
    left = np.maximum(target - law, 0)
    return [int(rng.choice(len(left), p=left / left.sum()))]
  after = p((*context, token))
  after = cut(after) if "bonus" in fault else after
  return [token, int(rng.choice(len(after), p=after))]


def verify(tree, tokens, q, p, rng, fault="", replaced=False):
  """Siblings in turn, as SpecInfer does; of the root alone."""
  left, law = p[0].copy(), q[0].copy()
  for rank, node in enumerate(range(1, tree.parents.count(0) + 1)):
    twice = 1 + (rank == 2 and fault == "third doubled")
    token = tokens[node]
    if rng.random() * law[token] < left[token] * twice:
      after = cut(p[node]) if "bonus" in fault else p[node]
      return [node], int(rng.choice(len(after), p=after))
    left = np.maximum(left - law, 0)
    left = left / left.sum()
    if not replaced:
      law[token] = 0
      law = law / law.sum()
  return [], int(rng.choice(len(left), p=left))


@pytest.mark.parametrize(
  ("program", "kind", "fault", "shown"),
  [
    (siblings, "cycle", "", 0),
    (siblings, "cycle", "third doubled", 5),
    (siblings, "cycle", "third taken", 5),
    (one, "cycle", "", 0),
    (one, "cycle", "bonus cut", 64),
    (one, "cycle", "draft cut", 64),
    (verify, "verify", "third doubled", 5),
    (verify, "verify", "bonus cut", 64),
  ],
)
def test_the_usual_cases_show_faults_of_programs(program, kind, fault, shown):
  faulty_program = functools.partial(program, fault=fault)
  found = programs.certify(faulty_program, kind, Settings(cases=8))
  assert found.lossless == (not shown), repr(found)
  told = repr(found).splitlines()[0]
  assert "8 cases of 3 tokens" in told
  if shown:
    assert found.failure
    assert shown == found.failure.laws[0].V
    assert f" of {shown}, " in told


def test_how_siblings_are_drawn_is_asked_and_said():
  replaced = functools.partial(verify, replaced=True)
  for drawn, right in (
    ("without_replacement", verify),
    ("with_replacement", replaced),
  ):
    for program in (verify, replaced):
      own = Settings(tree="branching:2", proposal=drawn, cases=8)
      found = programs.certify(program, "verify", own)
      assert found.lossless == (program is right), repr(found)
      assert f"siblings drawn {drawn}," in repr(found).splitlines()[0]
  with pytest.raises(ValueError, match="a cycle is not told how siblings"):
    programs.certify(one, "cycle", Settings(proposal="top_k"))


def test_a_last_sibling_of_a_program_has_a_choice_too():
  own = Settings(tree="branching:3", vocabulary=3)
  with pytest.raises(ValueError, match=r"no choice among 3.*give 4 or more"):
    programs.certify(verify, "verify", own)
  wide = functools.partial(verify, fault="third doubled")
  found = programs.certify(wide, "verify", Settings(tree="branching:3"))
  assert found.failure
  assert found.failure.laws[0].V == 5


def test_the_third_siblings_fault_is_told_by_the_command():
  program = "--program=tests.test_blind:siblings_doubled"
  done = commands.run(program, "--kind=cycle", program="tv_jax.certify")
  assert done.returncode == 1, done.stderr
  assert "tokens a b c d" in done.stdout
  done = commands.run(
    "--program=tests.test_blind:verify",
    "--proposals=with_replacement",
    "--trees=branching:2",
    program="tv_jax.certify",
  )
  assert done.returncode == 1, done.stderr
  assert "siblings drawn with_replacement" in done.stdout


siblings_doubled = functools.partial(siblings, fault="third doubled")
