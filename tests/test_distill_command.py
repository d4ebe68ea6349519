"""Drafts made by the command: killed and gone on with, scored, refused."""

import contextlib
import dataclasses
import json
import pathlib
import re
import shutil
import time

import numpy as np
import pytest

import tv_jax
from tests import commands
from tv_jax import distill
from tv_jax.distill import data, distilling, losses, text
from tv_jax.distill.distilling import Training
from tv_jax.edge import disk, reading
from tv_jax.models import templates

WRITING = distill.Writing(conversations=6, question_tokens=8, answer_tokens=12)
HOW = Training(
  kind="eagle",
  depth=2,
  vocabulary=256,
  steps=6,
  rows=2,
  held_out=2,
  length=100,
)


class KilledError(Exception):
  """Stands for kill -9."""


@pytest.fixture(scope="module")
def pair():
  return tv_jax.load(None, "bundled/target", draft_kind="none")


@pytest.fixture
def small(monkeypatch):
  """So little is done at once that there is much to go on with."""
  monkeypatch.setattr(text, "BLOCK", 2)
  monkeypatch.setattr(data, "_ROWS", 2)
  monkeypatch.setattr(distilling, "SAVE", 2)
  monkeypatch.setattr(distilling, "SCORE", 2)


def make(pair, folder, how=HOW, writing=WRITING, say=lambda *_: None, **more):
  return distill.distill(
    pair,
    folder / "draft",
    how,
    data_folder=folder / "data",
    writing=writing,
    say=say,
    **more,
  )


def weights(folder):
  return (folder / "draft" / "model.safetensors").read_bytes()


def torn(path):
  """Adds what a write that was cut short may leave."""
  with path.open("ab") as file:
    file.write(b'{"prompt": [1')


def test_a_killed_run_ends_in_the_same_weights(pair, small, tmp_path):
  found = make(pair, tmp_path / "whole")
  assert found.tokens > 10
  broken = tmp_path / "broken"
  for stage, at, file in (
    ("writing text", 4, text.FILE),
    ("reading it", 4, data.FEATURES),
    ("training", 5, None),
  ):

    def say(now, done, total, how, stage=stage, at=at):
      if (now, done) == (stage, at):
        if stage == "training":  # nobody else trains this draft meanwhile
          with pytest.raises(disk.StoreError, match="give --out another name"):
            make(pair, broken)
        raise KilledError

    with pytest.raises(KilledError):
      make(pair, broken, say=say)
    if file:
      torn(broken / "data" / file)
  seen = []
  again = make(pair, broken, say=lambda *told: seen.append(told[:2]))
  assert ("training", 5) in seen
  assert ("training", 4) not in seen
  assert weights(broken) == weights(tmp_path / "whole")
  assert repr(again) == repr(found)
  # Once more: nothing is left to do, and more text begins where that ends.
  seen.clear()
  make(pair, broken, say=lambda *told: seen.append(told[:2]))
  assert {stage for stage, _ in seen} == {"writing text"}
  folder = broken / "data"
  lines = (folder / text.FILE).read_bytes()
  more = distill.Writing(**{**vars(WRITING), "conversations": 7})
  found = data.usable(distill.write(pair, folder, more))
  assert (folder / text.FILE).read_bytes().startswith(lines)
  whole = data.read(pair.target, found, folder, 1.0)
  kept = (folder / data.FEATURES).read_bytes()
  # Whoever asks for less leaves what others may want.
  part = data.read(pair.target, found[:3], folder, 1.0)
  assert (folder / data.FEATURES).read_bytes() == kept
  for mine, theirs in zip(
    part.of_target(64), whole.part(range(3)).of_target(64), strict=True
  ):
    np.testing.assert_array_equal(mine, theirs)


