import pathlib
import random
import re

import pytest

import tv_jax
from bundled import tasks, tokens
from bundled.tasks import sources, speech, translation, words
from bundled.tasks.wording import LISTS
from tv_jax.edge import reading
from tv_jax.runs import questions as questions_lib

SOME = 400


@pytest.fixture(scope="module")
def training():
  """Conversations of the training side, by task."""
  return {
    task: [
      tasks.generate(task, rng)
      for rng in [random.Random(f"test/{task}")]
      for _ in range(SOME)
    ]
    for task in tasks.TASKS
  }


@pytest.mark.parametrize("task", tasks.TASKS)
def test_every_answer_scores_and_no_alternative_is_left(training, task):
  for one in training[task]:
    assert len(one.turns) == len(one.answers) == len(one.references)
    assert len(one.turns) == (2 if task == "mt_bench" else 1)
    for answer, reference in zip(one.answers, one.references, strict=True):
      assert questions_lib.score(answer, reference)
    assert not set("[]{}|<>") & set("".join(one.turns + one.answers))


@pytest.mark.parametrize("task", tasks.TASKS)
def test_categories_belong_to_their_task(training, task):
  for one in training[task]:
    question = questions_lib.Question(
      question_id=1,
      category=one.category,
      turns=one.turns,
      references=(),
      mt_bench=one.category in questions_lib.MT_BENCH,
    )
    assert question.task == task


@pytest.mark.parametrize("task", tasks.TASKS)
def test_the_same_seed_gives_the_same_conversation(task):
  first, again, other = (
    tasks.generate(task, random.Random(seed)) for seed in (7, 7, 8)
  )
  assert first == again != other


@pytest.mark.parametrize("task", tasks.TASKS)
def test_phrasing_varies(training, task):
  assert len({one.turns for one in training[task]}) > 0.8 * SOME
  assert len({one.answers for one in training[task]}) > 0.95 * SOME


def test_sums_are_right(training):
  count = 0
  for one in training["math_reasoning"]:
    for a, sign, b, result in re.findall(
      r"(\w+) (plus|minus|times) (\w+),? (?:which |that )?\w+ (\w+)",
      one.answers[0].lower(),
    ):
      a, b, result = map(words.NUMBERS.index, (a, b, result))
      sums = {"plus": a + b, "minus": a - b, "times": a * b}
      assert result == sums[sign]
      assert 0 < result <= 16
      count += 1
    assert one.references[0] == words.NUMBERS[result]
  assert count == 2 * SOME


def test_what_is_asked_of_a_passage_is_in_it(training):
  for task in ("rag", "mt_bench"):
    for one in training[task]:
      if one.category in ("rag", "extraction", "reasoning"):
        for reference in one.references:
          assert reference in one.turns[0]


def test_german_sentences():
  nouns = {english: (english, *rest) for english, *rest in translation.LIVING}
  old = ("old", "alt")
  cases = {
    ("dog", "m"): ("der alte Hund", "den alten Hund"),
    ("cat", "f"): ("die alte Katze", "die alte Katze"),
    ("horse", "n"): ("das alte Pferd", "das alte Pferd"),
  }
  for (noun, _), expected in cases.items():
    for articles, german in zip(
      (translation.NOMINATIVE, translation.ACCUSATIVE), expected, strict=True
    ):
      _, ours = translation._phrase(nouns[noun], old, articles, [])
      assert ours == german


def test_infinitives():
  for verb, expected in {
    "buys": "buy",
    "carries": "carry",
    "looks_for": "look for",
    "loses": "lose",
    "dances": "dance",
    "takes": "take",
  }.items():
    assert translation._infinitive(verb) == expected


def test_say():
  said = {
    speech.say(random.Random(i), "[a|b[c|d]] {x}", x="[e|f]") for i in range(50)
  }
  assert said == {"a [e|f]", "bc [e|f]", "bd [e|f]"}
  listed = {speech.say(random.Random(i), "<praise>") for i in range(300)}
  assert listed == {*LISTS["praise"]}


