"""Six small tasks in plain language, with answers that can be scored.

The bundled models are trained on them, and MiniBench consists of them. Every
text is made from a seed.
"""

import json
import random
from collections.abc import Callable, Collection

from training.tasks import (
  arithmetic,
  dialogue,
  questions,
  retrieval,
  summarization,
  translation,
)
from training.tasks.conversation import Conversation, held_out

# By the names of Spec-Bench's six tasks.
TASKS: dict[str, Callable[[random.Random], Conversation]] = {
  "mt_bench": dialogue.conversation,
  "translation": translation.conversation,
  "summarization": summarization.conversation,
  "qa": questions.conversation,
  "math_reasoning": arithmetic.conversation,
  "rag": retrieval.conversation,
}


def generate(task: str, rng: random.Random) -> Conversation:
  """Makes a conversation of a task for training: it is not held out."""
  while held_out(conversation := TASKS[task](rng)):
    pass
  return conversation


def _choose(
  per_task: int, seed: int, taken: Collection[tuple[str, str]] = ()
) -> list[Conversation]:
  """Makes held-out conversations of each task, no two about the same facts.

  Args:
    per_task: Number of conversations of each task.
    seed: Seed of all choices.
    taken: Pairs of category and facts that are excluded.

  Returns:
    The conversations, by task, and dialogues by category.
  """
  chosen = []
  for task, make in TASKS.items():
    rng = random.Random(f"minibench/{seed}/{task}")
    kinds = list(dialogue.KINDS) if task == "mt_bench" else [task]
    by_kind: dict[str, dict] = {kind: {} for kind in kinds}
    count = per_task // len(kinds)
    while any(len(some) < count for some in by_kind.values()):
      conversation = make(rng)
      some, facts = by_kind[conversation.category], conversation.facts
      new = (conversation.category, facts) not in taken
      if new and held_out(conversation) and len(some) < count:
        some.setdefault(facts, conversation)
    for some in by_kind.values():
      chosen += some.values()
  return chosen


def minibench() -> list[Conversation]:
  """Makes MiniBench: 16 held-out conversations of each task."""
  return _choose(16, 20261120)


def tuning() -> list[Conversation]:
  """Makes 32 more of each task, about other facts, to tune trees on."""
  taken = {(other.category, other.facts) for other in minibench()}
  return _choose(32, 20261123, taken)


def lines(chosen: list[Conversation]) -> str:
  """Writes conversations as a file of questions in Spec-Bench's format."""
  text = ""
  for i, conversation in enumerate(chosen):
    row = {
      "question_id": i + 1,
      "category": conversation.category,
      "turns": conversation.turns,
      "reference": conversation.references,
    }
    text += json.dumps(row, ensure_ascii=False) + "\n"
  return text
