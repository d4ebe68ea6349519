"""What a judge is asked, and where; what is read of it; no judge is needed."""

import base64
import json
import sys
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
  monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def folder(tmp_path):
  return finished_run(tmp_path / "runs" / "one")


def exam(folder):
  return Exam.of(store.read(folder))


# What is asked, and what is read of it.

STORY = Question(
  question_id=1,
  category="writing",
  turns=("A story.", "Shorter!"),
  references=(),
)


def test_a_first_turn_shows_the_question_and_the_answer():
  (message,) = prompts.messages(STORY, ["Once."])
  text = message["content"]
  assert message["role"] == "user"
  assert text.index("impartial judge") < text.index("A story.")
  assert text.index("A story.") < text.index("Once.")
  assert "[[rating]]" in text
  assert "Shorter!" not in text
  assert "reference" not in text.lower()


def test_a_second_turn_shows_the_conversation():
  (message,) = prompts.messages(STORY, ["Once upon.", "Once."])
  text = message["content"]
  places = [text.index(x) for x in ("A story.", "upon.", "Shorter!", "\nOnce.")]
  assert places == sorted(places)
  assert "last answer alone" in text


def test_references_are_shown_up_to_the_turn_that_is_graded():
  sums = Question(
    question_id=2,
    category="math",
    turns=("6 times 7?", "8 times 9?"),
    references=(("42",), ("72", "seventy-two")),
  )
  first, second = (
    prompts.messages(sums, ["?"] * n)[0]["content"] for n in (1, 2)
  )
  assert "reference answer, turn 1 ===\n42\n" in first
  assert "72" not in first
  assert "turn 1 ===\n42\n" in second
  assert "turn 2 ===\n72\nseventy-two\n" in second
  assert "Reference answers are shown" in first


def test_any_other_text_is_another_prompt():
  chats = [prompts.messages(STORY, [text]) for text in ("a", "b", "a ")]
  assert len({*map(prompts.digest, chats)}) == 3
  assert prompts.digest(chats[0]) == prompts.digest([*chats[0]])


@pytest.mark.parametrize(
  ("text", "rating"),
  [
    ("It is fine. [[7]]", 7),
    ("Rating: [[7.5]]", 7.5),
    ("[[ 10 ]]\n", 10),
    ("[[8/10]]", 8),
    ("It says [[10]], but is not. Rating: [[2]]", 2),
    ("**Rating: [[6]]**\n\nI hope that this helps.", 6),
    ("Fine.\nRating: [6]", 6),
    ("As a[1] has it, fine.", None),
    ("See [3].\nIt is fine.", None),
    ("x[4]", None),
    ("[[11]]", None),
    ("[[0]]", None),
    ("[[0.9]]", None),
    ("[[-3]]", None),
    ("[[7]] or rather [[11]]", None),
    ("[[rating]]", None),
    ("7 of 10", None),
    ("[[7", None),
    ("", None),
  ],
)
def test_ratings(text, rating):
  assert prompts.rating(text) == rating


# What is to be graded.


def test_every_answered_turn_is_graded(tmp_path):
  folder = finished_run(
    tmp_path / "run", seeds=(0, 1), errors=[(111, 0, "traversal")]
  )
  found = exam(folder)
  assert len(found.prompts) == 2 * ANSWERS - 4
  assert {key.task for key in found.prompts} == {"mt_bench"}
  # A second turn is that of a conversation that there is not.
  assert {(key.question, key.turn) for key in found.failed} == {
    (111, 0),
    (111, 1),
  }
  for key, (message,) in found.prompts.items():
    for turn in range(2):
      own = f"answer of {key.method} to ({key.question}, {turn})"
      assert (own in message["content"]) == (turn <= key.turn)
    assert message["content"].count("answer of ") == key.turn + 1


def test_other_tasks(folder):
  unit = store.read(folder)
  assert len(Exam.of(unit, ["qa"]).prompts) == 3
  assert len(Exam.of(unit, ["qa", "mt_bench"]).prompts) == ANSWERS + 3
  assert Exam.of(unit, ["rag"]) == grades.Exam(folder, (), {}, ())


def test_other_questions_are_refused(folder):
  path = folder.parent / "questions.jsonl"
  path.write_text(path.read_text().replace("limerick", "sonnet"))
  with pytest.raises(ValueError, match="are not those that were answered"):
    exam(folder)
  path.unlink()
  with pytest.raises(ValueError, match=r"one: .*s\.jsonl cannot be read"):
    exam(folder)


