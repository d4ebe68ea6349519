"""Rows that take the next prompt give what batches give; their observers."""

import functools

import jax
import numpy as np
import pytest

import tv_jax
from tests.lib.checkpoints import pair
from tests.lib.decoding import PROMPTS
from tv_jax import replay
from tv_jax.engine import programs
from tv_jax.engine.config import Options, decode_config
from tv_jax.engine.decode import Batch, Prompt, decode
from tv_jax.engine.state import continuation
from tv_jax.proposals import INVALID
from tv_jax.replay import recording
from tv_jax.runs.timing import time_in_turn

# Prompts differ in length, so that rows do not end in starting order.
TOKENS = [*PROMPTS, [9, 9], [40, 41], [7] * 9, [33, 2, 1], [47] * 16]
LIMITS = [24, 1, 9, 17, 3, 24, 2, 0, 12]
ITEMS = [3, 1, 4, 15, 9, 2, 6, 5, 2**32 - 1]
ASKED = [*map(Prompt, TOKENS, ITEMS, LIMITS)]


def config(kind="independent", **options):
  options = {"tree": "kary:2x2", "panel": ("token_level",), **options}
  return decode_config(pair(kind), Options(max_new_tokens=24, **options))


def one_by_one(kind, how, prompts=ASKED, size=2):
  """Each prompt alone, in new slots."""
  found = []
  for prompt in prompts:
    batch = Batch(pair(kind), how, size, 16)
    batch.insert([prompt], 0)
    batch.advance(size)
    found.append(continuation(jax.device_get(batch.state.records), 0))
  return found


def same(ours, theirs):
  assert len(ours) == len(theirs)
  for one, other in zip(ours, theirs, strict=True):
    jax.tree.map(np.testing.assert_array_equal, one, other)


@pytest.mark.parametrize(
  ("kind", "options"),
  [
    ("dspark", {}),
    pytest.param(
      "independent", {"verifier": "plain", "panel": ()}, marks=pytest.mark.long
    ),
    pytest.param("eagle", {}, marks=pytest.mark.long),
    pytest.param(
      "self",
      {"tree": "chain:4", "among": ("block", "traversal"), "temperature": 0.6},
      marks=pytest.mark.long,
    ),
  ],
)
def test_rows_equal_prompts_decoded_alone(kind, options):
  """Also in the slots of a batch that was given up, and again."""
  how = config(kind, **options)
  batch = Batch(pair(kind), how, 2, 16)
  next(decode(batch, ASKED))
  alone = one_by_one(kind, how)
  for _ in range(2):
    same([*decode(batch, ASKED)], alone)


def test_a_row_does_not_wait_for_another():
  """One row decodes a long answer while the other decodes all short answers.

  Fixed batches of two would need 24, 6 and 6 cycles.
  """
  how = decode_config(
    pair(), Options(verifier="plain", max_new_tokens=24, ends=())
  )
  limits, calls = [24, 6, 6, 6, 6], []
  asked = [Prompt([i], i, limit) for i, limit in enumerate(limits)]
  batch = Batch(pair(), how, 2, 1)
  for own in decode(batch, asked):
    calls.append(len(own.gained))
  assert calls == limits

  watched = Batch(pair(), how, 2, 1)
  cycles = []

  def step(batch):
    cycles.append(batch.items.tolist())
    batch.step()

  same([*decode(watched, asked, step)], [*decode(batch, asked)])
  assert cycles == [[0, item] for item in (1, 2, 3, 4) for _ in range(6)]


def test_each_config_is_compiled_once_though_all_are_timed_in_turn(monkeypatch):
  """However many there are: the cache of programs holds fewer."""
  programs.forget_programs()
  small = functools.lru_cache(maxsize=2)(programs._compile.__wrapped__)
  monkeypatch.setattr(programs, "_compile", small)
  configs = {
    temperature: decode_config(
      pair(),
      Options(verifier="plain", temperature=temperature, max_new_tokens=6),
    )
    for temperature in (0, 1)
  }
  prompts = [Prompt([5, 3], 0, 6), Prompt([7], 1, 6)]
  answers, compiling = time_in_turn(pair(), configs, prompts)
  assert small.cache_info().misses == 2 * len(configs)
  for name, config in configs.items():
    assert compiling[name] > 0
    same(
      [answer.continuation for answer in answers[name]],
      [*decode(Batch(pair(), config, 1, 2), prompts)],
    )
    assert all(0 < answer.cycles < answer.seconds for answer in answers[name])


def test_an_interrupt_leaves_the_recorded_cycles(tmp_path, monkeypatch):
  path, count = tmp_path / "run.npz", []
  keep = recording.Recording.keep

  def interrupted(self, *arguments):
    keep(self, *arguments)
    count.append(1)
    if len(count) == 4:
      raise KeyboardInterrupt

  monkeypatch.setattr(recording.Recording, "keep", interrupted)
  options = {"tree": "branching:2,1", "max_new_tokens": 12, "batch_size": 2}
  with pytest.raises(KeyboardInterrupt):
    tv_jax.record(pair(), PROMPTS, path, Options(ends=(), **options))
  cycles = replay.load(path)
  assert len(cycles) == 8  # of two rows
  assert not cycles.meta["complete"]
  assert [file.name for file in tmp_path.iterdir()] == ["run.npz"]


def test_cycles_with_a_nan_are_left_out():
  cycles = recording.Recording(decode_config(pair(), Options(tree="chain:1")))
  laws = np.full((4, 1, 4), 0.25, np.float32)
  broken = laws.copy()
  broken[1, 0, 2] = np.nan
  active = np.array([True, True, True, False])
  arrays = {
    "item": np.array([4, 5, 6, 7]),
    "cycle": np.zeros(4, int),
    "tokens": np.array([[INVALID, 2]] * 4, np.int32),
    "q": laws,
    "p": broken,
    "accepted": np.array([1, 1, 1, 0], np.int32),
  }
  cycles.keep(active, arrays)
  assert cycles.cycles({}).item.tolist() == [4, 6]
  assert cycles.left_out == 1


def test_runs_that_cannot_be_recorded_are_refused(tmp_path):
  path = tmp_path / "run.npz"
  with pytest.raises(ValueError, match=r"^plain, .*: give a rule"):
    tv_jax.record(pair(), PROMPTS, path, Options(verifier="plain"))
  with pytest.raises(ValueError, match="there is no folder"):
    tv_jax.record(pair(), PROMPTS, tmp_path / "none" / "run.npz")
  assert not path.exists()
  path.write_text("an older run")
  with pytest.raises(ValueError, match="exists: remove it"):
    tv_jax.record(pair(), PROMPTS, path)
  assert path.read_text() == "an older run"
