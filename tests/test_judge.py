"""What a judge is asked, and where; what is read of it; no judge is needed."""

import base64
import json
import urllib.parse

import pytest

from experiments.judge import grades, masking, prompts
from experiments.judge.client import endpoint
from experiments.judge.grades import Exam
from tests.judges import KEY, MODEL, NAME, finished_run
from tests.stores import one_line
from tv_jax.runs import store
from tv_jax.runs.questions import Question

ANSWERS = 3 * 4  # methods, and turns of two questions


@pytest.fixture(autouse=True)
def key(monkeypatch):
  monkeypatch.setenv(NAME, KEY)


def test_prompts():
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
    (message,) = prompts.messages(question, answers)
    return message["content"]

  one, two = text(story, "Once."), text(story, "Once.", "O.")
  assert two.index("A story.") < two.index("Once.") < two.index("Shorter!")
  assert "reference" not in two.lower()
  assert "Shorter!" not in one
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
    ("Fine.\nRating: [6]", 6),
    ("[[11]]", None),
    ("[[7]] or rather [[11]]", None),
  ],
)
def test_ratings(text, rating):
  assert prompts.rating(text) == rating


def test_every_answered_turn_is_graded(tmp_path):
  folder = finished_run(
    tmp_path / "run", seeds=(0, 1), errors=[(111, 0, "traversal")]
  )
  unit = store.read(folder)
  found = Exam.of(unit)
  assert len(found.prompts) == 2 * ANSWERS - 4
  # A second turn belongs to a conversation that is not there.
  failed = {(key.question, key.turn) for key in found.failed}
  assert failed == {(111, 0), (111, 1)}
  for key, (message,) in found.prompts.items():
    for turn in range(2):
      own = f"answer of {key.method} to ({key.question}, {turn})"
      assert (own in message["content"]) == (turn <= key.turn)
  # Other tasks.
  assert len(Exam.of(unit, ["qa"]).prompts) == 2 * 3
  # Other questions.
  path = folder.parent / "questions.jsonl"
  path.write_text(path.read_text().replace("limerick", "sonnet"))
  with pytest.raises(ValueError, match="are not those that were answered"):
    Exam.of(unit)


@pytest.mark.parametrize(
  ("given", "told"),
  [
    ({"url": ""}, "--judge_url is missing"),
    ({"url": "http://h/a b"}, "--judge_url is no URL"),
    ({"url": "http://me:secret@h/v1"}, "holds a name or a password"),
    ({"key": KEY}, "there is no such variable in the environment"),
    ({"key": "ODD_ONE"}, "what the variable holds is no key"),
  ],
)
def test_what_is_no_endpoint(given, told, monkeypatch):
  monkeypatch.setenv("ODD_ONE", "two secret\nlines")
  with pytest.raises(ValueError, match="--judge") as caught:
    endpoint(**{"url": "http://h", "model": MODEL} | given)
  line = one_line(caught)
  assert told in line
  assert "secret" not in line
  assert KEY not in line


# The key, in what others say.


FORMS = {
  "as it is": KEY,
  "url twice": "".join(f"%25{ord(one):02X}" for one in KEY),
  "json twice": json.dumps(json.dumps({"key": KEY.replace("s", "\\u0073")})),
  "html, hex": "".join(f"&#x{ord(one):X};" for one in KEY),
  "lines": KEY[:9] + "\\n" + KEY[9:17] + "\r\n\t" + KEY[17:],
  "quotes": "'" + KEY[:5] + "' + '" + KEY[5:] + "'",
  "cut off": KEY[:-4] + "..",
  "base64": base64.b64encode(KEY.encode()).decode(),
  "base64, url": urllib.parse.quote(
    base64.urlsafe_b64encode(f"me:{KEY}".encode()).decode()
  ),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_key_is_not_shown_however_it_comes_back(form):
  hidden = endpoint("http://h", MODEL, NAME).hidden(f"I saw «{form}»: [[7]]")
  as_it_is = "I saw «[key]»: [[7]]"
  assert hidden == (as_it_is if form == KEY else masking.WITHHELD)


@pytest.mark.parametrize("key", [KEY, "%41%41%41%41", "^$.*+?()[]"])
def test_keys_are_masked_and_nothing_else(key):
  text = "Anywhere it is seen, 100% right \\n\n\\frac{1}{2} &amp; fine: ü [[7]]"
  assert masking.mask(text, key) == text
  assert masking.mask(f"<{key}>", key) == "<[key]>"


# Lines of grades.jsonl that somebody wrote.


def line(rating):
  key = {"task": "mt_bench", "question": 81, "turn": 0}
  key |= {"tree": "chain:5", "proposal": "top_k", "verifier": "traversal"}
  key |= {"temperature": 1.0, "seed": 0, "judge": MODEL, "run": 0}
  own = {"prompt": "0" * 16, "rating": "?", "replies": [{"text": "so"}]}
  return json.dumps(key | own).replace('"?"', rating)


@pytest.mark.parametrize(
  "bad",
  [
    *map(line, ("1" + "0" * 5000, "NaN", "10.001", "true")),
    "[" * 100_000,
    '{"task": "mt_bench"}',
  ],
  ids=lambda bad: bad[-12:],
)
def test_a_damaged_line_is_refused(tmp_path, bad):
  path = tmp_path / grades.FILE
  first = line("3").replace('"run": 0', '"run": 1')
  path.write_text(f"{first}\n{bad}\n")
  with pytest.raises(ValueError, match="line 2: ") as caught:
    grades.read(tmp_path)
  assert one_line(caught).startswith(f"{path}, line 2: ")
  assert len(one_line(caught)) < 600
