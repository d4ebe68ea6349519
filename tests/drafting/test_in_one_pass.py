"""The engine with single-pass drafts: DSpark and DFlash."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tv_jax
from tests.lib import bad, decoding, quick
from tests.lib.checkpoints import pair
from tests.lib.decoding import PROMPTS, greedy
from tv_jax import tree
from tv_jax.engine.config import Options, decode_config


def generate(kind, prompts=PROMPTS, **options):
  return decoding.generate(kind, prompts, ends=(), **options)


@pytest.mark.parametrize(
  ("kind", "shape", "verifier", "stop"),
  quick.shorter(
    [
      ("dspark", "branching:3,2,1,1", "traversal", 0),
      ("dspark", "branching:2,1,1,1", "traversal", 0.5),
      ("dflash", "kary:2x3", "traversal", 0),
    ]
  ),
)
def test_realised_and_expected_lengths_agree(kind, shape, verifier, stop):
  options = {"tree": shape, "verifier": verifier, "draft_stop": stop}
  options["max_new_tokens"] = 64
  prompts = [[i, i + 1] for i in range(32)]
  result = generate(kind, prompts, batch_size=32, **options)
  assert abs(result.check.mean) < 4 * result.check.error
  assert result.check.error < 0.05
  if stop:  # where it is unsure
    assert generate(kind, temperature=0, **options).tokens == greedy()
    counts = np.unique(np.concatenate(result.drafted))
    assert counts[0] == 0  # of a root that it is not sure of
    assert counts[-1] == len(tree.parse(shape)) - 1
    assert len(counts) > 3


def test_a_confidence_that_is_a_nan_is_a_fault():
  whole = pair("dspark")
  markov = whole.draft.params["markov"]
  undefined = jax.tree.map(lambda x: x * jnp.nan, markov["sure"])
  params = whole.draft.params | {"markov": markov | {"sure": undefined}}
  draft = dataclasses.replace(whole.draft, params=params)
  broken = dataclasses.replace(whole, draft=draft)
  with pytest.warns(RuntimeWarning, match="a confidence were NaN"):
    result = tv_jax.generate(
      broken, [[1, 2]], tree="chain:2", draft_stop=0.5, max_new_tokens=4
    )
  assert result.faults == result.cycles
  # It is not sure of any node.
  assert not np.concatenate(result.drafted).any()


@pytest.mark.parametrize(
  ("kind", "stop", "words"),
  [
    ("dflash", 0.4, "has no confidence head"),
    ("dspark", 1, "draft_stop=1: give a number from 0 to 1, but not 1"),
  ],
)
def test_a_stop_that_cannot_be_is_refused(kind, stop, words):
  with bad.refused("draft_stop=", words):
    generate(kind, draft_stop=stop)


def test_the_cache_keeps_only_tokens_that_the_target_processed():
  """After a prompt and after a cycle: rows of all tokens but the root."""
  config = decode_config(pair("dspark"), Options(tree="chain:3", ends=()))
  batch = decoding.batch_of(pair("dspark"), config)
  lengths = np.array(batch.state.length)
  np.testing.assert_array_equal(
    batch.state.caches.draft.length, lengths - 2 + (lengths == 1)
  )
  batch.step()
  # The features of the new tokens are still to be read.
  np.testing.assert_array_equal(batch.state.caches.draft.length, lengths - 1)


def test_a_deeper_tree_is_refused():
  with bad.refused("tree='chain:5' has 5 levels", "this draft has 4 at most"):
    generate("dspark", tree="chain:5")
