"""Training text that the target writes, kept on disk.

An instruct model that reads its chat template up to the user's turn writes a
plausible question (Xu et al. 2024, arXiv:2406.08464), and then the answer.
Under the same settings, conversation i depends on i alone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import pathlib
from collections.abc import Sequence
from typing import Any

from tv_jax.engine.generate import generate
from tv_jax.engine.pair import Pair
from tv_jax.io import checks, disk, reading
from tv_jax.io.errors import UserError
from tv_jax.io.progress import Progress, silent
from tv_jax.models import templates
from tv_jax.runs import store

FILE, ABOUT = "text.jsonl", "text.json"
# Conversations that are appended to the file together.
BLOCK = 96


@dataclasses.dataclass(frozen=True, kw_only=True)
class Conversation:
  """A prompt and its answer: one line of a text file.

  Attributes:
    prompt: Token ids up to the beginning of the answer.
    answer: Token ids of the answer, with its end token.
  """

  prompt: tuple[int, ...]
  answer: tuple[int, ...]

  @property
  def tokens(self) -> tuple[int, ...]:
    """Returns all token ids."""
    return (*self.prompt, *self.answer)


def option(default, meaning: str) -> Any:
  """Makes a field that is also a flag of the command."""
  return dataclasses.field(default=default, metadata={"help": meaning})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Writing:
  """How the target writes text."""

  conversations: int = option(4096, "Number of conversations.")
  temperature: float = option(1.0, "Sampling temperature, above 0.")
  question_tokens: int = option(
    96, "Maximum number of tokens of a question by the target."
  )
  answer_tokens: int = option(192, "Maximum number of tokens of an answer.")
  seed: int = option(0, "Seed of all random draws.")
  template: str = option("chat", "How turns become tokens, as in configs.")


def write(
  pair: Pair,
  folder: pathlib.Path,
  writing: Writing,
  prompts: Sequence[Sequence[str]] | None = None,
  *,
  batch_size: int = 48,
  progress: Progress = silent,
) -> list[Conversation]:
  """Writes conversations, or continues an interrupted run.

  Args:
    pair: The target; its draft is ignored.
    folder: Folder of the text.
    writing: How the target writes.
    prompts: User turns to answer, in rotation; None: the target also writes the
      questions.
    batch_size: Rows that are decoded together.
    progress: Called with the number of conversations so far.

  Returns:
    All conversations.
  """
  about = about_writing(writing, prompts) | about_target(pair)
  del about["conversations"]  # a later run may add more
  path, count, text = folder / FILE, writing.conversations, []
  folder.mkdir(parents=True, exist_ok=True)
  with contextlib.ExitStack() as resources:
    disk.lock(folder, resources, remedy="wait for it, or give another --data")
    check_same(folder / ABOUT, about, "--data")
    if path.exists():
      whole = path.read_bytes().rfind(b"\n") + 1
      os.truncate(path, whole)  # drop a line that was cut short by a kill
      text = read(path)[:count]
    for start in range(len(text), count, BLOCK):
      progress("writing text", start, count)
      numbers = range(start, min(start + BLOCK, count))
      block = _block(pair, writing, prompts, numbers, batch_size)
      lines = [disk.to_bytes(dataclasses.asdict(x)) for x in block]
      with path.open("ab") as file:
        file.write(b"".join(lines))
        file.flush()
        os.fsync(file.fileno())
      text += block
    progress("writing text", len(text), count)
  return text


def read(path: pathlib.Path) -> list[Conversation]:
  """Reads the conversations of a folder or of a file."""
  path = path / FILE if path.is_dir() else path
  tokens, text = checks.list_of(checks.integer()), []
  check = checks.fields({"prompt": tokens, "answer": tokens})
  for _, where, line in reading.json_lines(path):
    text.append(Conversation(**check(line, where)))
  return text


def _block(pair, writing, prompts, numbers, batch_size) -> list[Conversation]:
  """Generates the conversations of these numbers."""
  tokenizer = pair.tokenizer

  def decode(asked, items, limit):
    return generate(
      pair,
      asked,
      items=items,
      verifier="plain",
      temperature=writing.temperature,
      max_new_tokens=limit,
      seed=writing.seed,
      batch_size=batch_size,
      progress=False,
    ).tokens

  # Even items are questions, odd items are their answers.
  items = [2 * i for i in numbers]
  if prompts is None:
    begin = templates.before_user(tokenizer)
    turns = [
      [tokenizer.decode(tokens, skip_special_tokens=True).strip()]
      for tokens in decode([begin] * len(items), items, writing.question_tokens)
    ]
  else:
    turns = [prompts[i % len(prompts)] for i in numbers]
  asked = [templates.encode(writing.template, tokenizer, x) for x in turns]
  answers = decode(asked, [item + 1 for item in items], writing.answer_tokens)
  return [
    Conversation(prompt=tuple(prompt), answer=tuple(answer))
    for prompt, answer in zip(asked, answers, strict=True)
  ]


def about_writing(
  writing: Writing, prompts: Sequence[Sequence[str]] | None
) -> dict:
  """Returns the settings of the writing, and a digest of the prompts."""
  digest = "the target's own"
  if prompts is not None:
    digest = hashlib.sha256(repr(prompts).encode()).hexdigest()[:8]
  return {**dataclasses.asdict(writing), "prompts": digest}


def about_target(pair: Pair) -> dict:
  """Returns the target's name and the digests of its files."""
  assert pair.checkpoint
  return {
    "target": reading.name_of(pair.target.source),
    "files": pair.checkpoint.digests("target", tokenizer=True),
    "dtype": pair.target.config.dtype,
  }


def check_same(path: pathlib.Path, about: dict, flag: str) -> None:
  """Raises ValueError if a folder was begun with other settings.

  Args:
    path: File of the settings; it is written if it does not exist.
    about: The settings.
    flag: The flag that names the folder, for the error.
  """
  about = disk.round_trip(about)
  if not path.exists():
    disk.write_json(path, about)
  elif changes := store.differences(reading.json_object(path), about):
    raise UserError(
      f"{path.parent} was begun in another way ({reading.listed(changes)}):"
      f" give another {flag}, or the same settings"
    )
