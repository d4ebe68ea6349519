import json
import subprocess
import sys

import numpy as np
import pytest

from benchmarks import common, decode, gpu_shapes, peers
from tests import checkpoints, commands
from tv_jax import models
from tv_jax.models import products


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
  """Flags that name a tiny pair."""
  folder = tmp_path_factory.mktemp("pair")
  config = checkpoints.tiny(num_hidden_layers=1)
  for seed, name in enumerate(("target", "draft")):
    models.save(folder / name, checkpoints.ours(config, seed))
  return [f"--{name}={folder / name}" for name in ("target", "draft")]


def cells(markdown, row):
  """Those of a row of each table that has it."""
  return [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in markdown.splitlines()
    if line.startswith(f"| {row} ")
  ]


@pytest.mark.long
def test_decode_writes_every_row(pair, tmp_path, capsys):
  path = tmp_path / "decode.md"
  flags = [
    *pair,
    "--trees=chain:1",
    "--verifiers=token_level",
    "--batches=2",
    "--tokens=6",
    "--rounds=3",
    "--profile",
    f"--markdown={path}",
  ]
  decode.main(["decode", *flags])
  written, printed = path.read_text(), capsys.readouterr().out
  for name in ("plain", "chain:1 token_level"):
    rows = cells(written, name)
    assert len(rows) == 1
    assert rows == cells(printed, name)
    assert all(len(row) == len(decode.HEADER) for row in rows)
    assert all(int(row[1]) > 0 for row in rows)
    assert f"{name}, 2 at a time: " in written  # the profile
  for _, _, ratio, accepted, check, _ in cells(written, "chain:1 token_level"):
    assert " to " in ratio
    assert 1 <= float(accepted.split(" ± ")[0]) <= 2
    difference, error = map(float, check.split(" ± "))
    assert abs(difference) < 5 * error
  for text in ("# Decoding", "jax ", " cores", "python -m benchmarks.decode"):
    assert text in written
  assert common.RANDOM not in written


@pytest.mark.parity
def test_peers_write_every_row(pair, tmp_path, capsys):
  path = tmp_path / "peers.md"
  flags = [
    *pair,
    "--trees=chain:1",
    "--verifier=token_level",
    "--temperatures=0",
    "--tokens=6",
    "--rows=2",
    "--rounds=2",
    f"--markdown={path}",
  ]
  peers.main(["peers", *flags])
  written = path.read_text()
  for name in (
    "tv_jax, plain",
    "tv_jax, chain:1",
    "tv_jax, plain, 2 rows",
    "transformers, plain, 1 thread",
    "transformers, assisted, default, 1 thread",
    "transformers, assisted, constant 5, 1 thread",
    "transformers, plain, 1 thread, 2 rows",
  ):
    rows = [row for row in cells(written, name) if row[0] == name]
    assert len(rows) == 1
    assert all(int(row[1]) > 0 for row in rows)
  verdicts = [
    line.strip("|").split("|")[-1].strip()
    for line in written.splitlines()
    if ">= " in line
  ]
  assert len(verdicts) == 4
  assert set(verdicts) <= {"met", "missed"}
  assert "transformers 5." in written
  assert "Goals, temperature 0" in capsys.readouterr().out


@pytest.mark.parity
def test_both_sides_decode_greedily_alike(pair):
  """The same weights: what is timed is the same work."""
  import torch

  import tv_jax

  target, draft = (flag.partition("=")[2] for flag in pair)
  peer = peers.Peer(target, draft, 12)
  prompts = [[1, 5, 9, 11], [7, 8]]
  both = tv_jax.load(None, target, draft_kind="none")
  ours = tv_jax.generate(
    both, prompts, verifier=None, temperature=0, max_new_tokens=12, ends=()
  )
  for tokens, prompt in zip(ours.tokens, prompts, strict=True):
    with torch.inference_mode():
      out = peer.target.generate(
        torch.tensor([prompt]), max_new_tokens=12, do_sample=False
      )
    assert out[0, len(prompt) :].tolist() == tokens
  assert peer.plain(1, 1.0, prompts) == 24
  assert peer.assisted(5, 1, 0.0, prompts[:1]) == 12


@pytest.mark.parametrize(
  "command", [decode, pytest.param(peers, marks=pytest.mark.parity)]
)
@pytest.mark.parametrize(
  ("flags", "message"),
  [
    (["--trees=oak"], "--trees: tree 'oak'"),
    (["--nonsense=1"], "Unknown command line flag 'nonsense'"),
    (["--tokens=many"], "flag --tokens=many"),
    (["--rounds=0"], "flag --rounds=0"),
    (["--draft=nowhere"], "give both --draft and --target"),
    (["--draft=no.where", "--target=no.where"], "neither a directory nor"),
    (["--prompts=nowhere.txt"], "--prompts=nowhere.txt: No such file"),
    (["--markdown=no/where.md"], "--out=no/where.md: there is no folder no"),
    (["extra"], "unexpected argument 'extra'"),
  ],
)
def test_what_is_wrong_is_said_in_one_line(command, flags, message):
  with pytest.raises(SystemExit, match=message) as error:
    command.main(["command", *flags])
  assert "\n" not in error.value.code  # printed, with exit status 1


