"""The tutorials' files run, and their commands print the documented text."""

import json
import pathlib
import re
import shutil

import pytest

from tests.lib import documents

TUTORIAL = documents.DOCS / "new-verifier.md"
PROPOSAL = documents.DOCS / "new-proposal.md"


# In `make test`; the others take longer.
QUICK = (
  "python laws.py",
  '--verifiers=my_rule:kseq --proposals=with_replacement --trees="chain:2',
)


def alone():
  """Each command that needs no other's output."""
  for document in (TUTORIAL, PROPOSAL):
    text = document.read_text().partition("## 7.")[0]
    for command in documents.commands_of(text):
      if re.search(r"certify|laws\.py|(compare|paired)\.py", command.text):
        quick = any(words in command.text for words in QUICK)
        marks = () if quick else pytest.mark.long
        yield pytest.param(document, command, id=command.text, marks=marks)


@pytest.mark.parametrize(("document", "command"), [*alone()])
def test_a_command_prints_what_the_document_says(document, command, tmp_path):
  documents.write_files(document.read_text(), tmp_path)
  done = documents.run(command, tmp_path)
  caught = "NOT LOSSLESS" in command.printed or "WRONG" in command.printed
  assert done.returncode == caught, done.stderr
  assert "Traceback" not in done.stderr
  assert command.printed.strip()
  assert documents.missing(command, done) == []


def run_all(commands, folder, path=documents.ROOT, *, numbers=True):
  """Each command succeeds and prints its documented output."""
  for command in commands:
    done = documents.run(command, folder, path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert documents.missing(command, done, numbers=numbers) == []


def refused(command, folder, words):
  done = documents.run(command, folder)
  assert done.returncode == 2
  assert words in done.stderr
  assert len(done.stderr.splitlines()) == 1


@pytest.mark.long
def test_a_rule_of_ones_own_in_a_run_a_recording_and_a_replay(tmp_path):
  text = TUTORIAL.read_text()
  documents.write_files(text, tmp_path)
  commands = [
    command
    for command in documents.commands_of(text)
    if re.search(r"tv_jax\.main|use\.py|tv_jax\.replay", command.text)
  ]
  assert len(commands) == 3
  run_all(commands, tmp_path)
  items = [
    json.loads(line)
    for line in (tmp_path / "runs/kseq/items.jsonl").read_text().splitlines()
  ]
  shown = [item for item in items if "trace" in item]
  assert {"my_rule:kseq", "token_level"} == {x["verifier"] for x in shown}
  for item in shown:
    for cycle in item["trace"]:
      assert cycle["walks"][item["verifier"]]["node"] == cycle["node"]
  with (tmp_path / "my_rule.py").open("a") as source:
    source.write("# another rule\n")
  refused(commands[0], tmp_path, "my_rule:kseq")


# The rules' tutorial does the same in make test.
@pytest.mark.long
def test_a_proposal_of_ones_own_in_a_run_a_recording_and_a_replay(tmp_path):
  text = PROPOSAL.read_text()
  documents.write_files(text, tmp_path)
  *commands, replayed = documents.commands_of(text)[-3:]
  # The bundled models' numbers are not the same on another processor.
  run_all([*commands, replayed], tmp_path, numbers=False)
  page = (tmp_path / "runs/mine/report.html").read_text()
  assert "my_proposal:mine" in page
  # What a file names is not imported.
  unnamed = replayed.text.replace("--proposals=my_proposal:mine", "")
  named = "--proposals=my_proposal:mine"
  refused(replayed._replace(text=unnamed), tmp_path, named)


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
  last = "    block.RULE,\n"
  code = code.replace(last, last + "    kseq.kseq,\n", 1)
  assert code.count("kseq") == 3
  table.write_text(code)
  assert len(others) == 2
  run_all(others, checkout, path=checkout)