def test_training_makes_a_longer_draft(pair, tmp_path):
  """From 48 answers, for half a minute; what is held out tells."""
  writing = distill.Writing(
    conversations=32, question_tokens=12, answer_tokens=24
  )
  how = Training(
    kind="independent",
    loss="total_variation",
    depth=1,
    layers=(0, 4),
    vocabulary=512,
    steps=1,
    rows=4,
    held_out=8,
  )
  before = make(pair, tmp_path, how, writing)
  longer = Training(**{**vars(how), "steps": 40})
  shutil.rmtree(tmp_path / "draft")
  after = make(pair, tmp_path, longer, writing)
  gained = after.lengths["traversal"][-1].mean
  assert gained > before.lengths["traversal"][-1].mean + 0.3
  gain = after.over(before, "traversal")[-1]
  assert gain.mean > 3 * gain.error > 0
  same = after.over(after, "traversal")[-1]
  assert same.mean == same.error == 0
  made = tv_jax.load(tmp_path / "draft", "bundled/target")
  held = distill.read(tmp_path / "data")[:8]
  # Written in half precision.
  own = distill.score(made, held, depth=5).lengths["traversal"][-1].mean
  np.testing.assert_allclose(own, gained, atol=0.02)
  card = (tmp_path / "draft" / "README.md").read_text()
  assert "steps: 40" in card
  assert f"{gained:.3f}" in card


@pytest.mark.parametrize("kind", ["eagle", "independent"])
def test_a_draft_goes_on_from_another(pair, tmp_path, kind):
  how = dataclasses.replace(HOW, kind=kind, steps=3, rate=0.01)
  first = make(pair, tmp_path / "first", how)
  begun = tv_jax.load(
    tmp_path / "first" / "draft", "bundled/target", draft_kind=kind
  )
  still = dataclasses.replace(HOW, kind=kind, steps=1, rate=1e-9)
  still = dataclasses.replace(still, vocabulary=None)
  shutil.copytree(tmp_path / "first" / "data", tmp_path / "second" / "data")
  second = make(begun, tmp_path / "second", still)
  # The first was written in half precision.
  for one, other in zip(
    first.lengths["traversal"], second.lengths["traversal"], strict=True
  ):
    assert one.mean == pytest.approx(other.mean, abs=2e-3)
  fresh = make(pair, tmp_path / "fresh", dataclasses.replace(how, rate=1e-9))
  own, other = (x.lengths["traversal"][-1].mean for x in (fresh, first))
  assert abs(own - other) > 5e-3
  made = json.loads((tmp_path / "second/draft/training.json").read_text())
  assert made["training"]["begin"] == str(tmp_path / "first" / "draft")
  other = {"eagle": "independent", "independent": "eagle"}[kind]
  for change, told in (
    ({"kind": other}, f"is of kind '{kind}'"),
    ({"layers": (0,)}, r"layers=\[0\]: a draft that begins as"),
    ({"vocabulary": 16}, "vocabulary=16: .* keeps its own"),
  ):
    with pytest.raises(ValueError, match=told):
      make(begun, tmp_path / "third", dataclasses.replace(still, **change))
  assert not (tmp_path / "third").exists()


def test_a_model_with_its_own_embedding_is_not_begun_with(tmp_path):
  whole = tv_jax.load("bundled/draft", "bundled/target")
  how = dataclasses.replace(HOW, kind="independent", vocabulary=None)
  with pytest.raises(ValueError, match="an embedding of its own"):
    make(whole, tmp_path, how)


