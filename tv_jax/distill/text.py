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
  """What is trained on.

  Attributes:
    prompt: The tokens up to where the answer begins.
    answer: The tokens of the answer, an end token among them.
  """

  prompt: tuple[int, ...]
  answer: tuple[int, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Writing:
  """How text is written; another one is other text.

  Attributes:
    conversations: How many.
    temperature: The target's.
    question_tokens: Tokens of a question at most, where the target asks.
    answer_tokens: Tokens of an answer at most.
    seed: What all draws come from.
    template: How turns become tokens.
  """

  conversations: int = 4096
  temperature: float = 1.0
  question_tokens: int = 96
  answer_tokens: int = 192
  seed: int = 0
  template: str = "chat"


def write(
  pair: Pair,
  folder: pathlib.Path,
  how: Writing,
  prompts: Sequence[Sequence[str]] | None = None,
  *,
  given: Sequence[Conversation] | None = None,
  batch_size: int = 48,
  say: Callable[[int, int], None] = lambda done, total: None,
) -> list[Conversation]:
  """Writes conversations, or goes on where a run was stopped.

  Args:
    pair: The target; a draft is not used.
    folder: Where the text is kept.
    how: What text.
    prompts: Turns of the user to answer, again and again; None: the target
      asks as well.
    given: Others' conversations to take instead, as many as there are.
    batch_size: Rows that are decoded together.
    say: Is told how many conversations there are, and of how many.

  Returns:
    All of them.
  """
  folder.mkdir(parents=True, exist_ok=True)
  about = {
    **dataclasses.asdict(how),
    "target": reading.name_of(pair.target.source),
    "files": sources.of_model("target", str(pair.path), pair.revision),
    "dtype": pair.target.config.dtype,
    "prompts": "the target's own" if prompts is None else _digest(prompts),
  }
  if given is not None:
    about["prompts"] = f"others', {_digest([vars(one) for one in given])}"
    how = dataclasses.replace(how, conversations=len(given))
  del about["conversations"]  # more of them can be written later
  with contextlib.ExitStack() as resources:
    disk.lock(folder, resources, remedy="wait for it, or give another --data")
    check_same(folder / ABOUT, about, "--data")
    found = _written(folder / FILE, how.conversations)
    for start in range(len(found), how.conversations, BLOCK):
      say(start, how.conversations)
      stop = min(start + BLOCK, how.conversations)
      own = (
        _block(pair, how, prompts, range(start, stop), batch_size)
        if given is None
        else given[start:stop]
      )
      lines = b"".join(
        disk.to_bytes(dataclasses.asdict(one), "text") for one in own
      )
      with disk.explained(f"{folder / FILE} cannot be written"):
        _append(folder / FILE, lines)
      found += own
    say(len(found), how.conversations)
  return found


def read(folder: pathlib.Path) -> list[Conversation]:
  """Reads the text in a folder, or in a file of such lines."""
  path = folder / FILE if folder.is_dir() else folder
  return _parsed(path, reading.text(path).splitlines())


_MESSAGES = checks.fields(
  {
    "messages": checks.list_of(
      checks.fields({"role": checks.text, "content": checks.text})
    )
  }
)


def conversations(
  path: pathlib.Path, tokenizer, answer_tokens: int, template: str = "chat"
) -> list[Conversation]:
  """Reads others' conversations, one for each answer of the assistant.

  Args:
    path: A file of lines {"messages": [{"role": .., "content": ..}, ..]}.
    tokenizer: The target's, with its chat template.
    answer_tokens: Of longer answers the rest is left out.
    template: One of `templates.CHAT`.
  """
  found = []
  for number, line in enumerate(reading.text(path).split("\n"), 1):
    if not line.strip():
      continue
    where = f"{path}, line {number}"
    row = reading.parse_object(line, where)
    messages = checks.read(_MESSAGES, row, where)["messages"]
    for i, message in enumerate(messages):
      if i and message["role"] == "assistant":
        before = messages[:i]
        prompt = templates.encode_messages(tokenizer, before, template)
        answer = tokenizer(message["content"], add_special_tokens=False)
        answer = [*answer.input_ids, tokenizer.eos_token_id][:answer_tokens]
        found.append(Conversation(prompt=tuple(prompt), answer=tuple(answer)))
  if not found:
    raise ValueError(f"{path}: no message is an assistant's answer")
  return found


def _parsed(path, lines) -> list[Conversation]:
  """Returns what is in these lines of a file."""
  check, found = checks.build(Conversation), []
  for number, line in enumerate(lines, 1):
    where = f"{path}, line {number}"
    row = reading.parse_object(line, where)
    found.append(checks.read(check, row, where))
  return found


def _block(pair, how, prompts, numbers, batch_size) -> list[Conversation]:
  """Writes the conversations of these numbers."""
  tokenizer = pair.tokenizer

  def decode(asked, items, limit):
    return generate(
      pair,
      asked,
      items=items,
      verifier=None,
      temperature=how.temperature,
      max_new_tokens=limit,
      seed=how.seed,
      batch_size=batch_size,
      progress=False,
    ).tokens

  # A number for a question, another one for its answer.
  items = [2 * i for i in numbers]
  if prompts is None:
    begin = templates.before_user(tokenizer)
    said = decode([begin] * len(items), items, how.question_tokens)
    turns = [
      [tokenizer.decode(own, skip_special_tokens=True).strip()] for own in said
    ]
  else:
    turns = [prompts[i % len(prompts)] for i in numbers]
  asked = [templates.encode(how.template, tokenizer, own) for own in turns]
  answers = decode(asked, [item + 1 for item in items], how.answer_tokens)
  return [
    Conversation(prompt=tuple(prompt), answer=tuple(answer))
    for prompt, answer in zip(asked, answers, strict=True)
  ]


def check_same(path: pathlib.Path, about: dict, flag: str) -> None:
  """Refuses to go on with what was begun in another way.

  Args:
    path: Where the way is kept; it is written if it is not there.
    about: The way, in JSON.
    flag: Of the folder.
  """
  about = disk.round_trip(about, "what is made")
  if not path.exists():
    disk.write_json(path, about, "what is made")
    return
  if changes := store.differences(reading.json_object(path), about):
    raise ValueError(
      f"{path.parent} was begun in another way ({reading.listed(changes)}):"
      f" give another {flag}, or the same settings"
    )


def _digest(said: Sequence) -> str:
  """Returns how many these are, and letters that others do not have."""
  data = disk.to_bytes([*said], "text")
  return f"{len(said)}: {hashlib.sha256(data).hexdigest()[:8]}"


def _written(path, count: int) -> list[Conversation]:
  """Reads what was written before, at most so many; half a line is cut off.

  No whole line is ever written again: features on disk are those of it.
  """
  if not path.exists():
    return []
  data = path.read_bytes()
  size = data.rfind(b"\n") + 1
  if size < len(data):
    os.truncate(path, size)
  return _parsed(path, data[:size].decode().splitlines()[:count])


def _append(path, data) -> None:
  with path.open("ab") as file:
    file.write(data)
    file.flush()
    os.fsync(file.fileno())
