import ast
import errno
import itertools
import json
import os
import sys

import pytest

from tests import bad
from tests.stores import (
  CONFIG,
  ENVIRONMENT,
  ROOT,
  enter,
  fill,
  item,
  one_line,
  run,
)
from tv_jax.edge.disk import StoreError, write_atomic
from tv_jax.runs import store as store_lib
from tv_jax.runs.store import unit_id

SEPARATORS = "a\u2028b\u2029c\x85d\x1ce\rf\ng\0h"


@pytest.fixture
def folder(tmp_path):
  return tmp_path / "runs" / "main" / "unit"


@pytest.fixture
def filled(folder):
  return fill(folder)


def test_a_unit_is_written_and_read(folder):
  with enter(folder) as store:
    assert store.environment_changes == []
    for number in (2, 0, 1):
      store.append(item(number))
    store.save_timing({"methods": []})
    assert not store_lib.read(folder).done
    store.finish()
    assert store.get(item(1).key) == item(1)
    assert item(1).key in store
    assert store.get(item(3).key) is None
    assert item(3).key not in store
  lines = (folder / "items.jsonl").read_bytes().split(b"\n")
  assert [json.loads(line)["question"] for line in lines[:-1]] == [2, 0, 1]
  assert lines[-1] == b""
  unit = store_lib.read(folder)
  assert unit.config == CONFIG
  assert unit.environments == [ENVIRONMENT]
  assert unit.items == (item(0), item(1), item(2)) == store.items
  assert unit.timing == {"methods": []}
  assert unit.done
  assert {path.name for path in folder.iterdir()} == {
    *("config.json", "env.json", "items.jsonl", "timing.json", "DONE", "lock")
  }


def test_an_empty_unit_is_read(folder):
  enter(folder).close()
  assert store_lib.read(folder) == store_lib.Unit(
    folder=folder,
    config=CONFIG,
    environments=[ENVIRONMENT],
    items=(),
    timing=None,
    done=False,
    answered=False,
  )


def test_all_units_below_a_folder_are_read(tmp_path, filled):
  other = fill(tmp_path / "runs" / "b")
  with enter(other) as store:
    store.finish()
  model = tmp_path / "runs" / "model"
  model.mkdir()
  (model / "config.json").write_text('{"model_type": "llama"}')
  units = store_lib.read_many(tmp_path / "runs")
  assert [unit.folder for unit in units] == [other, filled]
  assert [unit.done for unit in units] == [True, False]
  assert units[1] == store_lib.read(filled)
  assert store_lib.read_many(str(other)) == units[:1]
  assert store_lib.read_many(model) == ()
  with pytest.raises(StoreError, match="nowhere cannot be read: No such"):
    store_lib.read_many(tmp_path / "nowhere")
  (filled / "config.json").unlink()
  with pytest.raises(ValueError, match=r"unit is no unit .* no config\.json"):
    store_lib.read_many(tmp_path)


def test_the_order_of_items_is_not_that_of_the_lines(tmp_path):
  questions = ["b", 10, 9, "a", 2.5]
  orders = itertools.permutations(questions)
  for number, order in enumerate(itertools.islice(orders, 0, None, 20)):
    folder = tmp_path / str(number)
    with enter(folder) as store:
      for question in order:
        store.append(item(question))
    found = [one.question for one in store.items]
    assert found == [2.5, 9, 10, "a", "b"]
    assert store_lib.read(folder).items == store.items


def test_any_text_survives(folder):
  texts = [SEPARATORS, "\ud83d half a pair", "日本語 ß 🦊", '"\\', ""]
  with enter(folder) as store:
    for number, text in enumerate(texts):
      store.append(item(number, text=text))
  assert (folder / "items.jsonl").read_bytes().count(b"\n") == len(texts)
  assert "日本語".encode() in (folder / "items.jsonl").read_bytes()
  assert [one.text for one in store_lib.read(folder).items] == texts
  with enter(folder) as store:
    assert [one.text for one in store.items] == texts


def test_a_record_is_kept_as_a_reader_sees_it(folder):
  with enter(folder) as store:
    store.append(item(0, tokens=(1, 2)))
    assert store.items[0].tokens == [1, 2]
  assert store_lib.read(folder).items == store.items


