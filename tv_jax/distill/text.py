"""Text that the target writes, kept on disk: what drafts are trained on.

An instruct model that is given its template up to the user's turn writes what
a user might ask (Xu et al. 2024, arXiv:2406.08464); then it answers that.
Conversation i depends on the seed and on i alone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

from tv_jax.edge import checks, disk, reading
from tv_jax.engine.generate import generate
from tv_jax.engine.pair import Pair
from tv_jax.models import templates
from tv_jax.runs import sources, store

FILE, ABOUT = "text.jsonl", "text.json"
# Conversations that are written together, and that a killed run loses.
BLOCK = 96


@dataclasses.dataclass(frozen=True, kw_only=True)
class Conversation:
  """What is trained on: a line of a text's file.

  Attributes:
    prompt: The tokens up to where the answer begins.
    answer: The tokens of the answer, an end token among them.
  """

  prompt: tuple[int, ...]
  answer: tuple[int, ...]

  @property
  def tokens(self) -> tuple[int, ...]:
    """Returns all of its tokens."""
    return (*self.prompt, *self.answer)


def option(default, meaning: str) -> Any:
  """Makes a field that is a flag of the command as well."""
  return dataclasses.field(default=default, metadata={"help": meaning})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Writing:
  """How text is written; another one is other text."""

  conversations: int = option(4096, "How many the target writes.")
  temperature: float = option(1.0, "At which it writes; above 0.")
  question_tokens: int = option(
    96, "Most tokens of a question, where the target asks."
  )
  answer_tokens: int = option(192, "Most tokens of an answer.")
  seed: int = option(0, "Of all random draws.")
  template: str = option("chat", "How turns become tokens, as in configs.")


def write(
  pair: Pair,
  folder: pathlib.Path,
  writing: Writing,
  prompts: Sequence[Sequence[str]] | None = None,
  *,
  batch_size: int = 48,
  say: Callable[[str, int, int], None] = lambda *_: None,
) -> list[Conversation]:
  """Writes conversations, or goes on where a run was stopped.

  Args:
    pair: The target; a draft is not used.
    folder: Where the text is kept.
    writing: What text.
    prompts: Turns of the user to answer, again and again; None: the target
      asks as well.
    batch_size: Rows that are decoded together.
    say: Is told what is done, how many conversations there are, and of how
      many.

  Returns:
    All of them.
  """
  about = {**dataclasses.asdict(writing), **about_target(pair)}
  del about["conversations"]  # more of them can be written later
  about["prompts"] = "the target's own"
  if prompts is not None:
    about["prompts"] = hashlib.sha256(repr(prompts).encode()).hexdigest()[:8]
  path, count, text = folder / FILE, writing.conversations, []
  folder.mkdir(parents=True, exist_ok=True)
  with contextlib.ExitStack() as resources:
    disk.lock(folder, resources, remedy="wait for it, or give another --data")
    check_same(folder / ABOUT, about, "--data")
    if path.exists():
      whole = path.read_bytes().rfind(b"\n") + 1
      os.truncate(path, whole)  # half a line is cut off
      text = read(path)[:count]
    for start in range(len(text), count, BLOCK):
      say("writing text", start, count)
      numbers = range(start, min(start + BLOCK, count))
      block = _block(pair, writing, prompts, numbers, batch_size)
      lines = [disk.to_bytes(dataclasses.asdict(x)) for x in block]
      with path.open("ab") as file:
        file.write(b"".join(lines))
        file.flush()
        os.fsync(file.fileno())
      text += block
    say("writing text", len(text), count)
  return text


def read(path: pathlib.Path) -> list[Conversation]:
  """Reads the text in a folder, or in a file of such lines."""
  path = path / FILE if path.is_dir() else path
  tokens, text = checks.list_of(checks.integer()), []
  check = checks.fields({"prompt": tokens, "answer": tokens})
  for _, where, line in reading.json_lines(path):
    text.append(Conversation(**check(line, where)))
  return text


def _block(pair, writing, prompts, numbers, batch_size) -> list[Conversation]:
  """Writes the conversations of these numbers."""
  tokenizer = pair.tokenizer

  def decode(asked, items, limit):
    return generate(
      pair,
      asked,
      items=items,
      verifier=None,
      temperature=writing.temperature,
      max_new_tokens=limit,
      seed=writing.seed,
      batch_size=batch_size,
      progress=False,
    ).tokens

  # A number for a question, another one for its answer.
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


def about_target(pair: Pair) -> dict:
  """Returns what names a target, and the digests of its files."""
  return {
    "target": reading.name_of(pair.target.source),
    "files": sources.of_model("target", str(pair.path), pair.revision),
    "dtype": pair.target.config.dtype,
  }


def check_same(path: pathlib.Path, about: dict, flag: str) -> None:
  """Refuses to go on with what was begun in another way.

  Args:
    path: Where the way is kept; it is written if it is not there.
    about: The way, in JSON.
    flag: Of the folder.
  """
  about = disk.round_trip(about)
  if not path.exists():
    disk.write_json(path, about)
  elif changes := store.differences(reading.json_object(path), about):
    raise ValueError(
      f"{path.parent} was begun in another way ({reading.listed(changes)}):"
      f" give another {flag}, or the same settings"
    )
