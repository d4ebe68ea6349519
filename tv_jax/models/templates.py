"""Turns conversations into tokens.

A conversation is a list of turns: the user's, the assistant's, the user's,
and so on, the user's last.
"""

import contextlib
import sys
import time
from collections.abc import Mapping, Sequence

from tv_jax.edge.reading import brief, shown

# A template takes milliseconds. One that loops is stopped after these seconds.
PATIENCE = 10.0

# Some templates print today's date: then no run could be repeated.
DATE = "26 Jul 2024"

# What Qwen3's template calls it.
THINKING = "enable_thinking"

# What Vicuna v1.1 to v1.5 were trained with.
VICUNA_SYSTEM = (
  "A chat between a curious user and an artificial intelligence assistant. "
  "The assistant gives helpful, detailed, and polite answers to the user's "
  "questions."
)


def raw(tokenizer, turns: Sequence[str]) -> list[int]:
  """Encodes the turns alone, each on its own line."""
  return tokenizer("\n".join(turns)).input_ids


def vicuna(tokenizer, turns: Sequence[str]) -> list[int]:
  """Encodes with Vicuna's template; earlier answers end in its end token."""
  text = f"{VICUNA_SYSTEM} "
  for i, turn in enumerate(turns):
    text += f" ASSISTANT: {turn}</s>" if i % 2 else f"USER: {turn}"
  return tokenizer(f"{text} ASSISTANT:").input_ids


def chat(tokenizer, turns: Sequence[str]) -> list[int]:
  """Encodes with the tokenizer's own template."""
  return _own(tokenizer, _messages(turns))


def without_thinking(tokenizer, turns: Sequence[str]) -> list[int]:
  """Encodes as `chat`, and tells the template that it is not to think."""
  return _unthinking(tokenizer, _messages(turns))


def _messages(turns: Sequence[str]) -> list[dict[str, str]]:
  roles = ("user", "assistant")
  return [{"role": roles[i % 2], "content": t} for i, t in enumerate(turns)]


class _StoppedError(Exception):
  """A template was stopped."""


def _own(tokenizer, messages: list[dict[str, str]], **options) -> list[int]:
  """Returns what the tokenizer's own template makes of roles and contents.

  A template is a program that somebody else wrote: it is stopped if it takes
  long, and refused if it leaves out what was said.
  """
  if not tokenizer.chat_template:
    raise ValueError(
      f"{tokenizer.name_or_path} has no chat template: use one of raw, vicuna"
    )
  where = f"the chat template of {tokenizer.name_or_path}"
  text = _run(where, tokenizer, messages, **options)
  if not isinstance(text, str) or not text.strip():
    raise ValueError(f"{where} gives no text, but {shown(repr(text))}")
  for i, message in enumerate(messages):
    if message["content"].strip() in text:
      continue
    # It may have changed how it is written: does it say two words differently?
    one, other = (
      _run(
        where,
        tokenizer,
        [*messages[:i], message | {"content": word}, *messages[i + 1 :]],
        **options,
      )
      for word in ("word", "another")
    )
    if one == other:
      raise ValueError(
        f"{where} leaves out what the {message['role']} says: {shown(text)} is"
        " all it gives"
      )
  return tokenizer(text, add_special_tokens=False).input_ids


def _unthinking(tokenizer, messages: list[dict[str, str]]) -> list[int]:
  """Does as `_own`, of a template that can be told not to think."""
  if THINKING not in str(tokenizer.chat_template):
    raise ValueError(
      f"{tokenizer.name_or_path} has no chat template that knows {THINKING}:"
      ' give "chat"'
    )
  return _own(tokenizer, messages, **{THINKING: False})


# Templates for messages, which may begin with the system's.
OF_MESSAGES = {"chat": _own, "without_thinking": _unthinking}


