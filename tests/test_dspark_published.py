"""DSpark and DFlash against what the published code gave."""

import json
import pathlib

import jax.numpy as jnp
import numpy as np
import pytest

import tv_jax
from tests.test_models_dspark import HEADS
from tv_jax.models import causal_pass, dspark

# What the published code gave (deepseek-ai/DeepSpec at afdfa7c; torch 2.13 on a
# CPU, float32, transformers 5.23, whose `crop` counts what is removed and was
# fitted), by kind of head. A tiny random Qwen3 target and a draft were loaded
# from our files by name, none missing or left over. Of
# `generate_decoding_sample` with `Qwen3DSparkEvaluator`'s functions at
# temperature 0, 24 new tokens: `ids`, the prompt among them; `accepted` and
# `drafted` by cycle; of the first three cycles the logits that were drafted
# from, and the confidences.
FOLDER = pathlib.Path(__file__).parent / "dspark_golden"
GOLDEN = json.loads(FOLDER.with_suffix(".json").read_text())


def golden(head):
  """The pair that the numbers are of."""
  numbers = GOLDEN[str(head)]
  pair = tv_jax.load(
    FOLDER / str(head),
    FOLDER / f"target{numbers['target_seed']}",
    draft_kind="dspark",
  )
  assert pair.draft is not None
  return pair, pair.draft, numbers["rows"]


@pytest.mark.parametrize("head", HEADS, ids=str)
def test_published_numbers_are_ours(head):
  pair, draft, rows = golden(head)
  own = dspark.block_of(draft.config)
  for row in rows:
    ids, begin = row["ids"], len(row["prompt"])
    for cycle, logits in enumerate(row["logits"]):
      known = begin + sum(row["accepted"][:cycle])
      text = np.array([ids[:known]], np.int32)
      module = pair.target.module.clone(outputs=draft.config.target_layers)
      cache = pair.target.init_cache(1, known)
      features = causal_pass(module, pair.target.params, (text,), cache)[1]
      block = np.full((1, own.size), own.mask, np.int32)
      block[0, 0] = ids[known]
      found, outputs, _ = draft.module.apply(
        {"params": draft.params},
        block,
        features,
        jnp.arange(known + own.size, dtype=jnp.int32)[None],
        jnp.zeros([1, 1, known + own.size]),
        draft.init_cache(1, known + own.size),
      )
      path = [ids[known], *row["drafted"][cycle]]
      hidden = jnp.zeros((1, 1, own.rank if head == "rnn" else 0))
      for depth in range(own.size):
        said, hidden, sure = draft.module.apply(
          {"params": draft.params},
          np.array([path[depth : depth + 1]], np.int32),
          outputs[:, depth : depth + 1],
          hidden,
          method="after",
        )
        ours = found[0, depth] + said[0, 0]
        np.testing.assert_allclose(ours, logits[depth], atol=3e-5)
        assert int(ours.argmax()) == path[depth + 1]
        if sure is not None:
          theirs = row["confidence"][cycle][depth]
          assert float(sure[0, 0]) == pytest.approx(theirs, abs=1e-5)


@pytest.mark.parametrize("head", HEADS, ids=str)
def test_the_engine_accepts_what_the_published_loop_accepts(head):
  pair, _, rows = golden(head)
  # Their first token is the target's own; ours begins as a prompt's last.
  prompts = [row["ids"][: len(row["prompt"]) + 1] for row in rows]
  result = tv_jax.generate(
    pair,
    prompts,
    tree="chain:4",
    verifier="token_level",
    proposal="top_k",
    temperature=0,
    max_new_tokens=24,
    ends=(),
  )
  for row, prompt, tokens, accepted in zip(
    rows, prompts, result.tokens, result.accepted, strict=True
  ):
    theirs = row["ids"][len(prompt) :]
    assert tokens[: len(theirs)] == theirs
    count = min(len(accepted), len(row["accepted"])) - 1
    assert accepted[:count].tolist() == row["accepted"][:count]


@pytest.mark.parametrize("head", HEADS[:3])
def test_the_engine_stops_where_the_published_loop_stops(head):
  pair, _, rows = golden(head)
  first = np.array([row["confidence"][0] for row in rows])
  low, high = np.sort(first.ravel())[3:5]
  stop = (low + high) / 2
  result = tv_jax.generate(
    pair,
    [row["ids"][: len(row["prompt"]) + 1] for row in rows],
    tree="chain:4",
    verifier="token_level",
    proposal="top_k",
    temperature=0,
    max_new_tokens=8,
    draft_stop=float(stop),
    ends=(),
  )
  below = np.concatenate([first < stop, np.ones((len(rows), 1), bool)], axis=1)
  found = [own[0] for own in result.drafted]
  assert found == below.argmax(axis=1).tolist()
  assert min(found) < 4
