"""Every file in configs/ is a run, and says how to start it."""

import importlib
import pathlib

import pytest

from experiments import paper
from tv_jax import runs
from tv_jax import tree as tree_lib
from tv_jax.edge import reading

ROOT = pathlib.Path(__file__).parents[1]
BUNDLED = ("quickstart", "eagle_bundled", "python_bundled", "smoke")
REAL = ("llama3_1b_8b", "llama2_68m_7b", "vicuna_eagle")
CONFIGS = (*BUNDLED, *REAL)


def module(name):
  return importlib.import_module(f"configs.{name}")


def checked(config):
  """The settings; Spec-Bench's questions need not be here."""
  config.questions = "minibench"
  return runs.from_config(config)


def test_no_file_is_forgotten():
  others = {"common"}
  files = {path.stem for path in (ROOT / "configs").glob("*.py")}
  assert files == {*CONFIGS, *others}


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


def test_python_is_asked_as_it_is():
  settings = runs.from_config(module("python_bundled").get_config())
  assert (settings.questions, settings.models.template) == ("python", "raw")
  assert not settings.exact_match


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
  assert settings.timing.per_task > 1
  short = checked(module(name).get_config("smoke"))
  assert short.experiment == f"{name}_smoke"
  assert (short.models, short.trees) == (settings.models, settings.trees)
  assert (short.per_task, short.timing.per_task, len(short.seeds)) == (2, 1, 1)


@pytest.mark.parametrize(
  ("name", "table"),
  [("llama3_1b_8b", paper.LLAMA3), ("llama2_68m_7b", paper.LLAMA2)],
)
def test_the_papers_numbers_are_the_papers(name, table):
  lines = module(name).__doc__.splitlines()
  for tree in paper.TREES:
    (line,) = (x.split() for x in lines if x.strip().startswith(f"{tree} "))
    row, speed = table.average_acceptance[tree], table.tokens_per_second[tree]
    shown = [float(word.rstrip("%")) for word in line[1:] if word != "±"]
    assert shown == [
      *row.token_level,
      *row.traversal,
      row.delta,
      speed.token_level.mean,
      speed.traversal.mean,
    ]


def test_the_papers_statistics_are_the_papers():
  lines = module("vicuna_eagle").__doc__.splitlines()
  for tree in paper.TREES:
    (line,) = (x.split() for x in lines if x.strip().startswith(f"{tree} "))
    shown = [float(word.strip("()x")) for word in line[1:]]
    for rule, numbers in zip(
      paper.VERIFIERS, (shown[:3], shown[3:]), strict=True
    ):
      own = paper.STATISTICS[tree][rule]
      assert numbers == [own.by_item, own.by_token, own.speedup]
