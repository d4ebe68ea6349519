"""The number of cache slots, and the message if memory is short."""

import dataclasses
import functools

import jax
import pytest

import tv_jax
from tests.lib import checkpoints
from tv_jax.engine import decode, programs
from tv_jax.engine.pair import Pair


@pytest.fixture(scope="module")
def pair():
  config = checkpoints.tiny(max_position_embeddings=2**30)
  target = checkpoints.ours(config)
  draft = checkpoints.ours(dataclasses.replace(config, num_hidden_layers=1))
  return Pair(target=target, draft=draft)


@pytest.mark.parametrize(
  ("options", "fewer"),
  [
    ({"verifier": "plain"}, 12),
    # The last cycle ends beyond the limit.
    pytest.param({"tree": "chain:2"}, 14, marks=pytest.mark.long),
  ],
)
def test_no_slot_is_needed_that_is_not_counted(
  pair, options, fewer, monkeypatch
):
  # XLA moves a write beyond the last slot back, over rows that are still read.
  # The longest prompt and answer need every slot: `fewer` slots change them.
  pair = dataclasses.replace(pair, draft=pair.target)  # whole paths are kept
  texts = [[*range(1, 17)], [5, 3, 2], [7], [1, 2, 3, 4, 5, 6, 7, 8]]

  def found(slots):
    monkeypatch.setattr(decode, "cache_slots", slots)
    result = tv_jax.generate(
      pair,
      texts,
      max_new_tokens=16,
      temperature=0,
      ends=(),
      batch_size=3,
      **options,
    )
    assert [len(own) for own in result.tokens] == [16] * 4
    return result.tokens

  def counted(*arguments, less=0):
    with monkeypatch.context() as patch:
      patch.setattr(decode, "_CPU_BLOCK", 1)
      return cache_slots(*arguments) - less

  cache_slots = decode.cache_slots
  ample = found(lambda *_: 512)
  assert found(counted) == ample
  assert found(functools.partial(counted, less=fewer)) != ample


@pytest.mark.parametrize(
  ("words", "kind", "match"),
  [
    ("RESOURCE_EXHAUSTED: 9\nGB", ValueError, "out of memory .*: choose"),
    ("INTERNAL: x", jax.errors.JaxRuntimeError, "INTERNAL"),
  ],
)
def test_what_runs_out_of_memory(pair, monkeypatch, words, kind, match):
  def run(*_):
    raise jax.errors.JaxRuntimeError(words)

  monkeypatch.setattr(programs, "program", lambda *_, **__: run)
  with pytest.raises(kind, match=match) as error:
    tv_jax.generate(pair, [[1, 2, 3]], tree="chain:2", max_new_tokens=4)
  assert "\n" not in str(error.value)
