"""A judge's grades: what is kept, and what it comes to; against a double."""

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
from tests.judges import KEY, MODEL, NAME, double, finished_run, reply, trouble
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
      assert key.judge == MODEL
      assert key.prompt == prompts.digest(exam(folder).prompts[key.answer])
      (said,) = one.replies
      assert said["text"].startswith("It is what it is.\n")
      assert said["model"] == f"{MODEL}-2026"
    assert Key.of(json.loads(lines(folder)[0])) in exam(folder).prompts
    # Once more, nothing is left to do.
    before = lines(folder)
    assert grade(folder, server, runs=3) == []
    assert len(server.asked) == 3 * ANSWERS
    assert lines(folder) == before
    # Another judge's are others.
    grade(folder, server, model="another")
  assert len(lines(folder)) == 4 * ANSWERS
  (row, *_) = grades.table([exam(folder)], "another", 1)
  assert row.ratings == 4
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
  assert rows(folder, 4)["plain"].missing == 4


def test_turns_weigh_the_same_whatever_is_missing(folder):
  def respond(body, number):
    text = shown(body)
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


@pytest.mark.parametrize("said", ["It is fine.", "[[11]]", None])
def test_a_reply_without_a_rating_is_kept_as_one(folder, said):
  def respond(body, number):
    limerick = "(81, 0)" in shown(body)
    return reply(said if limerick else "[[9]]")

  with double(respond) as server:
    assert grade(folder, server) == []
    # Those of question 81, in both turns; asked twice more each.
    assert len(server.asked) == ANSWERS + 2 * 6
    grade(folder, server)
    assert len(server.asked) == ANSWERS + 2 * 6
  without = [one for one in grades.read(folder).values() if one.rating is None]
  assert len(without) == 6
  for one in without:
    assert [each["text"] for each in one.replies] == [said or ""] * 3
  for row in rows(folder).values():
    assert row.by_question == {111: 9.0}
    assert (row.ratings, row.unparsed, row.missing) == (2, 2, 0)


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
    plain = rows(folder)["plain"]
    assert (plain.ratings, plain.missing) == (2, 2)
    server.respond = judges.scripted(reply("[[1]]"))
    grade(folder, server)
  assert len(server.asked) == len(lines(folder)) == ANSWERS + 2
  assert rows(folder)["plain"].by_question == {81: 1.0, 111: 7.0}


def test_runs_of_one_grid_are_taken_together(tmp_path):
  folders = [
    finished_run(tmp_path / "runs" / str(seed), seeds=(seed,))
    for seed in (0, 1)
  ]
  own = [exam(folder) for folder in folders]

  def respond(body, number):
    return reply("[[6]]" if "seed 1" in shown(body) else "[[4]]")

  with double(respond) as server:
    assert grading.grade(own, endpoint(server.url, MODEL), runs=1) == []
  plain, *_ = grades.table(own, MODEL, 1)
  assert plain.by_question == {81: 5.0, 111: 5.0}
  assert plain.ratings == 8
  configs = [store.read(folder).config for folder in folders]
  pairs = [*zip(configs, own, strict=True)]
  assert rendering.groups(pairs) == [(configs[0], own)]
  configs[1]["max_new_tokens"] += 1
  assert len(rendering.groups(pairs)) == 2


def test_the_paper_stands_beside_where_tree_and_rule_agree(tmp_path):
  folder = finished_run(tmp_path / "run", temperatures=(0.0, 1.0))
  empty, _ = rendering.rendered(grades.table([exam(folder)], MODEL), "none")
  for row in empty.rows:
    assert row[2:9] == [NOTHING, NOTHING, "0", "0", "0", "12", "0"]
  with double(judging) as server:
    grade(folder, server)
  found = grades.table([exam(folder)], MODEL, 1)
  cold, table = rendering.rendered(found, "a target by a judge")
  assert {row[-1] for row in cold.rows} == {NOTHING}  # at another temperature
  assert table.title == "a target by a judge, without_replacement, T = 1"
  own = {k: f"{v:.2f}" for k, v in paper.QUALITY["chain:5"].items()}
  assert [(row[0], row[1], row[-1]) for row in table.rows] == [
    (NOTHING, "plain", f"{paper.PLAIN_QUALITY:.2f}"),
    ("chain:5", "token_level", own["token_level"]),
    ("chain:5", "traversal", own["traversal"]),
  ]
  assert table.rows[2][2:9] == (
    ["7.00 ± 1.00", "+1.00 ± 0.00", "2", "4", "0", "0", "0"]
  )
  assert "6.77" in formats.markdown(table)
  _, other = rendering.rendered(found, "another task", beside=False)
  assert {row[-1] for row in other.rows} == {NOTHING}


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


def test_nobody_is_asked_any_more_once_it_is_over(folder):
  """Workers that wait to ask again do not, when another one ended all."""
  waiting = threading.Event()

  def respond(body, number):
    if number == 0:
      waiting.set()
      return trouble(429, **{"Retry-After-Ms": 300})
    waiting.wait(10)
    time.sleep(0.1)
    return trouble(403)

  with double(respond) as server:
    with pytest.raises(EndpointError, match="HTTP 403"):
      grade(folder, server, workers=2)
    asked = len(server.asked)
    time.sleep(0.6)
    assert len(server.asked) == asked


def test_requests_are_parallel_and_no_more_is_begun_than_is_kept(folder):
  """What a kill may lose are as many replies as there are workers."""
  busy, most, begun, lock = 0, 0, [], threading.Lock()

  def respond(body, number):
    nonlocal busy, most
    with lock:
      busy += 1
      most = max(most, busy)
    time.sleep(0.05)
    with lock:
      busy -= 1
    return reply()

  def advance(done, count):
    assert len(lines(folder)) == done
    begun.append(len(server.asked) - done)

  with double(respond) as server:
    grade(folder, server, workers=3, advance=advance)
  assert most == 3
  assert len(begun) == ANSWERS
  assert max(begun) <= 2


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
