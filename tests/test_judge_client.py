"""The judge's client and grades, against a double."""

import asyncio
import gzip
import re
import time

import pytest

from experiments.judge import client, grades, grading, prompts
from experiments.judge.client import EndpointError, UnansweredError, endpoint
from experiments.judge.grades import Exam
from tests import judges
from tests.judges import (
  KEY,
  MODEL,
  NAME,
  double,
  finished_run,
  reply,
  scripted,
  trouble,
)
from tests.stores import one_line
from tv_jax.runs import store

pytestmark = pytest.mark.judge

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


def grade(folder, server, runs=1, model=MODEL, **options):
  """Why grades are missing."""
  place = endpoint(server.url, model, NAME, 10.0)
  return grading.grade([exam(folder)], place, runs=runs, **options)


def rows(folder, runs=1):
  """By rule."""
  found = grades.table([exam(folder)], MODEL, runs)
  return {row.method.verifier: row for row in found}


def lines(folder):
  path = folder / grades.FILE
  return path.read_bytes().splitlines(True) if path.exists() else []


def shown(body):
  return body["messages"][0]["content"]


# What is kept and counted.


def judging(body, number):
  """A judge with an opinion of its own: question 81 has no 42."""
  text = shown(body)
  rating = 5 + ("traversal on" in text) + 2 * ("42" not in text)
  return reply(f"It is what it is.\nRating: [[{rating}]]")


def test_grades_are_kept_with_all_that_was_said(folder):
  with double(judging) as server:
    assert grade(folder, server, runs=3) == []
    assert len(server.asked) == len(lines(folder)) == 3 * ANSWERS
    found = grades.read(folder)
    assert {key.run for key in found} == {0, 1, 2}
    for key, one in found.items():
      assert key.prompt == prompts.digest(exam(folder).prompts[key.answer])
      (said,) = one.replies
      assert said["text"].startswith("It is what it is.\n")
    # Once more, nothing is left to do.
    before = lines(folder)
    assert grade(folder, server, runs=3) == []
    assert len(server.asked) == 3 * ANSWERS
    assert lines(folder) == before
    # Another judge's are others.
    grade(folder, server, model="another")
  assert len(lines(folder)) == 4 * ANSWERS
  # Means and their errors.
  found = rows(folder, 3)
  assert [*found] == ["plain", "token_level", "traversal"]
  for rule, more in (("plain", 0), ("token_level", 0), ("traversal", 1)):
    row = found[rule]
    assert row.by_question == {81: 7.0 + more, 111: 5.0 + more}
    assert (row.rating.mean, row.rating.n) == (6.0 + more, 2)
    assert row.rating.error == pytest.approx(1.0)
    assert (row.ratings, row.unparsed, row.missing, row.failed) == (12, 0, 0, 0)
  assert found["plain"].less_plain is None
  less = found["traversal"].less_plain
  assert (less.mean, less.error, less.n) == (1.0, 0.0, 2)


def test_a_reply_without_a_rating_is_kept_as_one(folder):
  def respond(body, number):
    limerick = "(81, 0)" in shown(body)
    return reply("It is fine." if limerick else "[[9]]")

  with double(respond) as server:
    assert grade(folder, server) == []
    # Those of question 81, in both turns; asked twice more each.
    assert len(server.asked) == ANSWERS + 2 * 6
    grade(folder, server)
    assert len(server.asked) == ANSWERS + 2 * 6
  without = [one for one in grades.read(folder).values() if one.rating is None]
  assert len(without) == 6
  for one in without:
    assert [each["text"] for each in one.replies] == ["It is fine."] * 3
  for row in rows(folder).values():
    assert row.by_question == {111: 9.0}
    assert (row.ratings, row.unparsed, row.missing) == (2, 2, 0)


