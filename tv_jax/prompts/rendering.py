"""Chat templates, which are programs: run for a while, and believed little."""

import contextlib
import sys
import time

from tv_jax.reading import shown

# A template takes milliseconds. One that loops is stopped after these seconds.
PATIENCE = 10.0

# Some templates print today's date: then no run could be repeated.
DATE = "26 Jul 2024"


class _StoppedError(Exception):
  """A template was stopped."""


def render(tokenizer, messages: list[dict[str, str]]) -> str:
  """What the tokenizer's own template makes of a conversation.

  Raises:
    ValueError: In one line, how the template fails.
  """
  where = f"the chat template of {tokenizer.name_or_path}"
  text = _run(where, tokenizer, messages)
  if not isinstance(text, str) or not text.strip():
    raise ValueError(f"{where} gives no text, but {shown(repr(text))}")
  if messages[-1]["content"].strip() not in text:
    # It may have changed how it is written. A plain word has one spelling.
    probe = [*messages[:-1], messages[-1] | {"content": "word"}]
    if "word" not in _run(where, tokenizer, probe):
      raise ValueError(
        f"{where} leaves out what the user says: {shown(text)} is all it gives"
      )
  return text


def _run(where, tokenizer, messages):
  try:
    with _watched():
      return tokenizer.apply_chat_template(
        messages, tokenize=False, add_generation_prompt=True, date_string=DATE
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
