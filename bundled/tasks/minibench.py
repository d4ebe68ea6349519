"""MiniBench: held-out questions of the six tasks, in Spec-Bench's format.

And others of the same kind, of facts that MiniBench does not ask for: a tree
that is tuned on these may be measured on MiniBench.
"""

import json
import random
from collections.abc import Collection

from bundled.tasks import dialogue
from bundled.tasks.conversation import Conversation, held_out

PER_TASK, SEED = 16, 20261120
TUNING_PER_TASK, TUNING_SEED = 32, 20261123


def conversations(
  tasks: dict,
  per_task: int = PER_TASK,
  seed: int = SEED,
  taken: Collection[tuple[str, str]] = (),
) -> list[Conversation]:
  """Conversations of each task, no two about the same facts.

  Args:
    tasks: The generators by task, as in `tasks.TASKS`.
    per_task: How many of each.
    seed: Where all choices come from.
    taken: Categories with facts that are not to be asked for.

  Returns:
    Task by task; dialogues category by category.
  """
  chosen = []
  for task, generate in tasks.items():
    rng = random.Random(f"minibench/{seed}/{task}")
    kinds = list(dialogue.KINDS) if task == "mt_bench" else [task]
    found = {kind: {} for kind in kinds}
    while any(len(some) < per_task // len(kinds) for some in found.values()):
      one = generate(rng)
      some = found[one.category]
      new = held_out(one) and (one.category, one.facts) not in taken
      if new and len(some) < per_task // len(kinds):
        some.setdefault(one.facts, one)
    chosen += [one for some in found.values() for one in some.values()]
  return chosen


def for_tuning(tasks: dict) -> list[Conversation]:
  """Others than MiniBench's."""
  taken = {(one.category, one.facts) for one in conversations(tasks)}
  return conversations(tasks, TUNING_PER_TASK, TUNING_SEED, taken)


def lines(chosen: list[Conversation]) -> str:
  """Conversations as a file of questions."""
  text = ""
  for i, one in enumerate(chosen):
    row = {
      "question_id": i + 1,
      "category": one.category,
      "turns": one.turns,
      "reference": one.references,
    }
    text += json.dumps(row, ensure_ascii=False) + "\n"
  return text
