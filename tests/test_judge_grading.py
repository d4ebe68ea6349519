"""A judge's grades: what is kept, and what it comes to; against a double."""

import asyncio
import collections
import json
import re
import threading
import time

import pytest

from experiments import paper
from experiments.judge import grades, grading, prompts, rendering
from experiments.judge.client import EndpointError, endpoint
from experiments.judge.grades import Exam
from tests import judges
from tests.judges import (
  KEY,
  MODEL,
  NAME,
  at_once,
  double,
  finished_run,
  reply,
  trouble,
)
from tests.stores import one_line
from tv_jax.edge import disk
from tv_jax.runs import store
from tv_jax.runs.records import Key
from tv_jax.runs.report import formats
from tv_jax.runs.report.tables import NOTHING

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


def grade(folder, server, runs=1, **options):
  """Grades with waits that are none; why grades are missing."""
  place = endpoint(server.url, MODEL, NAME, 10.0)
  own = {"sleep": at_once} | options
  return grading.grade([exam(folder)], place, runs=runs, **own)


def rows(folder, runs=1):
  """By rule."""
  found = grades.table([exam(folder)], MODEL, runs)
  return {row.method.verifier: row for row in found}


def lines(folder):
  path = folder / grades.FILE
  return path.read_bytes().splitlines(True) if path.exists() else []


# What is kept and counted.


def judging(body, number):
  """A judge with an opinion of its own."""
  text = body["messages"][0]["content"]
  rating = 5 + ("traversal on" in text) + 2 * ("42" not in text)
  return reply(f"It is what it is.\nRating: [[{rating}]]")


def test_grades_are_kept_with_all_that_was_said(folder):
  with double(judging) as server:
    assert grade(folder, server, runs=2) == []
  assert len(server.asked) == len(lines(folder)) == 2 * ANSWERS
  found = grades.read(folder)
  assert {key.run for key in found} == {0, 1}
  for key, one in found.items():
    assert key.judge == MODEL
    assert key.prompt == prompts.digest(exam(folder).prompts[key.answer])
    assert one.rating in (5, 6, 7, 8)
    (said,) = one.replies
    assert said["text"].startswith("It is what it is.\n")
    assert said["model"] == f"{MODEL}-2026"
  line = json.loads(lines(folder)[0])
  assert Key.of(line) in exam(folder).prompts
  # Once more, nothing is left to do.
  before = lines(folder)
  with double() as server:
    assert grade(folder, server, runs=2) == []
  assert (server.asked, lines(folder)) == ([], before)


def test_means_and_their_errors(folder):
  with double(judging) as server:
    grade(folder, server, runs=3)
  found = rows(folder, 3)
  assert [*found] == ["plain", "token_level", "traversal"]
  # Question 81 has no 42, and two points more.
  for rule, more in (("plain", 0), ("token_level", 0), ("traversal", 1)):
    row = found[rule]
    assert row.by_question == {81: 7.0 + more, 111: 5.0 + more}
    assert (row.rating.mean, row.rating.n) == (6.0 + more, 2)
    assert row.rating.error == pytest.approx(1.0)
    assert (row.ratings, row.unparsed, row.missing, row.failed) == (12, 0, 0, 0)
  assert found["plain"].less_plain is None
  assert found["token_level"].less_plain.mean == 0
  less = found["traversal"].less_plain
  assert (less.mean, less.error, less.n) == (1.0, 0.0, 2)


def test_turns_weigh_the_same_whatever_is_missing(folder):
  def respond(body, number):
    text = body["messages"][0]["content"]
    if "(81, 1)" in text:
      # One of its three runs has a rating.
      counted[text] += 1
      return reply("[[10]]" if counted[text] == 1 else "no")
    return reply("[[4]]")

  counted = collections.Counter()
  with double(respond) as server:
    grade(folder, server, runs=3, workers=1)
  row = rows(folder, 3)["plain"]
  assert row.by_question == {81: 7.0, 111: 4.0}
  assert (row.ratings, row.unparsed, row.missing) == (10, 2, 0)


