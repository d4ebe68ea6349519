"""The judge: its prompts, its stored grades, and means of ratings."""

import http.server
import json
import re
import subprocess
import sys
import threading
import types

import pytest

from configs import smoke
from experiments import judge
from tests.lib.stores import ENVIRONMENT, ROOT
from tv_jax import runs
from tv_jax.runs import sources, store
from tv_jax.runs.questions import Question
from tv_jax.runs.records import KEY

MODEL = "a-judge"
ANSWERS = 3 * 4  # methods, and turns of two questions
QUESTIONS = (
  {
    "question_id": 81,
    "category": "writing",
    "turns": ["Write a limerick.", "Now without rhymes."],
  },
  {
    "question_id": 111,
    "category": "math",
    "turns": ["What is 6 times 7?", "And 8 times 9?"],
    "reference": ["42", "72"],
  },
  {"question_id": 7, "category": "qa", "turns": ["Who wrote Emma?"]},
)


@pytest.fixture
def folder(tmp_path):
  return finished_run(tmp_path / "run")


def finished_run(folder, error=None):
  """A finished run's folder; an error is of (question, turn, verifier)."""
  asked = folder.parent / "questions.jsonl"
  asked.write_text("".join(json.dumps(q) + "\n" for q in QUESTIONS))
  config = smoke.get_config()
  fields = {"questions": str(asked), "tasks": "", "per_task": 0}
  config.update(fields | {"trees": "chain:5", "seeds": (0,)})
  settings = runs.from_config(config)
  questions = runs.read_questions(settings)
  with store.Store(folder, runs.to_dict(settings), ENVIRONMENT) as results:
    results.keep_sources({"questions": sources.of_questions(questions)})
    results.begin(ANSWERS)
    for method in runs.grid(settings):
      for question in questions:
        for turn in range(len(question.turns)):
          place = question.question_id, turn
          key = question.task, *place, *vars(method).values()
          line = dict(zip(KEY, key, strict=True))
          failed = (*place, method.verifier) == error
          text = {"text": f"answer of {method} to {place}"}
          results.append(line | ({"error": "too long"} if failed else text))
    results.finish()
  return folder


class Double:
  """A double of `openai.OpenAI`; `reply` is a function of the prompt."""

  def __init__(self, reply):
    self.reply, self.asked = reply, []
    create = types.SimpleNamespace(create=self.create)
    self.chat = types.SimpleNamespace(completions=create)

  def create(self, *, model, messages, temperature):
    assert temperature == 0
    self.asked.append(messages[0]["content"])
    message = types.SimpleNamespace(content=self.reply(self.asked[-1]))
    choice = types.SimpleNamespace(message=message)
    return types.SimpleNamespace(choices=[choice], model=f"{model}-2026")


def opinion(prompt):
  """Rates by words of the prompt; only question 111 has 42."""
  rating = 5 + ("traversal on" in prompt) + 2 * ("42" not in prompt)
  return f"It is what it is.\nRating: [[{rating}]]"


def grade(folder, double, **options):
  return judge.grade(
    store.read(folder), double, MODEL, **{"runs": 1, **options}
  )


def rows(folder):
  """Returns the rows of the only table by verifier."""
  (table,) = judge.tables_of("one", [store.read(folder)])
  return {row["verifier"]: row for row in table.flat.to_dict("records")}


def lines(folder):
  return (folder / judge.FILE).read_bytes().splitlines(True)


def test_what_a_judge_is_shown():
  """A conversation up to the turn that is graded, references as well."""
  sums = Question(
    question_id=2,
    category="math",
    turns=("6 times 7?", "8 times 9?"),
    references=(("42",), ("72", "seventy-two")),
  )
  story = Question(
    question_id=1,
    category="writing",
    turns=("A story.", "Shorter!"),
    references=(),
  )

  def text(question, *answers):
    return judge.prompt_for(question, answers)

  first, second = text(story, "Once."), text(story, "Once.", "O.")
  assert re.search("A story.*Once.*Shorter!", second, re.S)
  assert "reference answer, turn" not in second
  assert "Shorter!" not in first
  first, second = text(sums, "?"), text(sums, "?", "?")
  assert "reference answer, turn 1 ===\n42\n" in first
  assert "72" not in first
  assert "turn 2 ===\n72\nseventy-two\n" in second


