"""Faults that small vocabularies hide: a third sibling's, and of long tails."""

import functools

import jax.numpy as jnp
import pytest

from tv_jax import certify, tree
from tv_jax.certify import plan
from tv_jax.verifiers import DOWN, Verifier, token_level

WITHOUT = "without_replacement"


def cut(laws):
  """The 50 likeliest tokens, as samplers have it by default."""
  least = jnp.sort(laws, axis=-1)[..., -50:][..., :1]
  kept = jnp.where(laws < least, 0, laws)
  return kept / kept.sum(axis=-1, keepdims=True)


def faulty(fault, tree, proposal, tokens, q, p):
  if fault == "draft cut":
    return token_level.offers(tree, proposal, tokens, cut(q), p)
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
    ("draft cut", "chain:1"),
  ],
)
def test_the_usual_rows_show_faults_of_rules(fault, shown, x64):
  for shape, tokens in plan.USUAL.items():
    if shape == "eagle":  # sampled
      continue
    own = certify.Settings(cases=9, vocabulary=tokens)
    found = certify.check(rule(fault), WITHOUT, shape, own)
    assert found.vocabulary == tokens
    assert found.lossless == (shape != shown), shape
    assert found.verdict == ("NOT LOSSLESS" if shape == shown else "LOSSLESS")
    if shown == shape == "chain:1":  # the laws of 65 contexts are not printed
      assert len(certify.spell_out(found.failure).splitlines()) < 8


def test_a_last_sibling_without_a_choice_is_refused_or_given_one():
  for proposal in (WITHOUT, "top_k", "sample_then_top"):
    own = certify.Settings(cases=1, vocabulary=3)
    with pytest.raises(ValueError, match=r"no choice among 3 tokens.*give 4"):
      certify.check("token_level", proposal, "branching:3", own)
  own = certify.Settings(cases=1)
  assert own.tokens(tree.parse("branching:3")) == 5
