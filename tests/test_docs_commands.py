"""Every other command and program of the documents runs as it stands.

The tutorials' commands, below which stands what they print, are in
test_docs.py.
"""

import re
import subprocess
import sys

import pytest

from experiments import names
from tests import documents
from tests.stores import ROOT

DOCUMENTS = [ROOT / "README.md", *sorted(documents.DOCS.glob("*.md"))]
# What is added to a command, so that it takes no minute: one question, of the
# 96 that its config asks, and where that is not its point fewer trees.
FEWER = (
  " --config.tasks=qa --config.per_task=1 --config.timing.per_task=0"
  " --config.max_new_tokens=24"
)
ONE_TREE = " --config.trees=chain:2"
LITTLE = (  # to tune
  " --config.tasks=qa --config.per_task=4 --config.trees=chain:2 --nodes=3"
  " --depth=2 --budgets=2 --tokens=8"
)
RUN = {
  "python -m tv_jax.certify --verifiers=my_rule:kseq": " --trees=branching:2",
  "python -m tv_jax.certify --verifiers=ot_traversal": " --trees=branching:2",
  "python -m tv_jax.main --config=configs/quickstart.py "
  '--config.trees="kary:2x5 eagle" --config.verifiers=ot_traversal '
  "--config.baseline=traversal --workdir=runs/pairs": FEWER + ONE_TREE,
  "python -m tv_jax.main --config=configs/quickstart.py "
  '--config.temperatures="0.6 1.0" --workdir=runs/mine': FEWER + ONE_TREE,
  "python -m tv_jax.main --config=configs/eagle_bundled.py": FEWER + ONE_TREE,
  "python -m tv_jax.main --config=configs/quickstart.py "
  "--config.questions=mine.jsonl --workdir=runs/asked": FEWER + ONE_TREE,
  "python -m tv_jax.main --config=configs/quickstart.py --workdir=runs/wide "
  '--config.trees="chain:2 grown:16" '
  '--config.verifiers="token_level traversal my_rule:decide" '
  '--config.temperatures="0.5 1.0" --config.seeds="0 1"': FEWER,
  'python -m tv_jax.main --config=configs/quickstart.py --config.trees="eagle '
  'adaptive:4,6,6,5,4" --workdir=runs/adaptive': FEWER,
  "python -m launch --experiments=all --config=configs/llama3_1b_8b.py "
  "--backend=print": "",
  "python -m tv_jax.replay run.npz": "",
  "python -m tv_jax.replay run.npz --bound": "",
  "python -m tv_jax.tune": f"{LITTLE} --out=small.json",
  **{
    f"python -m tv_jax.main --config=configs/quickstart.py:{told}": (
      FEWER + ONE_TREE
    )
    for told in ("tuned", "weak_tuned")
  },
  'python -m tv_jax.main --config=configs/quickstart.py --config.trees="eagle '
  'tree.json" --workdir=runs/tuned': FEWER,
  "python -m tv_jax.replay run.npz --verifiers=traversal,my_rule:decide": "",
  "python -m tv_jax.tune --calibrate=calibration.json": (
    f"{LITTLE} --notiming --out=calibrated.json"
  ),
  'python -m tv_jax.main --config=configs/quickstart.py --config.trees="eagle '
  'adaptive:5,5,5,5,5@bundled/calibrations/draft.json" '
  "--workdir=runs/calibrated": FEWER,
  'python -m tv_jax.main --config=configs/quickstart.py --config.trees="eagle '
  'adaptive:5,5,5,5,5@bundled/calibrations/draft.json" '
  "--config.verifiers=ot_traversal --config.baseline=traversal "
  "--workdir=runs/shaped": FEWER,
  "python -m tv_jax.main --config=configs/quickstart.py:weak "
  '--config.trees="kary:2x5 eagle" '
  '--config.proposals="without_replacement gated:0.5 gated:0.7" '
  "--config.verifiers=traversal --config.baseline=traversal "
  "--workdir=runs/gated": FEWER + ONE_TREE,
}
# What needs a network, a GPU, hours or a newcomer's machine, and who tries it.
ELSEWHERE = {
  "make run": "test_make_run_is_the_quickstart",
  "make test": ".ci/run",
  "hf auth login": "nobody: it asks for a key",
  "curl -L --create-dirs -o data/spec_bench/question.jsonl "
  "https://raw.githubusercontent.com/hemingkx/Spec-Bench/main/data/"
  "spec_bench/question.jsonl": "nobody: it asks the network",
  "python -m tv_jax.main --config=configs/llama3_1b_8b.py:smoke": (
    "test_real_pairs, with checkpoints of that layout"
  ),
  "python -m tv_jax.main --config=configs/llama3_1b_8b.py": "test_real_pairs",
  "python -m experiments.main_table runs/llama3_1b_8b": "test_experiments",
  "make experiments": "test_experiments_run, two of them, in little",
  "SMOKE=1 make experiments": "test_experiments_run",
  # docs/results.md has all of them.
  **{
    f"python -m experiments.{name}": "test_experiments_run, test_real_pairs"
    for name in names.NAMES
  },
  **{
    f"python -m experiments.frontier --config{told}": "test_frontier: its runs"
    for told in (
      '.seeds="0 1 2"',
      '.temperatures="0.6 1.0"',
      ".timing.per_task=5",
      "=configs/python_bundled.py",
      "=configs/eagle_bundled.py",
    )
  },
  **{
    f"python -m experiments.wide --config=configs/{told}": (
      "test_frontier: its runs"
    )
    for told in ("quickstart.py:weak", "python_bundled.py --config.per_task=24")
  },
  "python -m experiments.temperature --config=configs/llama3_1b_8b.py "
  "--workdir=runs/paper": "test_real_pairs",
  "python -m experiments.judge runs/experiments/quality "
  "--judge_url=http://localhost:8000 --judge_model=NAME "
  "--judge_key=JUDGE_KEY": "test_judge_command, with a double for the judge",
  **{
    "python -m tv_jax.main --config.models.devices=2 "
    f"--distributed=127.0.0.1:9876,2,{index}": "test_distributed"
    for index in range(2)
  },
  "git clone <this repository> && cd tv_jax && make .venv/.ready": ".ci/run",
  ".venv/bin/python -m pip install -e '.[cuda13,ray]'": "nobody: it is of GPUs",
  ".venv/bin/python -m pip install -e '.[cuda13]'": "nobody: it is of GPUs",
  "python -m launch --experiments=temperature "
  "--config=configs/llama3_1b_8b.py --backend=ray --workdir=runs/paper": (
    "test_launch_engines, with the bundled models"
  ),
  "python -m launch --experiments=temperature --workdir=runs/mine": (
    "test_launch_engines, another experiment"
  ),
  "ray start --head --port=6379": "test_launch_engines, by its own functions",
  "ray start --address=FIRST:6379": "test_launch_engines, likewise",
  "ray stop": "nobody: it ends all of a machine's clusters",
  "python -m launch --experiments=all --config=configs/llama3_1b_8b.py "
  "--backend=ray --address=auto --workdir=/shared/runs/paper": (
    "test_launch_engines, with the bundled models"
  ),
  "python -m launch status /shared/runs/paper": "test_launch_engines",
  "python -m launch --experiments=all --config=configs/llama3_1b_8b.py "
  "--backend=slurm --gpus_per_unit=1 --time=12:00:00 --partition=gpu "
  "--workdir=runs/paper": "test_launch_engines, with the bundled models",
  "python -m launch status runs/paper": "test_launch_engines",
  "python -m launch cancel runs/paper": "test_launch_engines",
  "python -m launch resume runs/paper": "test_launch_engines",
  "python -m tv_jax.audit": "test_audit, with fewer rows",
  'python -m benchmarks.minibench --drafts="draft draft_weak" --seeds=0,1,2': (
    "test_benchmarks, with fewer questions"
  ),
  "python -m benchmarks.peers --draft=tv_jax/assets/bundled/draft "
  "--target=tv_jax/assets/bundled/target "
  "--prompts=tv_jax/assets/bundled/minibench.jsonl --rounds=9 --tokens=128 "
  "--temperatures=1 --trees=chain:3,chain:5,eagle": "test_benchmarks",
  **{
    f"python -m benchmarks.minibench {told}": "test_benchmarks"
    for told in (
      '--drafts="draft draft_weak" --seeds=0,1,2',
      "--drafts=eagle",
      "--questions=python --template=raw",
    )
  },
  **{
    f"python -m tv_jax.tune {told}": "test_tune, or as `python -m tv_jax.tune`"
    for told in (
      "--nodes=62 --depth=6 --out=trees/deep.json",
      "--config=configs/quickstart.py:weak --verifiers=token_level",
      "wide.npz --nodes=16 --out=recorded.json",
    )
  },
  "python -m tv_jax.models.checkpoint convert SRC DST [--revision COMMIT]": (
    "test_models_loading"
  ),
  "python -m tv_jax.main [--config=configs/quickstart.py] "
  "[--config.field=value ...] [--workdir=DIR]": "a form, not a command",
}


