"""DSpark and DFlash against outputs of the published code."""

import json
import pathlib

import jax
import numpy as np
import pytest

import tv_jax
from tv_jax.drafting import drafter_of, passes

# Outputs of the published code by kind of draft: deepseek-ai/DeepSpec at
# afdfa7c, torch 2.13 on a CPU, float32, transformers 5.23 (its `crop` takes the
# number of removed entries; the call was adapted). A tiny random Qwen3 target
# and a draft were loaded from our files by name, with no tensor missing or left
# over. `generate_decoding_sample` ran with `Qwen3DSparkEvaluator`'s functions
# at temperature 0 for 24 new tokens. `ids` includes the prompt. `accepted` and
# `drafted` have an entry for each cycle. The draft's logits and confidences are
# kept for the first three cycles.
FOLDER = pathlib.Path(__file__).parent / "dspark_golden"
GOLDEN = json.loads(FOLDER.with_suffix(".json").read_text())


def load(name):
  """Loads the pair with the draft of this name."""
  return tv_jax.load(FOLDER / "target", FOLDER / name)


@pytest.mark.parametrize("name", GOLDEN)
def test_published_numbers_are_ours(name):
  pair, rows = load(name), GOLDEN[name]
  draft = pair.draft
  K = draft.config.block_size
  cycles = [(row, i) for row in rows for i in range(len(row["logits"]))]
  known = [len(row["prompt"]) + sum(row["accepted"][:i]) for row, i in cycles]
  tokens = np.zeros((len(cycles), max(known) + 1 + K), np.int32)
  for text, root, (row, i) in zip(tokens, known, cycles, strict=True):
    path = row["ids"][: root + 1] + row["drafted"][i]
    text[: len(path)] = path
  read = passes.target_features(
    pair.target, draft.config.target_layer_ids, tokens
  )[1]
  roots = np.array(known, np.int32)[:, None]

  @jax.jit
  def levels(tokens, read, roots):
    drafter = drafter_of(draft.module)
    return [*drafter.teacher_forced(draft.params, tokens, read, roots, K)]

  for depth, level in enumerate(levels(tokens, read, roots)):
    ours = np.asarray(level.logits)[:, 0]
    theirs = [row["logits"][i][depth] for row, i in cycles]
    np.testing.assert_allclose(ours, theirs, atol=3e-5)
    drafted = [row["drafted"][i][depth] for row, i in cycles]
    assert ours.argmax(axis=1).tolist() == drafted
    assert (level.confidence is None) == (name == "dflash")
    if name == "dspark":
      theirs = [row["confidence"][i][depth] for row, i in cycles]
      np.testing.assert_allclose(level.confidence[:, 0], theirs, atol=1e-5)


@pytest.mark.long
@pytest.mark.parametrize("name", GOLDEN)
def test_the_engine_accepts_and_stops_as_the_published_loop(name):
  pair, rows = load(name), GOLDEN[name]
  # Their first token is the target's own; ours begins as a prompt's last.
  prompts = [row["ids"][: len(row["prompt"]) + 1] for row in rows]
  options = {
    "tree": "chain:4",
    "verifier": "token_level",
    "proposal": "top_k",
    "temperature": 0,
    "ends": (),
  }
  result = tv_jax.generate(pair, prompts, max_new_tokens=24, **options)
  for row, prompt, tokens, accepted in zip(
    rows, prompts, result.tokens, result.gained, strict=True
  ):
    theirs = row["ids"][len(prompt) :]
    assert tokens[: len(theirs)] == theirs
    count = min(len(accepted), len(row["accepted"])) - 1
    assert accepted[:count].tolist() == row["accepted"][:count]
  if name == "dflash":  # it predicts no confidence
    return
  first = np.array([row["confidence"][0] for row in rows])
  stop = np.mean(np.sort(first.ravel())[3:5])
  options |= {"max_new_tokens": 8, "draft_stop": float(stop)}
  result = tv_jax.generate(pair, prompts, **options)
  below = np.concatenate([first < stop, np.ones((len(rows), 1), bool)], axis=1)
  drafted = [cycles[0] for cycles in result.drafted]
  assert drafted == below.argmax(axis=1).tolist()
  assert min(drafted) < 4
