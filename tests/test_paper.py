"""The paper's numbers agree; every file in configs/ is a run, and says so."""

import importlib
import itertools
import math
import pathlib

import pytest

from experiments import paper
from tv_jax import runs
from tv_jax import tree as tree_lib
from tv_jax.edge import reading

TABLES = {table.label: table for table in (paper.LLAMA3, paper.LLAMA2)}


def rows():
  """(name, half of the last digit of its cells, row) of every row."""
  for label, table in TABLES.items():
    for task, row in table.acceptance.items():
      yield f"{label} {task}", 0.005, row
    yield f"{label} average", 0.005, table.average_acceptance
    yield f"{label} speed", 0.05, table.tokens_per_second
  for temperature, row in paper.TEMPERATURES.items():
    yield f"temperature {temperature}", 0.005, row


def deltas(cells, half):
  """The least and the largest delta in percent, before its own rounding."""
  low, high = (
    (cells.traversal.mean + sign * half)
    / (cells.token_level.mean - sign * half)
    for sign in (-1, 1)
  )
  return 100 * (low - 1), 100 * (high - 1)


def odd(cells, half):
  """Whether no numbers behind the rounded cells can give the delta."""
  low, high = deltas(cells, half)
  return not low - 0.05 - 1e-9 <= cells.delta <= high + 0.05 + 1e-9


def test_printed_deltas_are_those_of_the_cells():
  found = [
    (name, shape)
    for name, half, row in rows()
    for shape, cells in row.items()
    if odd(cells, half)
  ]
  assert not found


@pytest.mark.parametrize("label", TABLES)
def test_averages_are_those_of_the_tasks(label):
  table = TABLES[label]
  for shape, verifier in itertools.product(paper.TREES, paper.VERIFIERS):

    def mean(row, shape=shape, verifier=verifier):
      return getattr(row[shape], verifier).mean

    average = math.fsum(map(mean, table.acceptance.values())) / 6
    # Both are rounded: each by half of a hundredth at most.
    assert abs(average - mean(table.average_acceptance)) <= 0.01 + 1e-9


ROOT = pathlib.Path(__file__).parents[1]
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


@pytest.mark.parametrize("arg", ["tuned", "weak_tuned"])
def test_the_quickstart_s_tuned_tree_is_of_eagle_s_size(arg):
  """And of the same draft, which is to be as cool as it was then."""
  settings = runs.from_config(module("quickstart").get_config(arg))
  (name,) = settings.trees
  assert len(tree_lib.parse(name)) == len(tree_lib.EAGLE_SPARSE)
  assert tree_lib.parse(name).max_depth == tree_lib.EAGLE_SPARSE.max_depth
  told = reading.json_object(reading.place_of(name))
  assert settings.models.draft == told["draft"]
  assert settings.draft_temperature == 0
  assert settings.temperatures == (told["temperature"],)
  assert settings.experiment == f"quickstart_{arg}"
  assert settings.verifiers == ("ot_traversal",)


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