@pytest.mark.parametrize(
  ("flags", "message"),
  [
    (["--batches=1,0"], "--batches=1,0: give whole numbers of 1 or more"),
    (["--batches=two"], "--batches=two: give whole numbers"),
    (["--verifiers=luck"], "--verifiers 'luck': not one of"),
    (["--verifiers=block", "--trees=eagle"], "nothing to compare"),
    (["--proposal=luck"], "proposal 'luck': not one of"),
    (["--temperature=-1"], "temperature=-1.0: give 0"),
    (["--draft_kind=owl"], "--draft_kinds=owl: not one of"),
    (["--tokens=5000"], "do not fit in the model's 1024 positions"),
  ],
)
def test_decode_refuses(flags, message):
  with pytest.raises(SystemExit, match=message):
    decode.main(["decode", *flags])


def test_a_wrong_flag_is_status_1():
  run = subprocess.run(
    [sys.executable, "-m", "benchmarks.decode", "--batches=0"],
    capture_output=True,
    text=True,
    check=False,
  )
  assert run.returncode == 1
  assert run.stderr == "--batches=0: give whole numbers of 1 or more\n"
  assert not run.stdout


def test_without_pytorch_the_extra_is_named(monkeypatch):
  monkeypatch.setitem(sys.modules, "torch", None)
  with pytest.raises(SystemExit, match=r"needs PyTorch: .*\[parity\]"):
    peers.main(["peers"])


def test_random_weights_are_labelled():
  for kind in ("llama", "eagle"):
    pair = gpu_shapes.random_pair(kind)
    assert common.RANDOM in common.describe(pair, True)
    # As `tv_jax.load` has them, or what is timed is not what people run.
    assert products.are_turned(pair.target.params)
    assert products.are_turned(pair.draft.params)
    prompts = common.read_prompts(None, pair, "raw")
    common.check(pair, prompts, {"max_new_tokens": 128})


def test_prompts_of_the_commonest_size_are_read(tmp_path, monkeypatch):
  class Pair:
    path = "somewhere"

  def encode(pair, texts, template, limit):
    return [list(range(len(text))) for text in texts]

  monkeypatch.setattr(common.batches, "encode", encode)
  questions = [
    {"question_id": i, "category": "any", "turns": ["x" * length, "more"]}
    for i, length in enumerate((3, 40, 16, 9))
  ]
  path = tmp_path / "questions.jsonl"
  path.write_text("".join(json.dumps(own) + "\n" for own in questions))
  read = common.read_prompts(str(path), Pair(), "raw")
  assert list(map(len, read)) == [3, 16, 9]
  path = tmp_path / "lines.txt"
  path.write_text("one\n\nthree\n")
  assert list(map(len, common.read_prompts(str(path), Pair(), "raw"))) == [3, 5]
  path.write_text("")
  with pytest.raises(ValueError, match="no prompts in it"):
    common.read_prompts(str(path), Pair(), "raw")
  path = tmp_path / "broken.jsonl"
  path.write_text('{"turns": ["x"]}\n{"turns": []}\n')
  with pytest.raises(ValueError, match="line 2 is no question"):
    common.read_prompts(str(path), Pair(), "raw")


def test_rounds_have_prompts_and_numbers_of_their_own():
  prompts = [[0], [1], [2]]
  assert common.rows_of(prompts, 2, 0) == ([[0], [1]], [0, 1])
  assert common.rows_of(prompts, 2, 1) == ([[2], [0]], [2, 3])


def test_in_a_race_all_take_turns():
  order = []

  def method(name):
    return lambda turn: order.append((turn, name)) or (name, turn)

  results = common.race(
    {name: method(name) for name in "abcd"}, 5, 0, say=lambda text: None
  )
  assert results == {name: [(name, i) for i in range(5)] for name in "abcd"}
  rounds = np.array([name for _, name in order]).reshape(5, 4)
  assert [turn for turn, _ in order] == np.repeat(range(5), 4).tolist()
  assert len(set(map(tuple, rounds.tolist()))) > 1


@pytest.mark.long
def test_trees_are_tuned_on_other_questions():
  done = commands.run(
    "--trees=chain:2",
    "--rules=traversal",
    "--seeds=0,1",
    "--tokens=6",
    "--tuned_on=6",
    "--per_task=2",
    program="benchmarks.beyond",
  )
  assert done.returncode == 0, done.stderr
  assert "6 questions tuned on, 6 others asked" in done.stdout
  ours, tuned = cells(done.stdout, "2")
  assert ours[:2] == tuned[:2] == ["2", "traversal"]
  assert ours[2:4] == ["chain:2", "1 1"]
  assert tuned[2] == "tuned"
  assert 1 < float(ours[4].split()[0]) < 3