def test_a_list_fits_behind_an_article():
  for name, words_of in LISTS.items():
    assert len({*words_of}) == len(words_of) >= 10
    if name in ("look", "praise", "who"):
      assert not [word for word in words_of if word[0] in "aeio"]


@pytest.mark.parametrize(
  ("answer", "reference", "right"),
  [
    ("So 3 + 4 = 7.\nAnswer: 7", "7", True),
    ("So 3 + 4 = 7.\nAnswer: 7.\n\n", "7", True),
    ("Answer: 17", "7", False),
    ("7\nAnswer: 8", "7", False),
    ("German: Der HUND  schläft.", "Der Hund schläft", True),
    ("Der Hund schläft heute.", "Der Hund schläft", False),
    ("", "7", False),
    ("\n", "7", False),
  ],
)
def test_score(answer, reference, right):
  assert questions_lib.score(answer, reference) == right


def test_minibench_is_what_the_generator_makes():
  path = reading.BUNDLED / "minibench.jsonl"
  assert path.read_text(encoding="utf-8") == tasks.minibench_lines()


def test_what_is_tuned_on_is_made_and_asked_nowhere_else():
  """No fact of MiniBench's, no text, and none that was trained on."""
  path = reading.BUNDLED / "tuning.jsonl"
  assert path.read_text(encoding="utf-8") == tasks.tuning_lines()
  ours, theirs = map(questions_lib.load_questions, ("tuning", "minibench"))
  turns = [{q.turns for q in some} for some in (ours, theirs)]
  assert len(turns[0]) == len(ours) == 2 * len(theirs)
  assert turns[0].isdisjoint(turns[1])
  facts = [
    {(one.category, one.facts) for one in some}
    for some in (
      tasks.minibench.for_tuning(tasks.TASKS),
      tasks.minibench.conversations(tasks.TASKS),
    )
  ]
  assert len(facts[0]) == len(ours)
  assert facts[0].isdisjoint(facts[1])
  assert all(map(tasks.held_out, tasks.minibench.for_tuning(tasks.TASKS)))


def test_minibench_has_sixteen_questions_of_each_task():
  questions = questions_lib.load_questions("minibench")
  assert [question.question_id for question in questions] == list(range(1, 97))
  for task in tasks.TASKS:
    chosen = [question for question in questions if question.task == task]
    assert len(chosen) == 16
    for question in chosen:
      assert len(question.references) == len(question.turns)
      assert len(question.turns) == (2 if task == "mt_bench" else 1)


def test_training_never_sees_a_question_of_minibench(training):
  """By construction: the side is a function of the facts alone."""
  chosen = tasks.minibench.conversations(tasks.TASKS)
  assert len({one.facts for one in chosen}) == len(chosen)
  assert all(tasks.held_out(one) for one in chosen)
  turns = {one.turns[0] for one in chosen}
  for seen in training.values():
    for one in seen:
      assert not tasks.held_out(one)
      assert one.turns[0] not in turns


def test_beginnings_of_functions():
  body = "".join(f"  some_{i} = call(more_{i})\n" for i in range(20))
  text = f"X = 1\n\n\ndef one(a):\n{body}\n\ndef two():\n  return 3\n"
  (piece,) = sources.beginnings(text)
  assert text[text.index("def one") :].startswith(piece)
  assert sources.SHORTEST <= len(piece) <= sources.LONGEST
  assert piece[-1] == ")"
  assert not [*sources.beginnings(text.replace("def one", "class One"))]


def test_the_same_files_give_the_same_python():
  package = pathlib.Path(tv_jax.__file__).parent
  text = sources.lines(package)
  assert text == sources.lines(package)
  assert text.count("\n") == sources.COUNT


def test_python_is_apart_from_the_six_tasks():
  questions = questions_lib.load_questions("python")
  assert len(questions) == sources.COUNT
  seen = tokens.read_source(4_000_000)
  for question in questions:
    assert question.task == "python"
    assert question.task not in tasks.TASKS
    assert question.references == ()
    (turn,) = question.turns
    assert turn.startswith("def ")
    assert turn not in seen
    assert not turn.endswith("\n")
