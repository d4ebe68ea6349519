"""A run's folder: killed writers, torn lines, two writers, full disks."""

import errno
import itertools
import json
import os
import random
import re
import signal
import subprocess
import time

import pytest

from tests.lib.stores import (
  CONFIG,
  ENVIRONMENT,
  enter,
  fill,
  item,
  program,
  run,
)
from tv_jax.io import disk
from tv_jax.io.disk import StoreError
from tv_jax.runs import store as store_lib
from tv_jax.runs.records import key_of

BEGUN = {"questions": "1", "target/config.json": "2", "target/weights": "3"}


def test_a_run_is_written_and_read(folder):
  with enter(folder) as store:
    store.begin(3)
    assert store_lib.read(folder) == store_lib.StoredRun(
      folder=folder,
      config=CONFIG,
      environments=[ENVIRONMENT],
      items=(),
      timing=None,
      done=False,
    )
    for number in (2, 0, 1):
      store.append(item(number))
    timing = {"methods": [], "environment": {}}
    store.save_timing(timing)
    assert not store_lib.read(folder).done
    store.finish()
    assert store.answers[key_of(item(1))] == item(1)
    assert key_of(item(3)) not in store.answers
  lines = (folder / "items.jsonl").read_bytes().split(b"\n")
  assert [json.loads(line)["question"] for line in lines[:-1]] == [2, 0, 1]
  assert lines[-1] == b""
  unit = store_lib.read(folder)
  assert unit.items == (item(0), item(1), item(2))
  assert (unit.timing, unit.done) == (timing, True)
  assert {path.name for path in folder.iterdir()} == {
    *("config.json", "env.json", "sources.json", "items.jsonl", "timing.json"),
    *("COUNT", "DONE", "lock"),
  }


def test_all_runs_below_a_folder_are_read(tmp_path, filled):
  other = fill(tmp_path / "runs" / "b")
  with enter(other) as store:
    store.finish()
  model = tmp_path / "runs" / "model"
  model.mkdir()
  (model / "config.json").write_text('{"model_type": "llama"}')
  units = store_lib.read_many(tmp_path / "runs")
  assert [unit.folder for unit in units] == [other, filled]
  assert [unit.done for unit in units] == [True, False]
  # A model's folder has a config, and no items: it is not written over.
  with pytest.raises(ValueError, match="is not a run's config: give"):
    enter(model)
  (filled / "config.json").unlink()
  with pytest.raises(
    ValueError, match=r"unit is not a run's .* no config\.json"
  ):
    store_lib.read_many(tmp_path)
  with pytest.raises(
    ValueError, match="with another config: baseline: nothing"
  ):
    enter(filled)


def test_any_text_survives_and_tuples_are_lists(folder):
  texts = ["a\u2028b\x85d\x1ce\rf\ng\0h", "\ud83d half a pair", "ß 🦊", '"\\']
  with enter(folder) as store:
    store.begin(len(texts))
    for number, text in enumerate(texts):
      store.append(item(number, text=text, tokens=(1, 2)))
    assert store.answers[key_of(item(0))]["tokens"] == [1, 2]
  assert (folder / "items.jsonl").read_bytes().count(b"\n") == len(texts)
  assert [answer["text"] for answer in store_lib.read(folder).items] == texts


def test_what_is_no_item_is_refused(filled):
  with enter(filled) as store:
    before = (filled / "items.jsonl").read_bytes()
    with pytest.raises(ValueError, match="not JSON compliant"):
      store.append(item(3, expected={"x": [float("nan")]}))
    with pytest.raises(ValueError, match=r"question 1, .* is there already"):
      store.append(item(1, text="another"))
    assert (filled / "items.jsonl").read_bytes() == before
    store.append(item(3))


def test_done_is_taken_back(filled):
  with enter(filled) as store:
    store.finish()
  with enter(filled) as store:
    assert store.done
    store.begin(4)
    assert not store_lib.read(filled).done