def _run(where, tokenizer, messages, **options):
  try:
    with _watched():
      return tokenizer.apply_chat_template(
        messages,
        tokenize=False,
        add_generation_prompt=True,
        date_string=DATE,
        **options,
      )
  except _StoppedError:
    reason = f"it was stopped after {PATIENCE:g} seconds"
  except Exception as error:  # a template can raise whatever it likes
    reason = f"{type(error).__name__}: {shown(error)}"
  raise ValueError(f"{where} fails ({reason}): mend it, or use another")


@contextlib.contextmanager
def _watched():
  """Stops Python code, line by line, that takes too long."""
  end, before = time.monotonic() + PATIENCE, sys.gettrace()

  def watch(*_):
    if time.monotonic() > end:
      raise _StoppedError
    return watch

  sys.settrace(watch)
  try:
    yield
  finally:
    sys.settrace(before)


def before_user(tokenizer) -> list[int]:
  """Returns the tokens of the tokenizer's template before a user's turn.

  A model that was trained with the template goes on as a user would.
  """
  word = "Hello"
  if tokenizer.chat_template:
    where = f"the chat template of {tokenizer.name_or_path}"
    text = _run(where, tokenizer, [{"role": "user", "content": word}])
    head, found, _ = str(text).rpartition(word)  # a system prompt may greet
    if found and head.strip():
      return tokenizer(head, add_special_tokens=False).input_ids
  raise ValueError(
    f"{tokenizer.name_or_path} has no chat template that begins a user's turn,"
    " so the target cannot ask itself: give prompts"
  )


TEMPLATES = {
  "raw": raw,
  "vicuna": vicuna,
  "chat": chat,
  "without_thinking": without_thinking,
}


def encode(template: str, tokenizer, turns: Sequence[str]) -> list[int]:
  """Encodes a conversation, up to where the next answer begins."""
  if not isinstance(template, str) or template not in TEMPLATES:
    raise ValueError(
      f"template {brief(template)} is not one of {', '.join(TEMPLATES)}"
    )
  if not isinstance(turns, Sequence) or not all(
    isinstance(turn, str) for turn in turns
  ):
    raise ValueError(f"a conversation holds texts only, not {brief(turns)}")
  if len(turns) % 2 == 0:
    raise ValueError(
      f"a conversation of {len(turns)} turns does not end with the user's"
    )
  return _encoded(TEMPLATES[template], tokenizer, turns)


def encode_messages(
  tokenizer, messages: Sequence[Mapping], template: str = "chat"
) -> list[int]:
  """Encodes messages with the tokenizer's own template.

  Args:
    tokenizer: The tokenizer.
    messages: Each {"role": .., "content": ..}, such as a "system" one first.
    template: One of `OF_MESSAGES`.

  Returns:
    The tokens, up to where the next answer begins.
  """
  for message in messages:
    if not isinstance(message, Mapping) or not all(
      isinstance(message.get(name), str) for name in ("role", "content")
    ):
      raise ValueError(
        f'a message is {{"role": .., "content": ..}}, two texts, not'
        f" {brief(message)}"
      )
  if messages[-1]["role"] == "assistant":
    raise ValueError(
      "the last message is the assistant's: there is nothing to answer"
    )
  if template not in OF_MESSAGES:
    raise ValueError(
      f"messages are for the tokenizer's own template, not {brief(template)}:"
      f" give {' or '.join(OF_MESSAGES)}"
    )
  return _encoded(OF_MESSAGES[template], tokenizer, [*map(dict, messages)])


def _encoded(template, tokenizer, said: Sequence) -> list[int]:
  """Encodes turns or messages; what goes wrong becomes one line."""
  for one in said:
    text = one["content"] if isinstance(one, dict) else one
    if any("\ud800" <= letter <= "\udfff" for letter in text):
      raise ValueError(
        f"the text {brief(text)} holds half of a character (a lone surrogate)"
      )
  try:
    return template(tokenizer, said)
  except ValueError:
    raise
  except Exception as error:  # tokenizers' own are of no common kind
    raise ValueError(
      f"the tokenizer of {tokenizer.name_or_path} fails"
      f" ({type(error).__name__}: {shown(error)})"
    ) from None
