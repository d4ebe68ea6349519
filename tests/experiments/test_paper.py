"""The paper's numbers agree; every file in configs/ is a run, and says so."""

import importlib
import itertools
import math
import pathlib

import pytest

from experiments import paper
from tv_jax import runs
from tv_jax.runs.records import TASKS

MAIN = (paper.LLAMA3.table, paper.LLAMA2.table)


def test_printed_deltas_are_those_of_the_cells():
  printed = paper.TABLES.dropna(subset="delta")
  assert len(printed) == 3 * (2 * 8 + 5)
  for (_, row, _), cells in printed.iterrows():
    # Half of the last digit of a cell.
    half = 0.05 if row == "tokens_per_second" else 0.005
    base, best = cells["token_level"], cells["traversal"]
    least, most = (best - half) / (base + half), (best + half) / (base - half)
    assert 100 * least - 100.05 <= cells["delta"] + 1e-9, cells
    assert 100 * most - 99.95 >= cells["delta"] - 1e-9, cells


@pytest.mark.parametrize("table", MAIN)
def test_averages_are_those_of_the_tasks(table):
  rows = paper.TABLES.loc[table]
  for tree, rule in itertools.product(paper.TREES, paper.VERIFIERS):
    means = rows.xs(tree, level="tree")[rule]
    average = math.fsum(means[[*TASKS]]) / len(TASKS)
    # Both are rounded: each by half of a hundredth at most.
    assert abs(average - means["average"]) <= 0.01 + 1e-9


ROOT = pathlib.Path(__file__).parents[2]
REAL = (
  "llama3_1b_8b",
  "llama2_68m_7b",
  "llama3_eagle3",
  "qwen3_8b",
  "vicuna_eagle",
)
CONFIGS = sorted(
  {path.stem for path in (ROOT / "configs").glob("*.py")} - {"common"}
)


def module(name):
  return importlib.import_module(f"configs.{name}")


def checked(config):
  """The settings; Spec-Bench's questions need not be here."""
  config.questions = "minibench"
  return runs.from_config(config)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_is_a_run(name):
  settings = checked(module(name).get_config())
  assert settings.experiment == name
  assert settings.verifiers == ("token_level", "traversal")
  assert settings.temperatures == (1.0,)
  assert f"python -m tv_jax.main --config=configs/{name}.py" in (
    module(name).__doc__
  )
  with pytest.raises(ValueError, match=f"'no-such': {name} takes"):
    module(name).get_config("no-such")


@pytest.mark.parametrize("name", REAL)
def test_a_real_pair_runs_as_the_paper_did(name):
  config = module(name).get_config()
  assert config.questions == "spec_bench:data/spec_bench/question.jsonl"
  settings = checked(config)
  assert settings.trees == paper.TREES
  assert settings.verifiers == paper.VERIFIERS
  assert len(settings.seeds) == 3
  assert (settings.max_new_tokens, settings.max_tokens) == (1024, 1960)
  assert settings.plain
  short = checked(module(name).get_config("smoke"))
  assert (short.models, short.trees) == (settings.models, settings.trees)
  assert (short.per_task, short.timing.per_task, len(short.seeds)) == (2, 1, 1)