def test_others_conversations_are_trained_on(pair, tmp_path):
  said = [
    {"role": "system", "content": "Be short."},
    {"role": "user", "content": "What is a bee?"},
    {"role": "assistant", "content": "An insect."},
    {"role": "user", "content": "And a wasp?"},
    {"role": "assistant", "content": "Another insect, and no bee."},
  ]
  path = tmp_path / "others.jsonl"
  lines = [{"messages": said}, {"messages": said[1:3]}]
  path.write_text("\n".join(map(json.dumps, lines)) + "\n")
  tokenizer = pair.tokenizer
  found = text.conversations(path, tokenizer, 8)
  assert len(found) == 3
  prompt = templates.encode_messages(tokenizer, said[:4])
  whole = tokenizer(said[4]["content"], add_special_tokens=False).input_ids
  assert found[1] == distill.Conversation(
    prompt=tuple(prompt), answer=(*whole, tokenizer.eos_token_id)[:8]
  )
  assert found[2].answer[-1] == tokenizer.eos_token_id
  how = dataclasses.replace(HOW, held_out=1, length=200)
  scores = make(pair, tmp_path, how, given=found)
  assert scores.tokens == len(found[0].answer)
  assert distill.read(tmp_path / "data") == found
  card = (tmp_path / "draft" / "README.md").read_text()
  assert "conversations: 3" in card
  assert "answers: others', so the lengths are not a run's" in card
  with pytest.raises(ValueError, match="in another way"):
    make(pair, tmp_path, how, given=found[:2])
  path.write_text('{"messages": [{"role": "user"}]}\n')
  with pytest.raises(ValueError, match=r"line 1\.messages"):
    text.conversations(path, tokenizer, 8)
  path.write_text(json.dumps({"messages": said[1:2]}))
  with pytest.raises(ValueError, match="no message is an assistant's"):
    text.conversations(path, tokenizer, 8)


@pytest.mark.parametrize(
  ("how", "told"),
  [
    ({"kind": "eagle2"}, "kind='eagle2': give one of"),
    ({"loss": "l2"}, "loss='l2': give one of"),
    ({"layers": (9,)}, "the target has only 0 to"),
    ({"layers": (0, 1)}, r"layers=\[0, 1\]: give one"),
    ({"depth": 0}, "depth=0"),
    ({"rank": 8}, "rank=8: only kind='dspark' has one"),
    ({"length": 20}, "have at most length=20 tokens"),
    ({"rate": float("nan")}, "rate=nan"),
  ],
)
def test_what_cannot_be_made_is_refused(pair, tmp_path, how, told):
  folder = tmp_path / "data"
  folder.mkdir()
  line = json.dumps({"prompt": [1] * 20, "answer": [5, 6]})
  (folder / text.FILE).write_text(f"{line}\n" * 6)
  with pytest.raises(ValueError, match=told):
    make(pair, tmp_path, Training(**{**vars(HOW), **how}))


def test_what_no_draft_is_made_for_is_refused_before_any_text(pair, tmp_path):
  other = dataclasses.replace(pair.target.config, model_type="qwen3")
  module = pair.target.module.clone(config=other)
  target = dataclasses.replace(pair.target, module=module)
  with pytest.raises(ValueError, match="draft with an independent model"):
    make(dataclasses.replace(pair, target=target), tmp_path)
  cold = dataclasses.replace(WRITING, temperature=0.0)
  with pytest.raises(ValueError, match=r"temperature=0\.0"):
    make(pair, tmp_path, writing=cold)
  assert not [*tmp_path.iterdir()]
  (tmp_path / "draft").mkdir()
  (tmp_path / "draft" / "model.safetensors").write_bytes(b"")
  with pytest.raises(ValueError, match="holds something else"):
    make(pair, tmp_path)
  assert not (tmp_path / "data").exists()


def test_a_loss_that_is_no_number_is_not_gone_on_with(
  pair, small, tmp_path, monkeypatch
):
  monkeypatch.setitem(
    losses.LOSSES, HOW.loss, lambda seen, rule: seen.prefix.ratio * np.nan
  )
  with pytest.raises(ValueError, match="the loss is nan after step 1"):
    make(pair, tmp_path)
  assert not [*(tmp_path / "data").glob("*.npz")]


def test_other_settings_do_not_go_on(pair, small, tmp_path):
  writing = distill.Writing(**{**vars(WRITING), "conversations": 2})
  distill.write(pair, tmp_path / "data", writing)
  other = distill.Writing(**{**vars(writing), "temperature": 0.5})
  with pytest.raises(ValueError, match=r"temperature: 1\.0 there, 0\.5 now"):
    distill.write(pair, tmp_path / "data", other)


