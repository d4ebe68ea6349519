"""Faults that small vocabularies hide: a third sibling's, and of long tails."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest

from tests.lib.samplers import by_choice, chain, cut, verify
from tv_jax import certify, tree
from tv_jax.certify.plan import USUAL
from tv_jax.verifiers import DOWN, VERIFIERS, Verifier

WITHOUT = "without_replacement"


def likeliest(law):
  return jnp.where(law < jnp.sort(law)[-50:][0], 0, law)


def test_a_rule_that_cuts_the_bonus_shows_with_64_tokens(x64):
  def offers(draft):
    sound = VERIFIERS["token_level"].offers(draft)
    return sound._replace(residual=lambda node: likeliest(sound.residual(node)))

  cut = Verifier(name="cut", offers=offers, walk=DOWN)
  own = certify.Settings(cases=4, vocabulary=USUAL["chain:1"])
  found = certify.check(cut, WITHOUT, "chain:1", own)
  assert found.verdict == "NOT LOSSLESS"
  assert len(repr(found).splitlines()) < 8  # not the laws of 65 contexts


def test_a_last_sibling_without_a_choice_is_refused_or_given_one():
  told = r"no choice among 3 tokens.*give 4"
  own = certify.Settings(vocabulary=3)
  with pytest.raises(ValueError, match=told):
    certify.check("token_level", WITHOUT, "branching:3", own)
  with pytest.raises(ValueError, match=told):
    certify.check_program(verify, tree="branching:3", vocabulary=3)
  assert certify.Settings().tokens(tree.parse("branching:3")) == 5


def draw_of_few(rng, law):
  return by_choice(rng, cut(law))


def siblings(p, q, context, rng, fault=""):
  """A cycle of up to three siblings without replacement."""
  left, law = p(context), q(context)
  for rank in range(min(3, np.count_nonzero(law))):
    law = law / law.sum()
    token = int(rng.choice(len(law), p=law))
    chance = left[token] / law[token]
    if rank == 2 and fault == "third doubled":
      chance *= 2
    if rng.random() < chance:
      return [token]
    left = np.maximum(left - law, 0)
    left, law[token] = left / left.sum(), 0
  return [int(rng.choice(len(left), p=left))]


@pytest.mark.parametrize(
  ("program", "shown"),
  [
    (functools.partial(siblings, fault="third doubled"), 5),
    (functools.partial(chain, levels=1, draw=draw_of_few), 64),
  ],
)
def test_the_usual_cases_show_faults_of_programs(program, shown):
  found = certify.check_program(program, cases=8)
  assert found.verdict == "NOT LOSSLESS"
  assert found.cases[-1].world.vocabulary == shown
  assert found.smallest.world.vocabulary <= shown
  told = repr(found).splitlines()[0]
  assert "8 cases of 3 tokens" in told
  assert f" of {shown} tokens, " in told


@pytest.mark.long
def test_the_three_siblings_are_right():
  assert certify.check_program(siblings, cases=8, vocabulary=5).lossless


def test_how_siblings_are_drawn_is_asked_and_said():
  replaced = functools.partial(verify, bug="with replacement")
  for drawn, right in (
    ("without_replacement", verify),
    ("with_replacement", replaced),
  ):
    for program in (verify, replaced):
      found = certify.check_program(
        program, tree="branching:2", proposal=drawn, cases=8
      )
      assert found.lossless == (program is right), repr(found)
      assert f"siblings, drawn {drawn}\n" in repr(found) + "\n"
  with pytest.raises(ValueError, match="a cycle is not told how siblings"):
    certify.check_program(chain, proposal="top_k")
  # A tree would leave out the cases of 5 and 64 tokens.
  with pytest.raises(ValueError, match="drafts for itself: leave out tree=cha"):
    certify.check_program(chain, tree="chain:2")