@pytest.mark.parametrize("said", ["It is fine.", "[[11]]", "[[0]]", None])
def test_a_reply_without_a_rating_is_kept_as_one(folder, said):
  def respond(body, number):
    limerick = "(81, 0)" in body["messages"][0]["content"]
    return reply(said if limerick else "[[9]]")

  with double(respond) as server:
    assert grade(folder, server) == []
  # Those of question 81, in both turns; asked twice more each.
  assert len(server.asked) == ANSWERS + 2 * 6
  without = [one for one in grades.read(folder).values() if one.rating is None]
  assert len(without) == 6
  for one in without:
    assert [each["text"] for each in one.replies] == [said or ""] * 3
  for row in rows(folder).values():
    assert row.by_question == {111: 9.0}
    assert (row.ratings, row.unparsed, row.missing) == (2, 2, 0)
  with double() as server:
    grade(folder, server)
  assert server.asked == []


def test_a_rating_may_come_when_asked_again(folder):
  with double(judges.scripted(reply("Hm."), reply("[[3]]"))) as server:
    grade(folder, server, workers=1)
  first = next(iter(grades.read(folder).values()))
  assert first.rating == 3
  assert [one["text"] for one in first.replies] == ["Hm.", "[[3]]"]


def test_an_answer_that_changed_is_graded_again(folder):
  with double() as server:
    grade(folder, server)
  path = folder / "items.jsonl"
  text = path.read_text()
  # A first turn's: the second's conversation is another one, too.
  changed = re.sub(r'"answer (of plain.*?\(81, 0\))', r'"better \1', text)
  assert changed != text
  path.write_text(changed)
  assert (rows(folder)["plain"].ratings, rows(folder)["plain"].missing) == (
    2,
    2,
  )
  with double(judges.scripted(reply("[[1]]"))) as server:
    grade(folder, server)
  assert len(server.asked) == 2
  assert rows(folder)["plain"].by_question == {81: 1.0, 111: 7.0}
  assert len(lines(folder)) == ANSWERS + 2


def test_other_judges_and_fewer_runs_are_told_apart(folder):
  with double() as server:
    grade(folder, server, runs=2)
    other = endpoint(server.url, "another", NAME)
    grading.grade([exam(folder)], other, runs=1)
  assert len(lines(folder)) == 3 * ANSWERS
  assert rows(folder, 1)["plain"].ratings == 4
  assert rows(folder, 3)["plain"].missing == 4
  (row, *_) = grades.table([exam(folder)], "another", 1)
  assert row.ratings == 4


def test_runs_of_one_grid_are_taken_together(tmp_path):
  folders = [
    finished_run(tmp_path / "runs" / str(seed), seeds=(seed,))
    for seed in (0, 1)
  ]

  def respond(body, number):
    seed = 1 if "seed 1" in body["messages"][0]["content"] else 0
    return reply(f"[[{4 + 2 * seed}]]")

  own = [exam(folder) for folder in folders]
  with double(respond) as server:
    place = endpoint(server.url, MODEL)
    assert grading.grade(own, place, runs=1) == []
  plain, *_ = grades.table(own, MODEL, 1)
  assert plain.by_question == {81: 5.0, 111: 5.0}
  assert plain.ratings == 8
  configs = [store.read(folder).config for folder in folders]
  pairs = [*zip(configs, own, strict=True)]
  assert rendering.groups(pairs) == [(configs[0], own)]
  configs[1]["max_new_tokens"] += 1
  assert len(rendering.groups(pairs)) == 2


def test_the_paper_stands_beside_where_tree_and_rule_agree(folder):
  with double(judging) as server:
    grade(folder, server)
  found = [*rows(folder).values()]
  (table,) = rendering.rendered(found, "a target by a judge")
  assert table.title == ("a target by a judge, without_replacement, T = 1")
  beside = [(row[0], row[1], row[-1]) for row in table.rows]
  own = {k: f"{v:.2f}" for k, v in paper.QUALITY["chain:5"].items()}
  assert beside == [
    (NOTHING, "plain", f"{paper.PLAIN_QUALITY:.2f}"),
    ("chain:5", "token_level", own["token_level"]),
    ("chain:5", "traversal", own["traversal"]),
  ]
  assert table.rows[2][2:9] == (
    ["7.00 ± 1.00", "+1.00 ± 0.00", "2", "4", "0", "0", "0"]
  )
  assert "6.77" in formats.markdown(table)
  (table,) = rendering.rendered(found, "another task", beside=False)
  assert {row[-1] for row in table.rows} == {NOTHING}


def test_a_table_without_grades_says_so(folder):
  (table,) = rendering.rendered([*rows(folder).values()], "nothing")
  for row in table.rows:
    assert row[2:9] == [NOTHING, NOTHING, "0", "0", "0", "4", "0"]