def test_text_of_a_target_that_was_trained_on_is_not_gone_on_with(tmp_path):
  target = tmp_path / "target"
  shutil.copytree(reading.BUNDLED / "target", target)
  two = dataclasses.replace(WRITING, conversations=2)
  pair = tv_jax.load(None, target, draft_kind="none")
  distill.write(pair, tmp_path / "data", two)
  path = target / "model.safetensors"
  data = bytearray(path.read_bytes())
  data[-1] ^= 1
  path.write_bytes(data)
  with pytest.raises(ValueError, match=r"files\.target/model\.safetensors: "):
    distill.write(pair, tmp_path / "data", two)


def test_a_line_that_is_no_conversation_is_named(pair, tmp_path):
  lines = ['{"prompt": [1, 2], "answer": [3]}', '{"prompt": [1], "answer": 3}']
  (tmp_path / text.FILE).write_text("\n".join(lines) + "\n")
  two = dataclasses.replace(WRITING, conversations=2)
  for read in (distill.read, lambda path: distill.write(pair, path, two)):
    with pytest.raises(ValueError, match=r"line 2\.answer=3: give a list"):
      read(tmp_path)


def test_text_of_other_prompts_does_not_go_on(pair, small, tmp_path):
  two = dataclasses.replace(WRITING, conversations=2)
  distill.write(pair, tmp_path, two, [["What is this?"]])
  with pytest.raises(ValueError, match=r"another way \(prompts: "):
    distill.write(pair, tmp_path, two, [["What is that?"]])


def test_a_draft_of_less_text_leaves_what_others_use(pair, small, tmp_path):
  said = []

  def use(count):
    writing = dataclasses.replace(WRITING, conversations=count)
    found = distill.write(
      pair, tmp_path, writing, say=lambda *told: said.append(told)
    )
    assert len(found) == count
    return found, data.read(
      pair.target, found, tmp_path, 1.0, lambda *told: said.append(told)
    )

  found, whole = use(5)
  names = text.FILE, data.FEATURES, data.NORMALISERS
  before = [(tmp_path / name).read_bytes() for name in names]
  said.clear()
  for count in (5, 3):
    _, again = use(count)
    np.testing.assert_array_equal(
      again.features, whole.features[: len(again.features)]
    )
  assert said == [(5, 5), (3, 3)]
  assert [(tmp_path / name).read_bytes() for name in names] == before
  # What was read of other text is not taken for this one's.
  with pytest.raises(ValueError, match=r"another way \(first_answer: "):
    data.read(pair.target, found[1:], tmp_path, 1.0)


def test_a_greeting_in_the_system_prompt_is_no_users_turn(pair, monkeypatch):
  given = "Hello, I help.{{ messages[0].content }}"
  monkeypatch.setattr(pair.tokenizer, "chat_template", given)
  found = templates.before_user(pair.tokenizer)
  assert pair.tokenizer.decode(found) == "Hello, I help."


def test_a_base_model_cannot_ask_itself(pair, tmp_path, monkeypatch):
  monkeypatch.setattr(pair.tokenizer, "chat_template", None)
  with pytest.raises(ValueError, match="give prompts"):
    distill.write(pair, tmp_path, WRITING)