# Where it is asked.


@pytest.mark.parametrize(
  ("url", "completions"),
  [
    ("http://localhost:8000", "http://localhost:8000/v1/chat/completions"),
    ("http://h/v1/", "http://h/v1/chat/completions"),
    ("https://h/openai/v1", "https://h/openai/v1/chat/completions"),
    (
      "https://h/v1beta/openai/",
      "https://h/v1beta/openai/chat/completions",
    ),
    ("http://h/chat/completions", "http://h/chat/completions"),
    ("http://h/v1?a=b", "http://h/v1/chat/completions?a=b"),
    ("http://[::1]:80/x", "http://[::1]:80/x/v1/chat/completions"),
  ],
)
def test_urls(url, completions):
  found = endpoint(url, MODEL)
  assert found.url == completions
  assert found.place == completions.partition("?")[0]


@pytest.mark.parametrize(
  ("given", "told"),
  [
    ({"url": ""}, "--judge_url is missing"),
    ({"url": "localhost:8000"}, "--judge_url is no URL"),
    ({"url": "ftp://h"}, "--judge_url is no URL"),
    ({"url": "http://"}, "--judge_url is no URL"),
    ({"url": "http://h:99999"}, "--judge_url is no URL"),
    ({"url": "http://h:x"}, "--judge_url is no URL"),
    ({"url": "http://a..b/"}, "--judge_url is no URL"),
    ({"url": "http://h/ö"}, "--judge_url is no URL"),
    ({"url": "http://h/a b"}, "--judge_url is no URL"),
    ({"url": "http://me:secret@h/v1"}, "holds a name or a password"),
    ({"model": " "}, "--judge_model is missing"),
    ({"key": KEY}, "there is no such variable in the environment"),
    ({"key": "EMPTY_ONE"}, "there is no such variable in the environment"),
    ({"key": "ODD_ONE"}, "what the variable holds is no key"),
    ({"timeout": 0}, "--judge_timeout=0: give"),
    ({"timeout": float("nan")}, "--judge_timeout=nan: give"),
  ],
)
def test_what_is_no_endpoint(given, told, monkeypatch):
  monkeypatch.setenv("EMPTY_ONE", " \n")
  monkeypatch.setenv("ODD_ONE", "two secret\nlines")
  with pytest.raises(ValueError, match="--judge") as caught:
    endpoint(**{"url": "http://h", "model": MODEL} | given)
  line = one_line(caught)
  assert told in line
  assert "secret" not in line
  assert KEY not in line


def test_a_key_is_in_no_repr(monkeypatch):
  monkeypatch.setenv(NAME, f" {KEY}\n")
  found = endpoint("http://h", MODEL, NAME)
  assert found.key == KEY
  assert KEY not in repr(found) + str(found)


def test_a_word_for_a_key_is_not_hidden(monkeypatch):
  monkeypatch.setenv(NAME, "none")
  assert endpoint("http://h", MODEL, NAME).hidden("none of it") == "none of it"


# The key, in what others say.

