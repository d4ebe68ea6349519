"""MiniBench: held-out questions of the six tasks, in Spec-Bench's format."""

import json
import random

from bundled.tasks import dialogue
from bundled.tasks.conversation import Conversation, held_out

PER_TASK = 16
SEED = 20261120


def conversations(tasks: dict) -> list[Conversation]:
  """PER_TASK conversations of each task, no two about the same facts.

  Args:
    tasks: The generators by task, as in `tasks.TASKS`.

  Returns:
    Task by task; dialogues category by category.
  """
  chosen = []
  for task, generate in tasks.items():
    rng = random.Random(f"minibench/{SEED}/{task}")
    kinds = list(dialogue.KINDS) if task == "mt_bench" else [task]
    found = {kind: {} for kind in kinds}
    while any(len(some) < PER_TASK // len(kinds) for some in found.values()):
      one = generate(rng)
      some = found[one.category]
      if held_out(one) and len(some) < PER_TASK // len(kinds):
        some.setdefault(one.facts, one)
    chosen += [one for some in found.values() for one in some.values()]
  return chosen


def lines(tasks: dict) -> str:
  """The contents of minibench.jsonl."""
  text = ""
  for i, one in enumerate(conversations(tasks)):
    row = {
      "question_id": i + 1,
      "category": one.category,
      "turns": one.turns,
      "reference": one.references,
    }
    text += json.dumps(row, ensure_ascii=False) + "\n"
  return text
