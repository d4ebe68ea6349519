"""A run's folder: what is written is read again; what is damaged is told."""

import errno
import itertools
import json
import os

import pytest

from tests import bad
from tests.stores import CONFIG, ENVIRONMENT, enter, fill, item, one_line
from tv_jax.edge.disk import StoreError, write_atomic
from tv_jax.runs import store as store_lib


def test_a_run_is_written_and_read(folder):
  with enter(folder) as store:
    assert store_lib.read(folder) == store_lib.Unit(
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
    assert store[item(1).key] == item(1)
    assert item(1).key in store
    assert item(3).key not in store
  lines = (folder / "items.jsonl").read_bytes().split(b"\n")
  assert [json.loads(line)["question"] for line in lines[:-1]] == [2, 0, 1]
  assert lines[-1] == b""
  unit = store_lib.read(folder)
  assert unit.items == (item(0), item(1), item(2)) == store.items
  assert (unit.timing, unit.done) == (timing, True)
  assert {path.name for path in folder.iterdir()} == {
    *("config.json", "env.json", "items.jsonl", "timing.json", "DONE", "lock")
  }


def test_all_runs_below_a_folder_are_read(tmp_path, filled):
  other = fill(tmp_path / "runs" / "b")
  with enter(other) as store:
    store.finish()
  model = tmp_path / "runs" / "model"
  model.mkdir()
  (model / "config.json").write_text('{"model_type": "llama"}')
  units = store_lib.read_many(tmp_path / "runs")
  assert [(one.folder, one.done) for one in units] == [
    (other, True),
    (filled, False),
  ]
  assert store_lib.read_many(str(other)) == units[:1]
  assert store_lib.read_many(model) == ()
  with pytest.raises(StoreError, match="nowhere cannot be read: No such"):
    store_lib.read_many(tmp_path / "nowhere")
  (filled / "config.json").unlink()
  with pytest.raises(ValueError, match=r"unit is no run's .* no config\.json"):
    store_lib.read_many(tmp_path)
  # A model's folder has a config, and no items: it is not written over.
  with pytest.raises(ValueError, match="is of no run: give"):
    enter(model)


def test_the_order_of_items_is_not_that_of_the_lines(tmp_path):
  orders = itertools.permutations(["b", 10, 9, "a", 2])
  for number, order in enumerate(itertools.islice(orders, 0, None, 20)):
    folder = tmp_path / str(number)
    with enter(folder) as store:
      for question in order:
        store.append(item(question))
    assert [one.question for one in store.items] == [2, 9, 10, "a", "b"]
    assert store_lib.read(folder).items == store.items


def test_any_text_survives_and_tuples_are_lists(folder):
  separators = "a\u2028b\u2029c\x85d\x1ce\rf\ng\0h"
  texts = [separators, "\ud83d half a pair", "日本語 ß 🦊", '"\\', ""]
  with enter(folder) as store:
    for number, text in enumerate(texts):
      store.append(item(number, text=text, tokens=(1, 2)))
    assert store.items[0].tokens == [1, 2]
  assert (folder / "items.jsonl").read_bytes().count(b"\n") == len(texts)
  assert "日本語".encode() in (folder / "items.jsonl").read_bytes()
  assert [one.text for one in store_lib.read(folder).items] == texts
  with enter(folder) as again:
    assert again.items == store.items


@pytest.mark.parametrize("value", [float("nan"), {"x": [-float("inf")]}, {1}])
def test_what_is_no_json_is_refused(filled, value):
  with enter(filled) as store:
    before = (filled / "items.jsonl").read_bytes()
    with pytest.raises(ValueError, match=r"question 3, .* is no JSON"):
      store.append(item(3, expected=value))
    with pytest.raises(ValueError, match="the timing is no JSON"):
      store.save_timing({"seconds": value})
    assert (filled / "items.jsonl").read_bytes() == before
    store.append(item(3))


def test_an_item_is_written_once_and_none_after_close(filled):
  with enter(filled) as store:
    with pytest.raises(ValueError, match=r"question 1, .* is there already"):
      store.append(item(1, text="another"))
    assert store_lib.read(filled).items == store.items
  store.close()  # again
  for act in (lambda: store.append(item(5)), store.finish):
    with pytest.raises(ValueError, match="is closed"):
      act()


def test_done_is_taken_back(filled):
  with enter(filled) as store:
    store.finish()
  with enter(filled) as store:
    assert store.done
    with pytest.raises(ValueError, match="already"):
      store.append(item(2))
    assert store_lib.read(filled).done
    store.append(item(3))
    assert not store_lib.read(filled).done


def test_another_config_is_refused_by_every_difference(folder):
  old = {"seeds": [0], "a": {"b": {"c": 1, "gone": None}}}
  new = {"seeds": [0, 1], "a": {"b": {"c": True}, "new": {}}}
  old["same"], new["same"] = [{"x": 1, "y": 2}], ({"y": 2, "x": 1},)
  enter(folder, new).close()
  with enter(folder, old) as store:  # nothing was made of the other
    store.append(item(0))
  written = (folder / "config.json").read_bytes()
  with pytest.raises(ValueError, match="another config") as caught:
    enter(folder, new)
  assert one_line(caught) == (
    f"{folder} was made with another config: a.b.c: 1 there, true now;"
    " a.b.gone: null there, nothing now; a.new: nothing there, {} now;"
    " seeds: [0] there, [0, 1] now: give the config that is there, or another"
    " --workdir"
  )
  assert (folder / "config.json").read_bytes() == written
  # Nothing is held after a refusal; tuples are lists.
  enter(folder, {**old, "seeds": (0,)}).close()


def test_environments_are_listed(folder):
  newer = {"jax": "0.11.0", "device": "cpu", "date": "2026-02-01"}
  later = {**ENVIRONMENT, "date": "later"}
  change = ['jax: "0.10.2" there, "0.11.0" now']
  given = (ENVIRONMENT, []), (later, []), (newer, change), (ENVIRONMENT, [])
  for environment, changes in given:
    with enter(folder, environment=environment) as store:
      assert store.environment_changes == changes
  assert store_lib.read(folder).environments == [ENVIRONMENT, newer]


@pytest.mark.parametrize(
  ("change", "told"),
  [
    (lambda lines: [lines[0], b"\n", lines[2]], "line 2: no JSON"),
    (lambda lines: [lines[0][:-1], *lines[1:]], "line 1: no JSON"),
    (lambda lines: [*lines[:2], b"{}\n"], "line 3: task is missing"),
    (lambda lines: [*lines[:2], b"[" * 100_000 + b"\n", lines[2]], "deeply"),
    (lambda lines: [*lines, lines[0]], "lines 1 and 4: the same item task qa"),
  ],
)
def test_what_no_crash_explains_is_told(filled, change, told):
  path = filled / "items.jsonl"
  lines = path.read_bytes().splitlines(keepends=True)
  path.write_bytes(b"".join(change(lines)))
  before = path.read_bytes()
  for act in (enter, store_lib.read):
    with pytest.raises(ValueError, match=told) as caught:
      act(filled)
    assert str(path) in one_line(caught)
  assert path.read_bytes() == before


def test_a_folder_that_is_gone(filled):
  with enter(filled) as store:
    moved = filled.rename(filled.with_name("moved"))
    for act in (
      lambda: store.append(item(3)),
      lambda: store.save_timing({}),
      store.finish,
    ):
      with pytest.raises(StoreError, match="No such file") as caught:
        act()
      assert str(filled) in one_line(caught)
    # Another process has made it again.
    with enter(filled), pytest.raises(StoreError, match="not as this process"):
      store.append(item(3))
  assert len(store_lib.read(moved).items) == 3


def test_what_is_no_run(tmp_path, filled):
  file = tmp_path / "file"
  file.write_text("x")
  for path in (file, file / "unit"):
    with pytest.raises(StoreError, match="cannot be made"):
      enter(path)
  for path in (file, tmp_path, tmp_path / "nothing"):
    with pytest.raises(ValueError, match="is no run's folder") as caught:
      store_lib.read(path)
    assert str(path) in one_line(caught)
  for name in ("config.json", "env.json", "timing.json", "items.jsonl"):
    path = filled / name
    before = path.read_bytes() if path.exists() else None
    for damage in (b'{"a":\n', b"7\n", b"\xff\n1\n", b"[" * 100_000 + b"\n1\n"):
      path.write_bytes(damage * 2)
      with pytest.raises(ValueError, match=name):
        store_lib.read(filled)
    for kind in ("folder", "pipe", "device"):
      bad.place(path, kind)
      with pytest.raises(ValueError, match=f"{name} cannot be read"):
        store_lib.read(filled)
      (path.rmdir if kind == "folder" else path.unlink)()
    if before is not None:
      path.write_bytes(before)
  (filled / "config.json").unlink()
  with pytest.raises(ValueError, match=r"but no config\.json"):
    enter(filled)


@pytest.mark.parametrize("name", ["fsync", "replace"])
def test_a_file_is_whole_or_as_it_was(tmp_path, monkeypatch, name):
  def fail(*_):
    raise OSError(errno.EIO, os.strerror(errno.EIO))

  path = tmp_path / "table.md"
  write_atomic(path, "old ü")
  with monkeypatch.context() as patch:
    patch.setattr(os, name, fail)
    with pytest.raises(StoreError, match="cannot be written") as caught:
      write_atomic(path, "new")
  assert str(path) in one_line(caught)
  assert path.read_text(encoding="utf-8") == "old ü"
  assert [one.name for one in tmp_path.iterdir()] == ["table.md"]
  write_atomic(str(path), "new\r\n")
  assert path.read_bytes() == b"new\r\n"
  # With the usual permissions.
  (tmp_path / "usual").touch()
  assert path.stat().st_mode == (tmp_path / "usual").stat().st_mode