@pytest.mark.parametrize(
  "value",
  [float("nan"), float("inf"), {"x": [-float("inf")]}, object(), {1, 2}],
)
def test_what_is_no_json_is_refused(folder, value):
  with enter(folder) as store:
    store.append(item(0))
    before = (folder / "items.jsonl").read_bytes()
    with pytest.raises(ValueError, match=r"question 1, .* is no JSON"):
      store.append(item(1, expected=value))
    with pytest.raises(ValueError, match="the timing is no JSON"):
      store.save_timing({"seconds": value})
    assert (folder / "items.jsonl").read_bytes() == before
    store.append(item(1))
  with pytest.raises(ValueError, match="the config is no JSON"):
    unit_id({"x": value})


def test_an_item_is_written_once(filled):
  with enter(filled) as store:
    with pytest.raises(ValueError, match=r"question 1, .* is there already"):
      store.append(item(1, text="another"))
    assert store_lib.read(filled).items == store.items


def test_nothing_is_written_after_close(filled):
  store = enter(filled)
  store.close()
  store.close()
  enter(filled).close()
  for act in (lambda: store.append(item(5)), store.finish):
    with pytest.raises(ValueError, match="is closed"):
      act()


def test_done_is_taken_back(filled):
  with enter(filled) as store:
    store.finish()
    store.append(item(3))
    assert not store_lib.read(filled).done
    store.finish()
  with enter(filled) as store:
    assert store_lib.read(filled).done
    with pytest.raises(ValueError, match="already"):
      store.append(item(3))
    assert store_lib.read(filled).done
    store.append(item(4))
    assert not store_lib.read(filled).done


def test_another_config_is_refused_by_every_difference(folder):
  old = {"seeds": [0], "a": {"b": {"c": 1, "gone": None}}}
  new = {"seeds": [0, 1], "a": {"b": {"c": True}, "new": {}}}
  old["same"], new["same"] = [{"x": 1, "y": 2}], ({"y": 2, "x": 1},)
  with enter(folder, old) as store:
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


def test_a_config_without_items_may_be_mended(folder):
  enter(folder).close()
  mended = CONFIG | {"seeds": [1]}
  with enter(folder, mended) as store:
    assert store_lib.read(folder).config == mended
    store.append(item(0))
  with pytest.raises(ValueError, match="seeds"):
    enter(folder)
  assert store_lib.read(folder).config == mended


def test_the_config_reads_well(folder):
  enter(folder, {"b": [1], "a": "ü"}).close()
  expected = '{\n  "a": "ü",\n  "b": [\n    1\n  ]\n}\n'
  assert (folder / "config.json").read_text(encoding="utf-8") == expected


def test_environments_are_listed(folder):
  newer = {"jax": "0.11.0", "device": "cpu", "date": "2026-02-01"}
  with enter(folder) as store:
    assert store.environments == [ENVIRONMENT]
  with enter(folder, environment={**ENVIRONMENT, "date": "later"}) as store:
    assert store.environments == [ENVIRONMENT]
    assert store.environment_changes == []
  with enter(folder, environment=newer) as store:
    assert store.environments == [ENVIRONMENT, newer]
    assert store.environment_changes == ['jax: "0.10.2" there, "0.11.0" now']
  with enter(folder) as store:
    assert store.environment_changes == []
  assert store_lib.read(folder).environments == [ENVIRONMENT, newer]


def test_the_unit_id_is_the_same_in_every_process():
  config = {"b": 1, "a": {"z": [1.5, None], "ü": (1, 2)}}
  told = run(f"print(store.unit_id({ {'a': config['a'], 'b': 1} }))")
  assert told.strip() == unit_id(config)
  assert len(unit_id(config)) == 12
  assert unit_id({**config, "b": 2}) != unit_id(config)


def edit(filled, change):
  path = filled / "items.jsonl"
  lines = path.read_bytes().splitlines(keepends=True)
  path.write_bytes(b"".join(change(lines)))
  return path