@pytest.mark.parametrize(
  ("text", "rating"),
  [
    ("Rating: [[7.5]]", 7.5),
    ("[[8/10]]", 8),
    ("It says [[10]], but is not. Rating: [[2]]", 2),
    ("[[7]] or rather [[11]]", None),
    ("7 of 10, see [1]", None),
  ],
)
def test_ratings(text, rating):
  assert judge.rating_in(text) == rating


def test_grades_are_kept_and_their_means_are_paired(folder):
  double = Double(opinion)
  grade(folder, double, runs=3)
  assert len(double.asked) == len(lines(folder)) == 3 * ANSWERS
  kept = [json.loads(line) for line in lines(folder)]
  assert {line["run"] for line in kept} == {0, 1, 2}
  assert kept[0]["reply"].startswith("It is what it is.\n")
  # Once more, nothing is left to do; another judge's are others.
  before = lines(folder)
  grade(folder, double, runs=3)
  assert lines(folder) == before
  found = rows(folder)
  for rule, mean in (
    ("plain", 6),
    ("token_level", 6),
    ("traversal", 7),
  ):
    assert found[rule]["rating"] == f"{mean}.00 ± 1.00"
    assert found[rule]["questions"] == "2"
    assert found[rule]["ratings"] == "12 of 12"
  assert found["traversal"]["minus plain"] == "+1.00 ± 0.00"


def test_a_reply_without_a_rating_is_kept_and_asked_for_again(folder):
  double = Double(lambda text: "Fine." if "(81, 0)" in text else "[[9]]")
  grade(folder, double)
  assert len(double.asked) == ANSWERS
  for row in rows(folder).values():
    assert row["rating"] == "9.00 ± ?"
    assert row["ratings"] == "2 of 4"
  grade(folder, again := Double(lambda text: "[[3]]"))
  failed = [text for text in double.asked if "(81, 0)" in text]
  assert sorted(again.asked) == sorted(failed)
  for row in rows(folder).values():
    assert row["rating"] == "6.00 ± 3.00"
    assert row["ratings"] == "4 of 4"


def test_a_kill_and_an_error_lose_nothing(folder):
  def failing(text):
    if "(81, 1)" in text:
      raise RuntimeError("overloaded")
    return "[[6]]"

  with pytest.raises(RuntimeError, match="overloaded"):
    grade(folder, Double(failing))
  kept = lines(folder)
  assert 0 < len(kept) < ANSWERS
  assert {row["ratings"][1:] for row in rows(folder).values()} == {" of 4"}
  with (folder / judge.FILE).open("ab") as file:
    file.write(b'{"task": "mt_be')  # a kill tears the last line
  double = Double(lambda text: "[[6]]")
  grade(folder, double)
  assert len(double.asked) == ANSWERS - len(kept)
  assert lines(folder)[: len(kept)] == kept
  assert len(lines(folder)) == ANSWERS


def test_failed_answers_are_not_graded_and_other_questions_are_refused(
  tmp_path,
):
  folder = finished_run(tmp_path / "run", error=(111, 0, "traversal"))
  # A second turn belongs to a conversation that is not there.
  assert len(judge.conversations(store.read(folder))) == ANSWERS - 2
  path = folder.parent / "questions.jsonl"
  path.write_text(path.read_text().replace("limerick", "sonnet"))
  with pytest.raises(ValueError, match="are not those that were answered"):
    grade(folder, Double(opinion))


class Endpoint(http.server.BaseHTTPRequestHandler):
  def do_POST(self):
    json.loads(self.rfile.read(int(self.headers["Content-Length"])))
    message = {"role": "assistant", "content": "Good. [[7]]"}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    data = json.dumps({"model": MODEL, "choices": [choice]}).encode()
    self.send_response(200)
    self.send_header("Content-Type", "application/json")
    self.send_header("Content-Length", str(len(data)))
    self.end_headers()
    self.wfile.write(data)

  def log_message(self, *_):
    """Says nothing."""


@pytest.mark.judge
def test_the_command_asks_an_endpoint(folder, monkeypatch):
  monkeypatch.setenv("no_proxy", "*")
  with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/v1"
    command = [sys.executable, "-m", "experiments.judge", str(folder)]
    done = subprocess.run(
      [*command, f"--model={MODEL}", f"--url={url}", "--runs=2"],
      cwd=ROOT,
      capture_output=True,
      text=True,
    )
    server.shutdown()
  assert done.returncode == 0, done.stderr
  assert len(lines(folder)) == 2 * ANSWERS
  assert "7.00 ± 0.00" in done.stdout
