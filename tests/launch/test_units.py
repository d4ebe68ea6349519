"""Sweeps: units cover the experiment's runs, and finished units are skipped."""

import dataclasses
import json
import pathlib
import sys

import pytest

from experiments import experiment
from launch import on_ray, on_slurm, units
from tv_jax import runs
from tv_jax.io import config_flag
from tv_jax.runs import sources, store

# Of ml_collections, which loads the configs.
pytestmark = pytest.mark.filterwarnings("ignore:the load_module")
ARGV = ("launch", "--config=quickstart")


def expand(name, argv=ARGV, workdir="runs", **options):
  where = argv, pathlib.Path(workdir)
  return [*units.expand(experiment.find(name), *where, **options)]


@pytest.mark.parametrize("name", experiment.NAMES)
@pytest.mark.parametrize("smoke", [False, True])
def test_units_are_what_the_experiment_runs(name, smoke):
  planned = experiment.planned(experiment.find(name), [""], smoke)
  for unit, run in zip(expand(name, [""], smoke=smoke), planned, strict=True):
    flags = [x for x in unit.command if x.startswith("--config")]
    ((config, _),) = config_flag.several(["", *flags], ()).values()
    assert runs.from_config(config) == run.settings == unit.settings
    assert unit.folder == pathlib.Path("runs", unit.name)


def test_flags_of_a_unit():
  """A flag that is given twice would join both tuples in ml_collections."""
  argv = (*ARGV, "--config.seeds=0,1", "--config.per_task", "2")
  usual = expand("main_table", argv)
  split = expand("main_table", argv, gpus=2)
  for two, unit in zip(split, usual, strict=True):
    assert sum(flag.startswith("--config.seeds=") for flag in unit.command) == 1
    assert "--config.per_task=2" in unit.command
    assert unit.settings.per_task == 2
    assert "--config.models.devices=2" in two.command
    assert (unit.gpus, two.gpus) == (1, 2)
    assert two.settings.models.devices == 2
  assert [unit.settings.seeds for unit in usual] == [(0,), (1,)]


@pytest.fixture
def finished(tmp_path):
  """A finished unit; its tree is in a file."""
  tree = tmp_path / "tree.json"
  tree.write_text("[-1, 0]")
  argv = (*ARGV, f"--config.trees={tree}")
  unit, *_ = expand("temperature", argv, workdir=tmp_path)
  settings = unit.settings
  with store.Store(unit.folder, runs.to_dict(settings), {}) as results:
    assert (unit.state, unit.done) == ("running", False)
    questions = runs.read_questions(settings)
    results.keep_sources(sources.hashes(settings, questions))
    results.begin(0)
    results.finish()
  return unit, tree


def test_what_is_done_is_left_out_if_it_is_the_same(finished):
  unit, tree = finished
  assert unit.done
  assert unit.progress.endswith("temperature-0.2: done, 0 of 0 answers")
  other = dataclasses.replace(unit.settings, max_new_tokens=7)
  assert not unit._replace(settings=other).done
  # A field of another version: the run names it, and its folder.
  file = unit.folder / store.CONFIG
  kept = store.load(file)
  file.write_text(json.dumps(kept | {"gone": 1}))
  assert not unit.done
  file.write_text(json.dumps(kept))
  assert unit.done
  # All that can change is in tests/runs/test_sources.py.
  tree.write_text("[-1, 0, 0]")
  assert not unit.done


def test_a_unit_that_stopped_says_why(finished):
  unit, _ = finished
  (unit.folder / "DONE").unlink()
  assert unit.state == "waiting"
  unit.log.write_text("Traceback ..\nValueError: no room\n\n")
  assert unit.progress.endswith("stopped, 0 of 0 answers: ValueError: no room")


def test_an_element_of_the_array_is_a_unit(finished):
  unit, _ = finished
  command = ("echo", "it's", "$HOME")
  text = on_slurm.script([unit, unit._replace(command=command)])
  assert f"1) exec echo 'it'\"'\"'s' '$HOME' >> {unit.log} 2>&1 ;;" in text


def test_the_jobs_of_a_sweep_make_no_folder_before_they_run(tmp_path):
  folder = tmp_path / "sweep"
  sweep = expand("temperature", workdir=folder)
  jobs = on_slurm.jobs(sweep, folder, ["make", "tables"], 2, "--time=1:00:00")
  shown = "\n".join(map(str, jobs))
  assert on_slurm.script(sweep) in shown
  assert f"--array=0-{len(sweep) - 1}%2 " in shown
  assert shown.count("--time=1:00:00 <<'EOF'\n#!/bin/bash\n") == 2
  assert shown.endswith("exec make tables\nEOF")
  assert not folder.exists()


def test_ray_that_is_not_installed_says_how_to_get_it(monkeypatch):
  monkeypatch.setitem(sys.modules, "ray", None)
  with pytest.raises(ValueError, match=r"pip install 'ray>=2.40'$"):
    on_ray.run([], None, 1, None)