def test_another_config_is_refused_by_every_difference(folder):
  old = {"seeds": [0], "a": {"b": {"c": 1, "gone": None}}, "same": [{"x": 1}]}
  new = {"seeds": [0, 1], "a": {"b": {"c": True}}, "same": ({"x": 1},)}
  enter(folder, new).close()
  with enter(folder, old) as store:  # nothing was made of the other
    store.begin(1)
    store.append(item(0))
  message = re.escape(
    "a.b.c: 1 there, true now; a.b.gone: null there, nothing now: give the"
    " config"
  )
  with pytest.raises(ValueError, match=message):
    enter(folder, new)
  # Nothing is held after a refusal; tuples are lists.
  enter(folder, {**old, "seeds": (0,)}).close()


def test_a_grid_may_grow_and_nothing_else(folder):
  old = {"seeds": [0, 2], "trees": ["eagle"], "plain": False, "top_k": 0}
  grown = {"seeds": [0, 1, 2], "trees": ["chain:2", "eagle"], "plain": True}
  with enter(folder, old) as store:
    store.begin(1)
    store.append(item(0))
    store.finish()
  with enter(folder, old | grown) as store:
    store.begin(6)
  assert store_lib.read(folder).config == old | grown
  assert not store_lib.read(folder).done
  for change, message in (
    ({"seeds": [0, 1]}, r"seeds: \[0, 1, 2\] there, \[0, 1\] now"),
    ({"seeds": [2, 1, 0]}, r"seeds: .*, \[2, 1, 0\] now"),
    ({"plain": False}, "plain: true there, false now"),
    ({"seeds": [0, 1, 2, 3], "top_k": 5}, "config: top_k: 0 there, 5 now:"),
  ):
    with pytest.raises(ValueError, match=message):
      enter(folder, old | grown | change)
  assert store_lib.read(folder).config == old | grown


def test_a_grown_grid_that_is_refused_leaves_the_folder_as_it_was(folder):
  with enter(folder, CONFIG | {"seeds": [0]}) as store:
    store.keep_sources(BEGUN)
    store.begin(1)
    store.append(item(0))
    store.finish()
  before = {path.name: path.read_bytes() for path in folder.iterdir()}
  with enter(folder, CONFIG | {"seeds": [0, 1]}) as store:
    store.keep_sources(BEGUN | {"rules/a:c": "4"})
    with pytest.raises(ValueError, match="began: target"):
      store.keep_sources(BEGUN | {"target": "another"})
  after = {path.name: path.read_bytes() for path in folder.iterdir()}
  del before["lock"], after["lock"]
  assert after == before


def test_a_grown_grids_sources_are_new(tmp_path):
  before = BEGUN | {"trees/eagle": "1", "rules/a:b": "2"}
  keep(tmp_path, before)
  with enter(tmp_path) as store:
    store.append(item(1))
  grown = before | {"trees/chain:2": "3", "rules/a:c": "4"}
  keep(tmp_path, grown)
  assert json.loads((tmp_path / "sources.json").read_text()) == grown
  for name in ("trees/eagle", "trees/chain:2", "rules/a:b"):
    with pytest.raises(ValueError, match=f"began: {name}:"):
      keep(tmp_path, grown | {name: "x"})


@pytest.mark.parametrize("name", ["rules/traversal", "rules/token_level"])
def test_a_rule_with_answers_that_gets_a_hash_is_refused(tmp_path, name):
  """Its package was installed before, and is a file of the user's now."""
  keep(tmp_path, BEGUN)
  with enter(tmp_path) as store:
    store.append(item(1))
  with pytest.raises(ValueError, match=f"began: {name}:"):
    keep(tmp_path, BEGUN | {name: "4"})