def test_other_temperatures_have_no_paper_beside(tmp_path):
  folder = finished_run(tmp_path / "run", temperatures=(0.0, 1.0))
  made = rendering.rendered(grades.table([exam(folder)], MODEL), "t")
  assert [table.title[-5:] for table in made] == ["T = 0", "T = 1"]
  assert [len(table.rows) for table in made] == [3, 3]
  assert {row[-1] for row in made[0].rows} == {NOTHING}
  assert NOTHING not in {row[-1] for row in made[1].rows}


# Trouble.


def test_one_question_without_a_reply_does_not_lose_the_others(folder):
  def respond(body, number):
    hard = "plain decoding" in body["messages"][0]["content"]
    return trouble(500, "too hard") if hard else reply()

  waits = []

  async def sleep(seconds):
    waits.append(seconds)

  with double(respond) as server:
    missing = grade(folder, server, sleep=sleep)
    assert missing == ["HTTP 500: too hard (6 attempts)"] * 4
    assert len(server.asked) == 8 + 6 * 4
    assert len(waits) == 5 * 4
    assert rows(folder)["plain"].missing == 4
    server.respond = lambda body, number: reply()
    assert grade(folder, server) == []
  assert rows(folder)["plain"].missing == 0


def test_an_endpoint_that_never_replies_is_given_up(folder):
  with (
    double(judges.scripted(trouble(503, "later"))) as server,
    pytest.raises(EndpointError) as caught,
  ):
    grade(folder, server, runs=3)
  assert "gave 8 times in a row no reply, the last time: HTTP 503: later" in (
    one_line(caught)
  )
  assert lines(folder) == []


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


def test_nobody_is_asked_any_more_once_it_is_over(folder):
  """Threads that wait to ask again do not, when another one ended all."""
  waiting = threading.Event()

  def respond(body, number):
    if number == 0:
      return trouble(429, Retry_After="200")
    waiting.wait(10)
    return trouble(403)

  async def sleep(seconds):
    waiting.set()
    await asyncio.sleep(0.3)

  with double(respond) as server:
    with pytest.raises(EndpointError, match="HTTP 403"):
      grade(folder, server, workers=2, sleep=sleep)
    asked = len(server.asked)
    time.sleep(0.6)
    assert len(server.asked) == asked


def test_requests_are_parallel_and_not_too_many(folder):
  busy, most, lock = 0, 0, threading.Lock()

  def respond(body, number):
    nonlocal busy, most
    with lock:
      busy += 1
      most = max(most, busy)
    time.sleep(0.05)
    with lock:
      busy -= 1
    return reply()

  with double(respond) as server:
    grade(folder, server, workers=3)
  assert most == 3


def test_no_more_is_begun_than_is_kept(folder):
  """What a kill may lose are as many replies as there are workers."""
  begun = []

  def advance(done, count):
    assert len(lines(folder)) == done
    begun.append(len(server.asked) - done)

  with double() as server:
    grade(folder, server, workers=3, advance=advance)
  assert len(begun) == ANSWERS
  assert max(begun) <= 2


def test_what_was_graded_meanwhile_is_not_asked_for(folder, monkeypatch):
  with double() as server:
    grade(folder, server)
    monkeypatch.setattr(grades, "read", lambda folder: {})
    assert grade(folder, server) == []
  assert len(server.asked) == len(lines(folder)) == ANSWERS


def test_a_second_process_is_refused(folder):
  seen = []

  def respond(body, number):
    if number == 0:
      with pytest.raises(disk.StoreError, match=r"being written .* wait for"):
        grade(folder, server)
      seen.append(number)
    return reply()

  with double(respond) as server:
    grade(folder, server)
  assert seen == [0]


@pytest.mark.parametrize("torn", [1, 40, b"\0" * 30 + b"\n"])
def test_a_torn_last_line_is_cut_off(folder, torn):
  with double() as server:
    grade(folder, server)
    before = lines(folder)
    *whole, last = before
    tail = torn if isinstance(torn, bytes) else last[:-torn]
    (folder / grades.FILE).write_bytes(b"".join(whole) + tail)
    assert len(grades.read(folder)) == ANSWERS - 1
    grade(folder, server)
  assert len(server.asked) == ANSWERS + 1
  assert lines(folder) == before


def test_a_damaged_line_is_told(folder):
  (folder / grades.FILE).write_text('{"task": "mt_bench"}\n')
  with pytest.raises(ValueError, match=r"grades\.jsonl, line 1: an item with"):
    rows(folder)
