"""What a trained pair can do: `python -m bundled.measure [DIR]`.

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

import tv_jax
from bundled import data, losses, tasks
from tv_jax import models, prompts

# Tokens that an answer may have.
LIMIT = 160
# Answers that are drawn at once.
ROWS = 96


def held_out(count: int) -> list[tasks.Conversation]:
  """Held-out conversations, `count` of each task, beside MiniBench's."""
  made = []
  for task in tasks.TASKS:
    rng = random.Random(f"measure/{task}")
    made += [tasks.generate(task, rng, test=True) for _ in range(count)]
  return made


def questions(conversations: list[tasks.Conversation]):
  """What is asked in the conversations."""
  return [
    prompts.Question(
      question_id=i + 1,
      category=one.category,
      turns=one.turns,
      references=tuple((text,) for text in one.references),
      mt_bench=one.category in prompts.MT_BENCH,
    )
    for i, one in enumerate(conversations)
  ]


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


def ask(pair: tv_jax.Pair, asked, temperature: float) -> list[Turn]:
  """Lets the target answer all turns of all questions, without a draft."""
  given = [[] for _ in asked]
  turns = []
  for i in range(max(len(question.turns) for question in asked)):
    left = [n for n, question in enumerate(asked) if i < len(question.turns)]
    encoded = [
      prompts.encode(
        "chat", pair.tokenizer, prompts.conversation(asked[n], given[n])
      )
      for n in left
    ]
    drawn = tv_jax.generate(
      pair,
      encoded,
      items=[len(asked) * i + n for n in left],
      verifier=None,
      temperature=temperature,
      max_new_tokens=LIMIT,
      batch_size=ROWS,
    )
    for n, prompt, ids, text in zip(
      left, encoded, drawn.tokens, drawn.text, strict=True
    ):
      given[n].append(text)
      right = prompts.score(text, asked[n].references[i][0])
      turns.append(
        Turn(task=asked[n].task, prompt=prompt, answer=ids, right=right)
      )
  return turns


@functools.partial(jax.jit, static_argnums=0)
def _nats(config, params, batch):
  return losses.text(config, params, jax.random.key(0), batch)[1]["answer"]


def loss(target, tokenizer, conversations) -> float:
  """Nats per token of held-out conversations' own answers."""
  documents = [
    data.encode(tokenizer.backend_tokenizer, one) for one in conversations
  ]
  total = count = 0
  for i in range(0, len(documents), 16):
    batch = data.alone(documents[i : i + 16])
    n = batch.answer.sum()
    total += n * float(_nats(target.config, target.params, batch))
    count += n
  return float(total / count)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _laws(apply_config, kind, params, batch, features, theirs):
  """Per token: the target's own values, or a draft's share of its law."""
  if kind == "target":
    logits, features = losses.llama(apply_config, params, batch)
    log_p = jax.nn.log_softmax(logits)
    entropy = -jnp.sum(jnp.exp(log_p) * log_p, axis=-1)
    return entropy, features, logits
  if kind == "llama":
    logits, _ = losses.llama(apply_config, params, batch)
  else:
    logits, _ = losses.eagle(apply_config, params, batch, features)
    logits = jnp.pad(logits, ((0, 0), (1, 0), (0, 0)))
  p, q = jax.nn.softmax(theirs), jax.nn.softmax(logits)
  return jnp.sum(jnp.minimum(p, q), axis=-1)


def measure(target, drafts: dict, turns: list[Turn]) -> dict:
  """Entropy of the target and each draft's share of its law, per task."""
  values = {"entropy": [], **{name: [] for name in drafts}}
  where = []
  for i in range(0, len(turns), 16):
    some = turns[i : i + 16]
    batch = data.alone(
      [
        (
          turn.prompt + turn.answer,
          np.repeat([False, True], [len(turn.prompt), len(turn.answer)]),
        )
        for turn in some
      ]
    )
    entropy, features, logits = _laws(
      target.config, "target", target.params, batch, None, None
    )
    found = {"entropy": entropy}
    for name, model in drafts.items():
      kind = "eagle" if isinstance(model, models.Head) else "llama"
      found[name] = _laws(
        model.config, kind, model.params, batch, features, logits
      )
    counted = batch.answer > 0
    for name, value in found.items():
      values[name].append(np.asarray(value)[counted])
    for row, turn in zip(counted, some, strict=True):
      where += [turn.task] * int(row.sum())
  where = np.array(where)
  table = {}
  for task in (*tasks.TASKS, "all"):
    chosen = where == task if task != "all" else np.ones(len(where), bool)
    table[task] = {
      name: float(np.concatenate(value)[chosen].mean())
      for name, value in values.items()
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
  pair = tv_jax.load(
    None, directory / "target", draft_kind="none", dtype="float32"
  )
  target = pair.target
  drafts = {
    name: models.load(directory / name, dtype="float32")
    for name in ("draft", "draft_weak")
    if (directory / name).exists()
  }
  if (directory / "eagle").exists():
    drafts["eagle"] = models.load_eagle(directory / "eagle", target)
  bench = prompts.load_questions("minibench")
  more = held_out(count)
  columns = {}
  for name, asked, temperature in (
    ("MiniBench, T = 0", bench, 0.0),
    ("MiniBench, T = 1", bench, 1.0),
    ("held out, T = 0", questions(more), 0.0),
    ("held out, T = 1", questions(more), 1.0),
  ):
    turns = ask(pair, asked, temperature)
    columns[name] = exact_match(turns)
  laws = measure(target, drafts, turns)
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
  nats = loss(target, pair.tokenizer, more)
  return "\n".join(
    [
      *lines,
      "",
      f"{nats:.4f} nats per token of held-out conversations' answers",
    ]
  )


def main(arguments=None) -> None:
  """The command."""
  parser = argparse.ArgumentParser(prog="python -m bundled.measure")
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
    sys.exit(f"bundled.measure: {error}")


if __name__ == "__main__":
  main()
