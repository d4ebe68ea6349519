"""Rows that take the next prompt: what comes out is what batches give."""

import dataclasses

import jax
import numpy as np
import pytest

from tests.test_generation import PROMPTS, pair, whole
from tv_jax import engine
from tv_jax.engine import program, programs

# Of several lengths, so that rows end in another order than they began.
TOKENS = [*PROMPTS, [9, 9], [40, 41], [7] * 9, [33, 2, 1], [47] * 16]
LIMITS = [24, 1, 9, 17, 3, 24, 2, 0, 12]
ITEMS = [3, 1, 4, 15, 9, 2, 6, 5, 2**32 - 1]
ASKED = [*map(engine.Prompt, TOKENS, ITEMS, LIMITS)]


def settings(kind="independent", **options):
  options = {"tree": "kary:2x2", "panel": ("token_level",), **options}
  return engine.resolve(pair(kind), max_new_tokens=24, **options)


def one_by_one(kind, how, prompts=ASKED, size=2):
  """Each prompt in the whole program of a batch, with nobody beside it."""
  run = jax.jit(program.generate, static_argnums=(0, 4))
  found = []
  for tokens, item, limit in prompts:
    params, request, caches, new = whole(
      pair(kind), how, [tokens, *[[]] * (size - 1)], 16
    )
    key = jax.random.fold_in(jax.random.key(how.seed), np.uint32(item))
    request = request._replace(
      keys=request.keys.at[0].set(key), limit=request.limit.at[0].set(limit)
    )
    records, _ = run(how.plan, params, request, caches, new)
    found.append(jax.tree.map(lambda array: np.asarray(array)[:1], records))
  return found


def cut(records):
  """A row's records, as far as they mean anything."""
  kept, cycles = int(records.kept[0]), int(records.cycles[0])
  return dataclasses.asdict(
    dataclasses.replace(
      records,
      tokens=records.tokens[:, :kept],
      accepted=records.accepted[:, :cycles],
      expected={k: v[:, :cycles] for k, v in records.expected.items()},
      trace=None
      if records.trace is None
      else engine.trace_of(records, 0)._asdict(),
    )
  )


def same(ours, theirs):
  assert len(ours) == len(theirs)
  for one, other in zip(ours, theirs, strict=True):
    jax.tree.map(np.testing.assert_array_equal, cut(one), cut(other))


@pytest.mark.parametrize(
  ("kind", "options"),
  [
    ("independent", {"trace": 3}),
    ("independent", {"verifier": None, "panel": ()}),
    pytest.param("eagle", {}, marks=pytest.mark.long),
    pytest.param(
      "independent", {"tree": "adaptive:3,2,2"}, marks=pytest.mark.long
    ),
    pytest.param(
      "self",
      {"tree": "chain:4", "among": ("block", "traversal"), "temperature": 0.6},
      marks=pytest.mark.long,
    ),
  ],
)
def test_it_is_what_each_prompt_gives_alone(kind, options):
  how = settings(kind, **options)
  rows = engine.Rows(pair(kind), 2)
  same([*rows.decode(how, ASKED)], one_by_one(kind, how))


def test_a_row_does_not_wait_for_another():
  """A long answer in one row, and meanwhile all the short ones in the other.

  In batches of two it would be 24 cycles, 6 and 6.
  """
  how = engine.resolve(pair(), verifier=None, max_new_tokens=24, ends=())
  limits, calls = [24, 6, 6, 6, 6], []
  asked = [engine.Prompt([i], i, limit) for i, limit in enumerate(limits)]

  class Watched(engine.Rows):
    def advance(self, run, request, state, *, full):
      after = super().advance(run, request, state, full=full)
      calls.append(int(np.max(after.records.cycles)))
      return after

  found = [*Watched(pair(), 2).decode(how, asked)]
  assert [int(own.cycles[0]) for own in found] == limits
  # The long one's cycles when each short one ends, and its own last.
  assert calls == [6, 12, 18, 24]


def test_they_come_in_order_as_soon_as_they_can():
  how, told = settings(), []
  for own in engine.Rows(pair(), 3).decode(how, ASKED):
    told.append(int(own.kept[0]))
    assert told[-1] <= LIMITS[len(told) - 1]
  assert len(told) == len(ASKED)


def test_fewer_prompts_than_rows():
  how, few = settings(), ASKED[:1]
  rows = engine.Rows(pair(), 4)
  same([*rows.decode(how, few, 16)], one_by_one("independent", how, few, 4))


def test_what_is_left_in_the_middle_leaves_nothing_behind():
  """Rows of another method, begun where one was given up, and again."""
  how = settings()
  rows = engine.Rows(pair(), 2)
  next(rows.decode(how, ASKED))
  first, again = ([*rows.decode(how, ASKED)] for _ in range(2))
  assert rows.caches is not None
  same(first, again)
  same(first, one_by_one("independent", how))


def test_nothing_is_compiled_or_traced_twice(monkeypatch):
  how = settings()
  programs.compile.cache_clear()
  rows = engine.Rows(pair(), 2)
  [*rows.decode(how, ASKED)]
  assert rows.compile_seconds > 0
  assert programs.compile.cache_info().misses == 2

  def fail(*_, **__):
    raise AssertionError("traced again")

  for name in ("prefill", "seat", "advance"):
    monkeypatch.setattr(f"tv_jax.engine.program.{name}", fail)
  assert len([*rows.decode(how, ASKED)]) == len(ASKED)
  assert programs.compile.cache_info().misses == 2
