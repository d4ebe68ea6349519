"""Six small tasks in plain language whose answers can be scored.

What the bundled models are trained on, and what MiniBench asks. Every text is
made from a seed; nothing is read from anywhere.
"""

import random
from collections.abc import Callable

from bundled.tasks import (
  arithmetic,
  dialogue,
  minibench,
  questions,
  retrieval,
  summarization,
  translation,
)
from bundled.tasks.conversation import Conversation, held_out

# By Spec-Bench's names of its six tasks.
TASKS: dict[str, Callable[[random.Random], Conversation]] = {
  "mt_bench": dialogue.conversation,
  "translation": translation.conversation,
  "summarization": summarization.conversation,
  "qa": questions.conversation,
  "math_reasoning": arithmetic.conversation,
  "rag": retrieval.conversation,
}

__all__ = [
  "TASKS",
  "Conversation",
  "generate",
  "held_out",
  "minibench_lines",
  "tuning_lines",
]


def generate(
  task: str, rng: random.Random, *, test: bool = False
) -> Conversation:
  """A conversation of one side of the split.

  Args:
    task: One of TASKS.
    rng: Where all choices come from.
    test: Whether it is to be held out from training.

  Returns:
    The conversation.
  """
  while True:
    conversation = TASKS[task](rng)
    if held_out(conversation) == test:
      return conversation


def minibench_lines() -> str:
  """The contents of minibench.jsonl."""
  return minibench.lines(minibench.conversations(TASKS))


def tuning_lines() -> str:
  """The contents of tuning.jsonl."""
  return minibench.lines(minibench.for_tuning(TASKS))
