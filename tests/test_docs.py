"""The tutorials' files run, and their commands print what they say."""

import contextlib
import importlib
import json
import pathlib
import shutil
import sys

import jax
import numpy as np
import pytest

from tests import documents
from tv_jax import certify, tree
from tv_jax.proposals import PROPOSALS
from tv_jax.verifiers import DOWN, resolve

TUTORIAL = documents.DOCS / "new-verifier.md"
PROPOSAL = documents.DOCS / "new-proposal.md"


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
  """The tutorial's files, imported: {name: module}."""
  folder = tmp_path_factory.mktemp("tutorial")
  files = documents.files_of(TUTORIAL.read_text())
  del files["use"]  # a program, which writes a file where it is run
  for name, content in files.items():
    (folder / f"{name}.py").write_text(content)
  sys.path.insert(0, str(folder))
  try:
    with contextlib.chdir(folder):  # use.py writes its recording here
      made = {name: importlib.import_module(name) for name in files}
    yield made
  finally:
    sys.path.remove(str(folder))
    for name in files:
      sys.modules.pop(name, None)


def check(rule, shape, proposal="with_replacement", cases=9):
  own = certify.Settings(cases=cases)
  return certify.check(resolve(rule), PROPOSALS[proposal], shape, own)


def test_the_rule_is_lossless_and_gains_what_it_is_said_to(modules, x64):
  rule = modules["my_rule"].kseq
  assert (rule.name, rule.walk) == ("kseq", DOWN)
  for proposal in ("with_replacement", "without_replacement"):
    found = check(rule, tree.from_parents([-1, 0, 0, 1]), proposal)
    assert found.lossless, certify.spell_out(found.failure)
  found = check(rule, tree.kary(2, 2), cases=27)
  assert f"{found.expected:.4f} {found.gain:+.2%}" in TUTORIAL.read_text()
  assert found.shorter == 0


def test_the_broken_rule_is_caught_at_two_children(modules, x64):
  rule = modules["broken_rule"].decide
  assert check(rule, tree.chain(2)).lossless
  found = check(rule, tree.kary(2, 1))
  assert not found.lossless
  assert found.failure.law_broken
  assert not found.failure.contract_broken
  assert found.distance > 1e-2


def test_the_comparison_runs(modules):
  compare = modules["compare"]
  gained = np.asarray(compare.gains(jax.random.key(0), tree.chain(2)))
  assert gained.shape == (3,)
  token_level, traversal, kseq = gained
  assert kseq == pytest.approx(token_level, rel=1e-5)
  assert traversal > token_level - 1e-5


# Those that are quick; the others' numbers are looked at above, and what needs
# a checkout of one's own is not run.
QUICK = [
  (TUTORIAL, "python laws.py"),
  (
    TUTORIAL,
    '--verifiers=my_rule:kseq --proposals=with_replacement --trees="chain:2',
  ),
  pytest.param(
    TUTORIAL, "--verifiers=broken_rule:decide ", marks=pytest.mark.long
  ),
  pytest.param(
    PROPOSAL,
    "--verifiers=traversal,token_level --proposals",
    marks=pytest.mark.long,
  ),
  (PROPOSAL, "--verifiers=traversal --proposals"),
]


@pytest.mark.parametrize(("document", "begun"), QUICK)
def test_a_command_prints_what_the_document_says(document, begun, tmp_path):
  text = document.read_text()
  documents.write_files(text, tmp_path)
  (command,) = [one for one in documents.commands_of(text) if begun in one.text]
  done = documents.run(command, tmp_path)
  caught = "NOT LOSSLESS" in command.printed or "WRONG" in command.printed
  assert done.returncode == caught, done.stderr
  assert "Traceback" not in done.stderr
  assert command.printed.strip()
  assert documents.missing(command, done) == []


def test_a_rule_of_ones_own_in_a_run_a_recording_and_a_replay(tmp_path):
  text = TUTORIAL.read_text()
  documents.write_files(text, tmp_path)
  words = ("tv_jax.main", "use.py", "tv_jax.replay")
  commands = [
    one
    for one in documents.commands_of(text)
    if any(word in one.text for word in words)
  ]
  assert len(commands) == 3
  for command in commands:
    done = documents.run(command, tmp_path)
    assert done.returncode == 0, done.stderr
    assert documents.missing(command, done) == []
  items = [
    json.loads(line)
    for line in (tmp_path / "runs/kseq/items.jsonl").read_text().splitlines()
  ]
  traces = [
    item | {"cycles": item["trace"]} for item in items if "trace" in item
  ]
  assert {"my_rule:kseq", "token_level"} == {t["verifier"] for t in traces}
  for trace in traces:
    for cycle in trace["cycles"]:
      assert cycle["walks"][trace["verifier"]]["node"] == cycle["node"]
  (again, *_) = commands
  with (tmp_path / "my_rule.py").open("a") as source:
    source.write("# another rule\n")
  done = documents.run(again, tmp_path)
  assert done.returncode == 2
  assert "my_rule:kseq" in done.stderr
  assert len(done.stderr.splitlines()) == 1


# The rules' tutorial does the same in make test.
@pytest.mark.long
def test_a_proposal_of_ones_own_in_a_run_a_recording_and_a_replay(tmp_path):
  text = PROPOSAL.read_text()
  documents.write_files(text, tmp_path)
  *_, run, ask, replayed = documents.commands_of(text)
  for command in (run, ask, replayed):
    done = documents.run(command, tmp_path)
    assert done.returncode == 0, done.stderr
    # The bundled models' numbers are not the same on another processor.
    assert documents.missing(command, done, numbers=False) == []
  page = (tmp_path / "runs/mine/report.html").read_text()
  assert "my_proposal:mine" in page
  # What a file names is not imported.
  unnamed = replayed.text.replace("--proposals=my_proposal:mine", "")
  done = documents.run(replayed._replace(text=unnamed), tmp_path)
  assert done.returncode == 2
  assert "--proposals=my_proposal:mine" in done.stderr
  assert len(done.stderr.splitlines()) == 1


@pytest.mark.long
def test_a_rule_is_put_into_the_package(tmp_path):
  text = TUTORIAL.read_text()
  checkout = tmp_path / "tv_jax"
  shutil.copytree(
    documents.ROOT,
    checkout,
    ignore=lambda folder, names: [
      name
      for name in names
      if name.startswith(".")
      or (name == "runs" and pathlib.Path(folder) == documents.ROOT)
    ],
  )
  for name, content in documents.files_of(text).items():
    (checkout / f"{name}.py").write_text(content)
  copy, *others = documents.commands_of(text[text.index("## 7.") :])
  assert documents.run(copy, checkout).returncode == 0
  table = checkout / "tv_jax/verifiers/table.py"
  code = table.read_text()
  code = code.replace("import block,", "import block, kseq,", 1)
  last = "    k_seq.RULE,\n"
  code = code.replace(last, last + "    kseq.kseq,\n", 1)
  assert code.count("kseq") == 3
  table.write_text(code)
  assert len(others) == 2
  for command in others:
    done = documents.run(command, checkout, path=checkout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert documents.missing(command, done) == []