def test_an_answer_that_changed_is_graded_again(folder):
  with double() as server:
    grade(folder, server)
    path = folder / "items.jsonl"
    text = path.read_text()
    # A first turn's: the second's conversation is another one, too.
    changed = re.sub(r'"answer (of plain.*?\(81, 0\))', r'"better \1', text)
    assert changed != text
    path.write_text(changed)
    plain = rows(folder)["plain"]
    assert (plain.ratings, plain.missing) == (2, 2)
    server.respond = scripted(reply("[[1]]"))
    grade(folder, server)
  assert len(server.asked) == len(lines(folder)) == ANSWERS + 2
  assert rows(folder)["plain"].by_question == {81: 1.0, 111: 7.0}


# Trouble.


def test_a_wrong_key_in_the_middle_ends_all_and_loses_nothing(folder):
  def respond(body, number):
    return reply() if number < 5 else trouble(401)

  with double(respond) as server:
    with pytest.raises(EndpointError, match="HTTP 401"):
      grade(folder, server, workers=1)
    assert len(server.asked) == 6
    assert len(lines(folder)) == 5
    server.respond = lambda body, number: reply()
    grade(folder, server)
  assert len(server.asked) == 6 + ANSWERS - 5


# The client: what passes, and what is the end.

CHAT = [{"role": "user", "content": "How good is “that”?"}]


def ask(url, chat=CHAT, key=NAME, timeout=10.0):
  """The reply."""
  place = endpoint(url, MODEL, key, timeout)

  async def asked():
    async with place.connect() as connection:
      return await client.ask(connection, place, chat)

  return asyncio.run(asked())


def refused(error, *script, **options):
  """The one line that it ends with, and how often was asked before."""
  with double(scripted(*script)) as server:
    with pytest.raises(error) as caught:
      ask(server.url, **options)
    assert KEY not in one_line(caught)
    return one_line(caught), len(server.asked)


def test_a_question_and_its_reply(monkeypatch):
  with double(lambda body, number: reply("Fine: [[8]]")) as server:
    found = ask(f"{server.url}/v1?version=2")
    monkeypatch.setenv("OPENAI_API_KEY", "another endpoint's")
    ask(server.url, key="")
  (path, headers, body), (_, others, _) = server.asked
  assert found == ("Fine: [[8]]", "stop", f"{MODEL}-2026")
  assert path == "/v1/chat/completions?version=2"
  assert body == {"model": MODEL, "messages": CHAT, "temperature": 0}
  assert headers["Authorization"] == f"Bearer {KEY}"
  assert "Authorization" not in others  # where no key is given


@pytest.mark.parametrize(
  ("bad", "told"),
  [
    (trouble(429, "daily quota", **{"Retry-After-Ms": "9e9"}), "429: daily"),
    (judges.reset, "Connection error ("),
    (judges.trickle, "no end of it within 1.4 s"),
    ((200, {}, b'{"choices": [{"mess'), "a reply that is none ("),
    ((200, {"Content-Type": "text/html"}, b"<p>busy"), "a reply that is none"),
    ((200, {}, b" " * (17 << 20)), "a reply of more than 16 MB"),
    (
      (200, {"Content-Encoding": "gzip"}, gzip.compress(b" " * (99 << 20))),
      "a reply of more than 16 MB",
    ),
  ],
)
def test_what_does_not_pass_is_not_asked_for_ever(bad, told, monkeypatch):
  monkeypatch.setattr(client, "RETRIES", 1)
  monkeypatch.setattr(client, "WAITS", 0.5)
  begin = time.monotonic()
  line, count = refused(UnansweredError, bad, timeout=0.2)
  assert told in line
  assert count <= 2
  assert time.monotonic() - begin < 5


def test_what_cannot_pass_is_the_end_at_once():
  bad = trouble(401, f"bad key {KEY[:9]}***")
  line, count = refused(EndpointError, bad)
  assert "(HTTP 401): give --judge_key=" in line
  assert KEY[:9] not in line
  assert count == 1


@pytest.mark.parametrize("status", [303, 308])
def test_nobody_else_is_sent_the_key(status):
  with double() as other:
    goal = f"{other.url}/v1/chat/completions?secret"
    line, _ = refused(EndpointError, trouble(status, "", Location=goal))
    assert f"it sends on to {other.url}/v1" in line
    assert "secret" not in line
    assert other.asked == []