def test_environments_are_listed(folder):
  newer = {"jax": "0.11.0", "device": "cpu", "date": "2026-02-01"}
  later = {**ENVIRONMENT, "date": "later"}
  for environment in (ENVIRONMENT, later, newer, ENVIRONMENT):
    with enter(folder, environment=environment) as store:
      store.begin(1)
  enter(folder, environment={**newer, "jax": "0.12.0"}).close()
  assert store_lib.read(folder).environments == [ENVIRONMENT, newer]


def keep(folder, sources):
  with enter(folder) as store:
    store.keep_sources(sources)
    store.begin(1)


def test_changed_sources_are_refused_by_name(tmp_path):
  keep(tmp_path, {"questions": "0"})
  keep(tmp_path, BEGUN)  # nothing was made of the others
  with enter(tmp_path) as store:
    store.append(item(1))
  keep(tmp_path, BEGUN)
  changed = {"questions": "x", "target/config.json": "2", "target/more": "4"}
  with pytest.raises(
    ValueError, match="began: questions, target/more, target/weights: put"
  ):
    keep(tmp_path, changed)
  assert json.loads((tmp_path / "sources.json").read_text()) == BEGUN


@pytest.mark.parametrize(
  ("change", "told"),
  [
    (lambda lines: [lines[0], b"\n", lines[2]], "line 2: not JSON"),
    (lambda lines: [*lines, lines[0]], "line 4: item task qa.* is there twice"),
    (lambda lines: [b"{}\n"], "line 1: no 'task': an older version made it"),
  ],
)
def test_what_no_crash_explains_is_told(filled, change, told):
  path = filled / "items.jsonl"
  lines = path.read_bytes().splitlines(keepends=True)
  path.write_bytes(b"".join(change(lines)))
  before = path.read_bytes()
  for act in (enter, store_lib.read):
    with pytest.raises(ValueError, match=told):
      act(filled)
  assert path.read_bytes() == before


def resume_torn(filled, tail):
  """Replaces the last line by other bytes, and resumes."""
  path = filled / "items.jsonl"
  whole = path.read_bytes()
  path.write_bytes(whole[: whole.rindex(b"\n", 0, -1) + 1] + tail)
  assert store_lib.read(filled).items == (item(0), item(1))
  with enter(filled) as store:
    assert [*store.answers.values()] == [item(0), item(1)]
    store.append(item(2))
  assert path.read_bytes() == whole
  assert store_lib.read(filled).items == (item(0), item(1), item(2))


def test_torn_tails_of_every_length_are_cut(filled, monkeypatch):
  # Another test covers fsync; here it would take seconds.
  monkeypatch.setattr(os, "fsync", lambda descriptor: None)
  line = (filled / "items.jsonl").read_bytes().split(b"\n")[2]
  for length in range(len(line) + 1):
    resume_torn(filled, line[:length])


@pytest.mark.parametrize(
  "tail", [b"\0" * 50 + b"\n", b'{"task": "qa\0\0\0\0\n', b"\n"]
)
def test_bytes_that_are_no_json_are_cut(filled, tail):
  resume_torn(filled, tail)


def test_what_is_written_is_on_the_disk(filled, monkeypatch):
  calls, fsync = [], os.fsync
  monkeypatch.setattr(os, "fsync", lambda x: (calls.append(x), fsync(x)))
  with (filled / "items.jsonl").open("ab") as file:
    file.write(b'{"task"')
  with enter(filled) as store:
    assert len(calls) == 2  # the cut, and the file's name
    store.append(item(3))
    assert len(calls) == 3
    store.finish()
    assert len(calls) == 5  # the file and its name


WRITER = """
from tv_jax.runs.records import key_of
with enter(sys.argv[1]) as unit:
  unit.begin(int(sys.argv[2]))
  file = unit._file
  class Slow:  # a disk that takes its time: kills tear lines
    def write(self, data):
      time.sleep(0.001)
      return file.write(data[:4000])
    def __getattr__(self, name):
      return getattr(file, name)
  if sys.argv[3] == "slow":
    unit._file = Slow()
  for question in range(int(sys.argv[2])):
    answer = item(question, 1 + question * 7919 % 20_000)
    if key_of(answer) not in unit.answers:
      unit.append(answer)
  unit.finish()
"""


