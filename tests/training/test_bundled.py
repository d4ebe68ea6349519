"""The models and the questions that are shipped."""

import pathlib
import random

import pytest

import tv_jax
from training import tasks
from training.tasks import conversation
from tv_jax.io import reading
from tv_jax.models import tokenizers
from tv_jax.models.checkpoint import Checkpoint
from tv_jax.runs import questions as questions_lib

BUNDLED = reading.BUNDLED


def test_the_one_tokenizer_names_the_end(bundled):
  (path,) = BUNDLED.glob("*/tokenizer.json")
  tokenizer = Checkpoint.open(path.parent).tokenizer
  text = "<|user|>Übersetze 17 + 4?<|end|>"
  assert tokenizer(text).input_ids == bundled.tokenizer(text).input_ids
  (end,) = tokenizers.end_tokens(Checkpoint.open(path.parent))
  assert end == tokenizer.eos_token_id == tokenizer("<|end|>").input_ids[-1]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["dspark", "eagle3"])
def test_a_draft_that_reads_layers_agrees_with_its_target(kind):
  pair = tv_jax.load("bundled/target", f"bundled/{kind}")
  assert pair.kind == kind
  questions = questions_lib.load_questions("minibench")
  prompts = [q.turns[0] for q in questions_lib.limit(questions, per_task=1)]
  options = {"template": "chat", "tree": "chain:4", "max_new_tokens": 32}
  result = tv_jax.generate(pair, prompts, **options)
  assert result.acceptance_length.mean > 2.2


def test_what_is_bundled_has_a_name_that_is_no_place(tmp_path):
  for name in ("bundled/draft", "bundled/trees/draft-traversal.25.json"):
    place = reading.path_of(name)
    assert pathlib.Path(place).exists()
    assert reading.name_of(place) == name
  assert reading.name_of(tmp_path) == reading.path_of(str(tmp_path))
  for path in (BUNDLED / "trees").iterdir():
    assert str(BUNDLED) not in path.read_text()


@pytest.mark.parametrize(
  ("name", "known"),
  [
    ("bundled/drat", "give one of bundled/draft, .*bundled/target$"),
    ("bundled/trees/x.json", "give one of bundled/trees/draft-trav.*json$"),
  ],
)
def test_a_name_that_is_not_bundled_is_told_those_that_are(name, known):
  with pytest.raises(ValueError, match=known):
    reading.path_of(name)


@pytest.mark.parametrize("name", ["minibench", "tuning"])
def test_what_is_bundled_is_what_the_generator_makes(name):
  text = (reading.BUNDLED / f"{name}.jsonl").read_text(encoding="utf-8")
  assert text == tasks.lines(getattr(tasks, name)())


def test_training_tuning_and_minibench_share_no_question():
  """By construction: the side is a function of the facts alone."""
  rng = random.Random("test")
  sides = {
    "training": [
      tasks.generate(task, rng) for task in tasks.TASKS for _ in range(400)
    ],
    "tuning": tasks.tuning(),
    "minibench": tasks.minibench(),
  }
  for name, side in sides.items():
    assert {*map(conversation.held_out, side)} == {name != "training"}
  turns = [{talk.turns[0] for talk in side} for side in sides.values()]
  assert len(set.union(*turns)) == sum(map(len, turns))
  facts = [
    {(talk.category, talk.facts) for talk in sides[name]}
    for name in ("tuning", "minibench")
  ]
  assert [*map(len, facts)] == [192, 96]
  assert facts[0].isdisjoint(facts[1])