@pytest.mark.parametrize(
  ("change", "told"),
  [
    (lambda lines: [lines[0], lines[1][:20] + b"\n", lines[2]], "line 2: no"),
    (lambda lines: [lines[0], b"\n", lines[2]], "line 2: no JSON"),
    (lambda lines: [lines[0][:-1], *lines[1:]], "line 1: no JSON"),
    (lambda lines: [b"\xff" + lines[0], *lines[1:]], "line 1: no JSON"),
    (lambda lines: [*lines[:2], b"{}\n"], "line 3: an item without task"),
    (lambda lines: [*lines[:2], b"7\n"], "line 3: an item must be"),
    (lambda lines: [*lines[:2], b'{"task\n', b'{"ta'], "line 3: no JSON"),
    (lambda lines: [*lines[:2], b"[" * 100_000 + b"\n", lines[2]], "deeply"),
    (lambda lines: [*lines[:2], b'{"a": NaN}\n', lines[2]], "line 3: no JSON"),
    (lambda lines: [*lines, lines[0]], "lines 1 and 4: the same item task qa"),
  ],
)
def test_what_no_crash_explains_is_told(filled, change, told):
  path = edit(filled, change)
  before = path.read_bytes()
  for act in (enter, store_lib.read):
    with pytest.raises(ValueError, match=told) as caught:
      act(filled)
    assert str(path) in one_line(caught)
  assert path.read_bytes() == before


@pytest.mark.parametrize("kind", ["folder", "pipe", "device"])
def test_items_that_are_no_file(filled, kind):
  bad.place(filled / "items.jsonl", kind)
  for act in (enter, store_lib.read):
    with pytest.raises(ValueError, match="cannot be read") as told:
      act(filled)
    one_line(told)


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


def test_folders_that_cannot_be(tmp_path):
  file = tmp_path / "file"
  file.write_text("x")
  for path in (file, file / "unit"):
    with pytest.raises(StoreError, match="cannot be made") as caught:
      enter(path)
    assert str(path) in one_line(caught)
    with pytest.raises(ValueError, match="is no unit"):
      store_lib.read(path)
  assert file.read_text() == "x"


def test_what_is_no_unit(tmp_path, filled):
  for path in (tmp_path, tmp_path / "nothing"):
    with pytest.raises(ValueError, match="is no unit") as caught:
      store_lib.read(path)
    assert str(path) in one_line(caught)
  for name in ("config.json", "env.json", "timing.json"):
    path = filled / name
    before = path.read_bytes() if path.exists() else b"{}"
    for damage in (b'{"a":', b"7", b"\xff", b"[" * 100_000):
      path.write_bytes(damage)
      with pytest.raises(ValueError, match=name):
        store_lib.read(filled)
    for kind in ("folder", "pipe", "device"):
      bad.place(path, kind)
      with pytest.raises(ValueError, match=f"{name} cannot be read"):
        store_lib.read(filled)
      (path.rmdir if kind == "folder" else path.unlink)()
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


def test_a_file_has_the_usual_permissions(tmp_path):
  (tmp_path / "usual").touch()
  write_atomic(tmp_path / "own", "")
  assert (tmp_path / "own").stat().st_mode == (
    tmp_path / "usual"
  ).stat().st_mode


def test_only_the_standard_library():
  package = ROOT / "tv_jax"
  modules = package / "runs/records.py", package / "edge/reading.py"
  own = ("tv_jax.runs.store", "tv_jax.runs", "tv_jax.edge")
  for path in (*modules, *(package / "runs/store").glob("*.py")):
    for node in ast.walk(ast.parse(path.read_text())):
      if isinstance(node, ast.Import):
        assert {one.name for one in node.names} <= sys.stdlib_module_names
      elif isinstance(node, ast.ImportFrom):
        top = node.module.split(".")[0]
        assert top in sys.stdlib_module_names or node.module.startswith(own)


def test_a_config_of_no_run_is_not_written_over(tmp_path):
  """A model's folder has one, and no items."""
  config = tmp_path / "config.json"
  config.write_text('{"model_type": "llama"}')
  with pytest.raises(ValueError, match="is of no run: give") as told:
    enter(tmp_path)
  assert str(tmp_path) in one_line(told)
  assert config.read_text() == '{"model_type": "llama"}'