def test_the_commands_make_and_score_a_draft(tmp_path):
  arguments = (
    "--target=bundled/target",
    "--out=draft",
    "--data=text",
    "--conversations=8",
    "--held-out=4",
    "--steps=2",
    "--rows=2",
    "--depth=2",
    "--tokens=8",
  )
  done = commands.run(*arguments, program="tv_jax.distill", cwd=tmp_path)
  assert done.returncode == 0, done.stderr
  assert "written: draft" in done.stdout
  least = re.match(r"at least ([\d.]+) minutes on", done.stderr)
  assert float(least[1]) > 0
  score = (
    "--draft=draft",
    "--draft=draft",
    "--kind=eagle",
    "--text=text",
    "--conversations=4",
    "--depth=2",
  )
  scored = commands.run(*score, program="tv_jax.score", cwd=tmp_path)
  assert scored.returncode == 0, scored.stderr
  told = "token_level +0.0 ± 0.0 %, traversal +0.0 ± 0.0 %"
  assert scored.stdout.splitlines()[-1].endswith(told)
  # The first four are those that were held out; it was written in half
  # precision. Both tables begin with their heads, the second a line lower.
  for depth in (1, 2):
    own, other = (
      float(done.stdout.splitlines()[depth + shift].split()[4])
      for done, shift in ((done, 0), (scored, 1))
    )
    assert 1 < own == pytest.approx(other, abs=2e-3)
  # Without a text the target writes one, once.
  told = ("--draft=draft", "--kind=eagle", "--conversations=2", "--depth=2")
  for _ in range(2):
    own = commands.run(*told, program="tv_jax.score", cwd=tmp_path)
    assert own.returncode == 0, own.stderr
    assert own.stdout.startswith("draft: 2 conversations, ")
  written = tmp_path / "runs" / "score" / "bundled-target-1" / "text.jsonl"
  assert len(written.read_text().splitlines()) == 2
  other = commands.run(
    *arguments, "--loss=kl", program="tv_jax.distill", cwd=tmp_path
  )
  assert other.returncode == 2
  assert other.stderr.splitlines()[-1] == (
    'tv_jax.distill: draft was begun in another way (training.loss: "weighted"'
    ' there, "kl" now): give another --out, or the same settings'
  )


def test_an_empty_text_is_not_another(tmp_path):
  (tmp_path / "empty.jsonl").write_text("")
  arguments = ["--text=empty.jsonl", "--target=bundled/draft"]
  done = commands.run(*arguments, program="tv_jax.score", cwd=tmp_path)
  assert done.returncode == 2
  assert "there is no text" in done.stderr.splitlines()[-1]
  assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
  ("program", "arguments", "told"),
  [
    ("tv_jax.distill", ["--out=x"], "give --target and --out"),
    ("tv_jax.distill", ["--target=none", "--out=x"], "neither a directory"),
    ("tv_jax.distill", ["--kind=other"], "kind"),
    (
      "tv_jax.distill",
      ["--target=bundled/target", "--out=x", "--text=y", "--conversations=9"],
      "--conversations is not for --text",
    ),
    ("tv_jax.distill", ["--batch-size=0"], "batch_size"),
    ("tv_jax.score", ["--text=missing"], "cannot be read"),
  ],
)
def test_a_bad_command_is_one_line(program, arguments, told, tmp_path):
  done = commands.run(*arguments, program=program, cwd=tmp_path)
  assert done.returncode == 2
  assert "Traceback" not in done.stderr
  assert told in done.stderr.splitlines()[-1]
  assert not [*pathlib.Path(tmp_path).iterdir()]


@pytest.mark.long
def test_kill_at_any_moment_changes_nothing(tmp_path):
  arguments = (
    "--target=bundled/target",
    "--conversations=8",
    "--held-out=4",
    "--steps=60",
    "--rows=2",
    "--depth=2",
    "--tokens=8",
    "--vocabulary=256",
  )

  def start(name):
    return commands.start(
      *arguments,
      f"--out={name}",
      f"--data={name}-text",
      program="tv_jax.distill",
      cwd=tmp_path,
    )

  begin = time.monotonic()
  done = commands.ended(start("whole"))
  assert done.returncode == 0, done.stderr
  took = time.monotonic() - begin
  for share in (0.6, 0.9):
    process = start("broken")
    time.sleep(share * took)
    process.kill()
    with contextlib.suppress(Exception):
      process.communicate(timeout=60)
  done = commands.ended(start("broken"))
  assert done.returncode == 0, done.stderr
  files = [tmp_path / x / "model.safetensors" for x in ("whole", "broken")]
  assert files[0].read_bytes() == files[1].read_bytes()
