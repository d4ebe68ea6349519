import dataclasses

import jax
import numpy as np
import pytest

import tv_jax
from tests import checkpoints
from tv_jax import replay
from tv_jax.proposals import INVALID, PROPOSALS
from tv_jax.replay import recording
from tv_jax.replay.step import Seen

VOCABULARY = 300  # more than a merged alphabet
PROMPTS = [[5], [1, 2, 3], [4, 5, 6, 7, 8]]
ITEMS = [7, 0, 3]
WANTED = 1e-3  # what merging may move an expected length by
OPTIONS = {
  "tree": "branching:2,1",
  "panel": ("token_level",),
  "max_new_tokens": 12,
  "batch_size": 2,
  "items": ITEMS,
  "ends": (),
}


def make_pair(kind):
  config = checkpoints.tiny(vocab_size=VOCABULARY, num_hidden_layers=1)
  target = checkpoints.ours(config, 0)
  # Logits of a random model are far apart: less so, more is drafted than kept.
  flat = jax.tree.map(lambda x: x, target.params)
  flat["params"]["unembedding"] = flat["params"]["unembedding"] / 4
  target = dataclasses.replace(target, params=flat)
  if kind == "eagle":
    draft = checkpoints.ours_head(target)
  else:
    draft = checkpoints.ours(config, 1)
    draft.params["params"]["unembedding"] /= 4
  return tv_jax.Pair(target=target, draft=draft, draft_kind=kind)


@pytest.fixture(scope="module")
def pairs():
  return {kind: make_pair(kind) for kind in ("independent", "eagle")}


def check_replays(path, result):
  """Replays agree with what the run computed on whole laws."""
  cycles = replay.load(path)
  assert cycles.q.shape[2] == 128 < VOCABULARY
  assert set(cycles.expected) == set(result.expected)
  for name, recorded in cycles.expected.items():
    own = replay.expected_lengths(name, cycles)
    np.testing.assert_allclose(own, recorded, rtol=WANTED)
    assert abs(own.mean() / recorded.mean() - 1) < WANTED
  return cycles


@pytest.mark.long  # a tutorial's run is recorded and replayed in test_docs
@pytest.mark.parametrize(
  ("kind", "proposal"),
  [("independent", "without_replacement"), ("eagle", "sample_then_top")],
)
def test_it_runs_the_cycles_of_generate(pairs, tmp_path, kind, proposal):
  path, options = tmp_path / "run.npz", OPTIONS | {"proposal": proposal}
  result = tv_jax.record(pairs[kind], PROMPTS, path, **options)
  wanted = tv_jax.generate(pairs[kind], PROMPTS, **options)
  assert result.tokens == wanted.tokens
  assert (result.stops == wanted.stops).all()
  cycles = check_replays(path, result)
  assert cycles.meta["complete"]
  assert cycles.meta["draft_kind"] == kind
  assert (cycles.verifier, cycles.proposal.name) == ("traversal", proposal)
  for prompt, item in enumerate(ITEMS):
    own = np.flatnonzero(cycles.item == item)
    assert cycles.cycle[own].tolist() == [*range(len(own))]
    accepted = result.accepted[prompt]
    np.testing.assert_array_equal(accepted, wanted.accepted[prompt])
    np.testing.assert_array_equal(cycles.accepted[own], accepted)
    for name, expected in cycles.expected.items():
      np.testing.assert_allclose(
        expected[own], wanted.expected[name][prompt], rtol=1e-5
      )


@pytest.mark.long
def test_chains_and_truncated_laws_replay(pairs, tmp_path):
  path = tmp_path / "run.npz"
  options = {
    "tree": "chain:2",
    "verifier": "block",
    "proposal": "with_replacement",
    "top_k": 200,
    "temperature": 0.7,
  }
  result = tv_jax.record(
    pairs["independent"], PROMPTS, path, **OPTIONS | options
  )
  cycles = check_replays(path, result)
  assert cycles.verifier == "block"
  assert cycles.proposal == PROPOSALS["with_replacement"]
  assert cycles.temperature == pytest.approx(0.7)


def test_an_interrupt_leaves_what_was_recorded(pairs, tmp_path, monkeypatch):
  path, count = tmp_path / "run.npz", []
  keep = recording._Recording.keep

  def interrupted(self, *arguments):
    keep(self, *arguments)
    count.append(1)
    if len(count) == 4:
      raise KeyboardInterrupt

  monkeypatch.setattr(recording._Recording, "keep", interrupted)
  with pytest.raises(KeyboardInterrupt):
    tv_jax.record(pairs["independent"], PROMPTS, path, **OPTIONS)
  cycles = replay.load(path)
  assert len(cycles) == 8  # of two rows
  assert not cycles.meta["complete"]
  assert [file.name for file in tmp_path.iterdir()] == ["run.npz"]


def test_cycles_with_a_nan_are_left_out(pairs, tmp_path):
  settings = tv_jax.engine.resolve(pairs["independent"], tree="chain:1")
  own = recording._Recording(
    pairs["independent"], 4, settings, tmp_path / "run.npz"
  )
  own.items[:] = 4, 5, 6, 7
  laws = np.full((4, 1, 4), 0.25, np.float32)
  broken = laws.copy()
  broken[1, 0, 2] = np.nan
  seen = Seen(
    active=np.array([True, True, True, False]),
    tokens=np.array([[INVALID, 2]] * 4, np.int32),
    q=laws,
    p=broken,
    parents=None,
    accepted=np.array([1, 1, 1, 0], np.int32),
    expected={"traversal": np.array([1, 1, np.nan, 1], np.float32)},
  )
  own.keep(seen, np.zeros(4, int))
  own.save(complete=True)
  cycles = replay.load(own.path)
  assert cycles.item.tolist() == [4]
  assert cycles.meta["left_out_for_nan"] == 2


def test_what_cannot_be_recorded_is_refused(pairs, tmp_path):
  path, pair = tmp_path / "run.npz", pairs["independent"]
  with pytest.raises(ValueError, match="drafts nothing"):
    tv_jax.record(pair, PROMPTS, path, verifier=None)
  with pytest.raises(ValueError, match="proposal 3: give a name"):
    tv_jax.record(pair, PROMPTS, path, proposal=3)
  with pytest.raises(ValueError, match="there is no folder"):
    tv_jax.record(pair, PROMPTS, tmp_path / "none" / "run.npz")
  with pytest.raises(ValueError, match="max_new_tokens=0"):
    tv_jax.record(pair, PROMPTS, path, max_new_tokens=0)
  assert not path.exists()
  path.write_text("an older run")
  with pytest.raises(ValueError, match="exists: remove it"):
    tv_jax.record(pair, PROMPTS, path)
  assert path.read_text() == "an older run"