FORMS = {
  "as it is": KEY,
  "capitals": KEY.upper(),
  "title": KEY.title(),
  "bearer": f"Bearer {KEY}",
  "url": "".join(f"%{ord(one):02x}" for one in KEY),
  "url twice": "".join(f"%25{ord(one):02X}" for one in KEY),
  "json": json.dumps({"key": KEY}).replace("-", "\\u002d"),
  "json twice": json.dumps(json.dumps({"key": KEY.replace("s", "\\u0073")})),
  "python": "".join(f"\\x{ord(one):02x}" for one in KEY),
  "html": "".join(f"&#{ord(one)};" for one in KEY),
  "html, hex": "".join(f"&#x{ord(one):X};" for one in KEY),
  "spaces": " ".join(KEY),
  "lines": KEY[:9] + "\n" + KEY[9:17] + "\r\n\t" + KEY[17:],
  "json's lines": KEY[:9] + "\\n" + KEY[9:],
  "no hyphens": KEY.replace("-", ""),
  "low lines": KEY.replace("-", "_"),
  "quotes": "'" + KEY[:5] + "' + '" + KEY[5:] + "'",
  "cut off": KEY[:-4] + "..",
  "an end": ".." + KEY[5:],
  "hex": KEY.encode().hex(),
  "base64": base64.b64encode(KEY.encode()).decode(),
  "base64, bearer": base64.b64encode(f"Bearer {KEY}".encode()).decode(),
  "base64, basic": base64.b64encode(f":{KEY}\n".encode()).decode(),
  "base64, url": urllib.parse.quote(
    base64.urlsafe_b64encode(f"me:{KEY}".encode()).decode()
  ),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_key_is_masked_however_it_comes_back(form):
  hidden = endpoint("http://h", MODEL, NAME).hidden(f"I saw «{form}»: [[7]]")
  assert hidden.startswith("I saw «")
  assert hidden.endswith("»: [[7]]")
  assert "[key]" in hidden
  # What is left of it are edges, and what it was wrapped in.
  left = hidden[7:-8].replace("[key]", "")
  assert len(left) <= 18, left
  assert KEY[3:9] not in left.lower()


@pytest.mark.parametrize(
  "key", ["a" * 8, "%41%41%41%41", "--------", "^$.*+?()[]", "k" * 3000, "é"]
)
def test_odd_keys_are_masked_and_nothing_else(key):
  text = "The answer is good, 100% right \\n & fine: [[7]]"
  assert masking.mask(text, key) == text
  if key != "é":
    assert masking.mask(f"<{key}>", key) == "<[key]>"


def test_what_does_not_hold_the_key_is_as_it_was():
  """Words of the key's are words."""
  text = "Anywhere it is seen, or not to be.\n\\frac{1}{2} 50%25 &amp; ü [[7]]"
  assert endpoint("http://h", MODEL, NAME).hidden(text) == text


# Lines of grades.jsonl that somebody wrote.


def line(rating):
  key = {"task": "mt_bench", "question": 81, "turn": 0}
  key |= {"tree": "chain:5", "proposal": "top_k", "verifier": "traversal"}
  key |= {"temperature": 1.0, "seed": 0, "judge": MODEL, "run": 0}
  own = {"prompt": "0" * 16, "rating": "?", "replies": [{"text": "so"}]}
  return json.dumps(key | own).replace('"?"', rating)


@pytest.mark.parametrize(
  "rating",
  [
    *("1" + "0" * 400, "1" + "0" * 5000, "NaN", "1e308", "1e999", "-5", "0"),
    *("10.001", "Infinity", "-Infinity", "true", '"7"', "[7]", "0.5"),
  ],
  ids=lambda rating: rating[:9],
)
@pytest.mark.parametrize("after", ["", line("7").replace("81", "111")])
def test_a_rating_that_is_none_is_refused(tmp_path, rating, after):
  path = tmp_path / grades.FILE
  text = line("3").replace('"run": 0', '"run": 1')
  path.write_text(f"{text}\n{line(rating)}\n{after}")
  with pytest.raises(ValueError, match="line 2: ") as caught:
    grades.read(tmp_path)
  assert one_line(caught).startswith(f"{path}, line 2: ")
  assert len(one_line(caught)) < 600


@pytest.mark.parametrize("deep", ["[" * 100_000, '{"a":' * 100_000])
@pytest.mark.parametrize("after", ["", line("7") + "\n"])
def test_a_deep_line_is_refused(tmp_path, deep, after):
  path = tmp_path / grades.FILE
  path.write_text(f"{deep}\n{after}")
  with pytest.raises(ValueError, match="line 1: ") as caught:
    grades.read(tmp_path)
  assert one_line(caught) == (
    f"{path}, line 1: no JSON: it is nested too deeply; remove the line, and"
    " its item is made again"
  )


@pytest.mark.parametrize("rating", ["1", "10", "7.5", "null"])
def test_a_rating_that_is_one_is_read(tmp_path, rating):
  (tmp_path / grades.FILE).write_text(f"{line(rating)}\n")
  (found,) = grades.read(tmp_path).values()
  assert found.rating == json.loads(rating)


def test_without_openai_it_is_one_line(monkeypatch):
  monkeypatch.setitem(sys.modules, "openai", None)
  with pytest.raises(ValueError, match="openai") as caught:
    endpoint("http://h", MODEL).connect()
  assert one_line(caught).endswith("pip install -e '.[judge]'")
