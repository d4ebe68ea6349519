"""What a trained pair can do: `python -m tv_jax.train.measure [DIR]`.

Exact match per task with plain decoding, on MiniBench and on more held-out
conversations; and on answers that the target drew itself: the entropy of its
law, and how much of it a draft's law shares (the sum of min(p, q), which is
the chance that one drafted token is accepted).
"""

import argparse
import dataclasses
import functools
import pathlib
import random
import sys

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax import models, prompts, tasks
from tv_jax.train import answers, losses, tokens
from tv_jax.train.data import Rows

# Tokens that an answer may have.
LIMIT = 160


def held_out(count: int) -> list[prompts.Question]:
  """Held-out questions, `count` of each task, beside MiniBench's."""
  questions = []
  for task in tasks.TASKS:
    rng = random.Random(f"measure/{task}")
    for _ in range(count):
      one = tasks.generate(task, rng, test=True)
      questions.append(
        prompts.Question(
          question_id=len(questions) + 1,
          category=one.category,
          turns=one.turns,
          references=tuple((text,) for text in one.references),
        )
      )
  return questions


@dataclasses.dataclass(frozen=True, kw_only=True)
class Turn:
  """One answered turn.

  Attributes:
    task: The question's.
    prompt: Its tokens.
    answer: The answer's.
    right: Whether it is the reference, by exact match.
  """

  task: str
  prompt: list[int]
  answer: list[int]
  right: bool


def ask(model, tokenizer, questions, temperature: float, seed: int):
  """Lets the model answer all turns of all questions."""
  given = [[] for _ in questions]
  turns = []
  for i in range(max(len(question.turns) for question in questions)):
    asked = [
      n for n, question in enumerate(questions) if i < len(question.turns)
    ]
    encoded = [
      prompts.encode(
        "chat", tokenizer, prompts.conversation(questions[n], given[n])
      )
      for n in asked
    ]
    key = jax.random.fold_in(jax.random.key(seed), i)
    drawn = answers.answer(
      model, encoded, limit=LIMIT, temperature=temperature, key=key
    )
    for n, prompt, ids in zip(asked, encoded, drawn, strict=True):
      text = tokenizer.decode(ids, skip_special_tokens=True)
      given[n].append(text)
      right = tasks.score(text, questions[n].references[i][0])
      turns.append(
        Turn(task=questions[n].task, prompt=prompt, answer=ids, right=right)
      )
  return turns


def rows(turns: list[Turn]) -> Rows:
  """The turns as rows of one document each."""
  width = max(len(turn.prompt) + len(turn.answer) for turn in turns)
  width = -(-width // 64) * 64
  shape = (len(turns), width)
  made = Rows(
    tokens=np.full(shape, tokens.PAD, np.int32),
    positions=np.broadcast_to(np.arange(width, dtype=np.int32), shape),
    document=np.full(shape, -1, np.int32),
    weights=np.zeros(shape, np.float32),
    answer=np.zeros(shape, np.float32),
  )
  for i, turn in enumerate(turns):
    start, end = len(turn.prompt), len(turn.prompt) + len(turn.answer)
    made.tokens[i, :end] = turn.prompt + turn.answer
    made.document[i, :end] = 0
    made.answer[i, start - 1 : end - 1] = 1
  return made


@functools.partial(jax.jit, static_argnums=(0, 1))
def _laws(apply_config, kind, params, batch, features, theirs):
  """Per token: the target's own values, or a draft's share of its law."""
  if kind == "target":
    logits, features = losses.llama(apply_config, params, batch)
    log_p = jax.nn.log_softmax(logits)
    entropy = -jnp.sum(jnp.exp(log_p) * log_p, axis=-1)
    return entropy, features, logits
  if kind == "draft":
    logits, _ = losses.llama(apply_config, params, batch)
  else:
    logits, _ = losses.eagle(apply_config, params, batch, features)
    logits = jnp.pad(logits, ((0, 0), (1, 0), (0, 0)))
  p, q = jax.nn.softmax(theirs), jax.nn.softmax(logits)
  return jnp.sum(jnp.minimum(p, q), axis=-1)


def measure(target, draft, head, turns: list[Turn]) -> dict:
  """Entropy of the target and both drafts' share of its law, per task."""
  values = {"entropy": [], "draft": [], "eagle": []}
  where = []
  for i in range(0, len(turns), 16):
    batch = rows(turns[i : i + 16])
    entropy, features, logits = _laws(
      target.config, "target", target.params, batch, None, None
    )
    found = {"entropy": entropy}
    for name, model in (("draft", draft), ("eagle", head)):
      if model is not None:
        found[name] = _laws(
          model.config, name, model.params, batch, features, logits
        )
    counted = batch.answer > 0
    for name, value in found.items():
      values[name].append(np.asarray(value)[counted])
    for row, turn in zip(counted, turns[i : i + 16], strict=True):
      where += [turn.task] * int(row.sum())
  where = np.array(where)
  table = {}
  for task in (*tasks.TASKS, "all"):
    chosen = where == task if task != "all" else np.ones(len(where), bool)
    table[task] = {
      name: float(np.concatenate(value)[chosen].mean())
      for name, value in values.items()
      if value
    }
    table[task]["tokens"] = int(chosen.sum())
  return table


def exact_match(turns: list[Turn]) -> dict[str, float]:
  """The share of right turns per task, and the mean over the tasks."""
  shares = {
    task: float(np.mean([turn.right for turn in turns if turn.task == task]))
    for task in tasks.TASKS
  }
  return shares | {"all": float(np.mean(list(shares.values())))}


def report(directory: pathlib.Path, count: int) -> str:
  """All measurements of the models in `directory`, as a Markdown table."""
  target = models.load(directory / "target", dtype="float32")
  tokenizer = prompts.load_tokenizer(directory / "target")
  draft = head = None
  if (directory / "draft").exists():
    draft = models.load(directory / "draft", dtype="float32")
  if (directory / "eagle").exists():
    head = models.load_eagle(directory / "eagle", target)
  bench = prompts.load_questions("minibench")
  more = held_out(count)
  columns = {}
  for name, questions, temperature in (
    ("MiniBench, T = 0", bench, 0.0),
    ("MiniBench, T = 1", bench, 1.0),
    ("held out, T = 0", more, 0.0),
    ("held out, T = 1", more, 1.0),
  ):
    turns = ask(target, tokenizer, questions, temperature, seed=0)
    columns[name] = exact_match(turns)
  laws = measure(target, draft, head, turns)
  names = [*columns, *laws["all"]]
  lines = [
    "| task | " + " | ".join(names) + " |",
    "|---" * (len(names) + 1) + "|",
  ]
  for task in (*tasks.TASKS, "all"):
    cells = [f"{column[task]:.0%}" for column in columns.values()]
    cells += [
      str(v) if isinstance(v, int) else f"{v:.3f}" for v in laws[task].values()
    ]
    lines.append(f"| {task} | " + " | ".join(cells) + " |")
  return "\n".join(lines)


def main(arguments=None) -> None:
  """The command."""
  parser = argparse.ArgumentParser(prog="python -m tv_jax.train.measure")
  parser.add_argument(
    "directory", nargs="?", default=prompts.BUNDLED, type=pathlib.Path
  )
  parser.add_argument(
    "--count", type=int, default=64, help="held-out questions of each task"
  )
  told = parser.parse_args(arguments)
  try:
    print(report(told.directory, told.count))
  except ValueError as error:
    sys.exit(f"tv_jax.train.measure: {error}")


if __name__ == "__main__":
  main()