def kill(process, path, size):
  """Kills a writer when the file has reached a size."""
  limit = time.monotonic() + 30
  while process.poll() is None and time.monotonic() < limit:
    if path.exists() and path.stat().st_size >= size:
      break
  process.kill()
  return process.wait()


def test_a_killed_writer_loses_nothing(folder):
  count, kills = 100, 0
  undisturbed = b"".join(
    disk.to_bytes(item(question, 1 + question * 7919 % 20_000))
    for question in range(count)
  )
  path = folder / "items.jsonl"
  rng, data, torn = random.Random(0), b"", 0
  for number in range(12):
    size = len(data) + rng.randint(number > 0, len(undisturbed) // 20)
    speed = "slow" if number % 3 else "fast"
    with subprocess.Popen(program(WRITER, folder, count, speed)) as process:
      kills += kill(process, path, size) == -signal.SIGKILL
    before, data = data, path.read_bytes()
    torn += data[-1:] not in (b"", b"\n")
    assert undisturbed.startswith(data)
    assert len(data) >= before.rfind(b"\n") + 1
    unit = store_lib.read(folder)
    assert len(unit.items) == data.count(b"\n")
    assert unit.done == (len(unit.items) == count)
  assert kills >= 8
  assert torn >= 1
  run(WRITER, folder, count, "fast")
  assert path.read_bytes() == undisturbed
  assert len(store_lib.read(folder).items) == count
  assert store_lib.read(folder).done


HOLDER = """
with enter(sys.argv[1]):
  print("on", flush=True)
  sys.stdin.read()
"""


def test_a_second_process_is_refused(filled):
  process = subprocess.Popen(
    program(HOLDER, filled), stdin=subprocess.PIPE, stdout=subprocess.PIPE
  )
  with process:
    process.stdout.readline()
    with pytest.raises(StoreError, match=str(process.pid)):
      enter(filled)
    assert len(store_lib.read(filled).items) == 3
    process.kill()
  # A dead process leaves the lock's file, but holds no lock.
  with enter(filled) as store:
    store.append(item(3))


FULL = """
folder, limit = sys.argv[1], int(sys.argv[2])
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
with enter(folder) as unit:
  resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
  try:
    for question in range(3, 100):
      unit.append(item(question))
  except store.StoreError as error:
    print(error)
  try:  # nothing follows half a line
    unit.append(item(question))
  except ValueError as error:
    assert "closed" in str(error)
  else:
    raise AssertionError
  assert pathlib.Path(folder, "items.jsonl").stat().st_size <= limit
  assert store.read(folder).items == (*unit.answers.values(),)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
with enter(folder) as unit:
  unit.append(item(question))
"""


def test_a_file_that_may_not_grow(filled):
  limit = (filled / "items.jsonl").stat().st_size + 100
  message = run(FULL, filled, limit)
  ends = itertools.accumulate(
    len(disk.to_bytes(item(question))) for question in range(100)
  )
  count = sum(end <= limit for end in ends)
  assert f"the {count} items before it are safe" in message
  assert f"cannot write item task qa, question {count}" in message
  assert os.strerror(errno.EFBIG) in message
  expected = tuple(map(item, range(count + 1)))
  assert store_lib.read(filled).items == expected


def test_an_error_of_a_full_disk_names_the_file(tmp_path):
  path = tmp_path / "timing.json"
  path.write_text("before")
  with (
    pytest.raises(OSError, match=re.escape(str(path))),
    disk.atomic_open(path),
  ):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
  assert path.read_text() == "before"
  assert [*tmp_path.iterdir()] == [path]