def test_every_command_is_run_by_a_test():
  # Without a dollar sign before it.
  alone = r"(?=(?:SMOKE=1 )?(?:\S*python|make|curl|hf|pip|git|ray) )"
  found = [
    re.sub(r"\s+# .*", "", command.text)
    for path in DOCUMENTS
    for command in documents.commands_of(path.read_text(), alone)
  ]
  assert set(found) == {*RUN, *ELSEWHERE}


def test_make_run_is_the_quickstart():
  done = subprocess.run(
    ["make", "--no-print-directory", "--dry-run", "run"],
    cwd=ROOT,
    capture_output=True,
    text=True,
  )
  first, second, _ = done.stdout.splitlines()[-3:]
  assert first.endswith("-m tv_jax.main --config=configs/quickstart.py")
  assert "-m tv_jax.main --config=configs/quickstart.py:weak" in second


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  """A user's own, with the tutorial's rule, a recording and a tree."""
  folder = tmp_path_factory.mktemp("own")
  tutorial = (documents.DOCS / "new-verifier.md").read_text()
  for name, content in documents.files_of(tutorial).items():
    (folder / f"{name}.py").write_text(content)
  (folder / "tree.json").write_text('{"parents": [-1, 0, 0, 1], "nodes": 3}')
  (folder / "mine.jsonl").write_text('{"category": "qa", "prompt": "Who?"}')
  done = documents.run(documents.Command("python use.py", ""), folder)
  assert done.returncode == 0, done.stderr
  return folder


@pytest.mark.long
@pytest.mark.parametrize("command", RUN)
def test_a_command_runs_as_it_stands(command, folder):
  told = documents.Command(command + RUN[command], "")
  done = documents.run(told, folder)
  assert done.returncode == 0, done.stderr
  assert "Traceback" not in done.stderr
  assert done.stdout.strip()
  if "my_rule" in command and "main" not in command:
    assert re.search(r"my_rule:\w+", done.stdout)
  if workdir := re.search(r"--workdir=(\S+)", command):
    run = folder / workdir[1]
    assert (run / "DONE").exists()
    assert (run / "report.html").exists()
    if "my_rule" in command:
      assert "my_rule:decide" in (run / "cells.csv").read_text()


def programs():
  """(document, block) of each Python program that is not a tutorial's file."""
  return [
    pytest.param(path.name, block, id=f"{path.name}-{i}")
    for path in DOCUMENTS
    for i, block in enumerate(
      re.findall(r"^```python\n(.*?)^```$", path.read_text(), re.M | re.S)
    )
    if not re.match(r"# (\w+)\.py(, continued)?\n", block)
    and path.name != "replay.md"  # another program's: test_replay has it
  ]


# What a program is given that its document leaves to the reader.
GIVEN = {
  "models.md": """
import jax.numpy as jnp
from tv_jax import models
from tv_jax.edge import reading
from tv_jax.models import mask as masks
real = models.load, models.load_eagle
paths = {"path/or/owner/name": "target", "another": "draft"}
models.load = lambda path, **_: real[0](reading.BUNDLED / paths[path])
models.load_eagle = lambda _, target: real[1](reading.BUNDLED/"eagle", target)
tokens = jnp.ones((4, 3), int)
positions = jnp.broadcast_to(jnp.arange(3), (4, 3))
mask = masks.causal(jnp.zeros(4, int), 3, 2048)
""",
}


@pytest.mark.long
@pytest.mark.parametrize(("document", "program"), programs())
def test_a_program_runs_as_it_stands(document, program, tmp_path):
  (tmp_path / "program.py").write_text(GIVEN.get(document, "") + program)
  told = documents.Command("python program.py", "")
  done = documents.run(told, tmp_path)
  assert done.returncode == 0, done.stderr


def named():
  """The modules that a document names as commands, and that have flags."""
  texts = [path.read_text() for path in DOCUMENTS]
  found = re.findall(r"python -m ([\w.]+\w)", "\n".join(texts))
  return sorted(set(found) - {"pytest"})


@pytest.mark.long
@pytest.mark.parametrize("module", named())
def test_a_named_command_has_help(module):
  done = subprocess.run(
    [sys.executable, "-m", module, "--help"],
    cwd=ROOT,
    capture_output=True,
    text=True,
  )
  assert done.returncode in (0, 1), done.stderr  # absl's --help is 1
  assert "Traceback" not in done.stderr
  assert len(done.stdout) > 60
