"""Sizes a batch's verification by confidences that know the tokens cut.

TensorRT-LLM's planner for DSpark takes the best of all budgets, and gives it to
the drafts of a batch that most likely survive (17056, open when read). The rank
of a draft knows only the tokens before it. The budget knows all, if its
confidences are this step's, which was asked there and not answered. Here they
are. vLLM's are two steps old (47808), which is exact.
"""

import numpy as np

from examples.faults import common

SYSTEM = "TensorRT-LLM, a question"
REPORT = "https://github.com/NVIDIA/TensorRT-LLM/pull/17056"

COST = (1.0, 1.1, 1.45, 1.5, 1.55)  # of a step, by drafts verified: stairs
NEIGHBOUR = (0.9, 0.1)  # another request's chances to survive


def budget(ours):
  """Choose how many drafts of the batch give the most tokens a second."""
  ranked = np.sort([*ours, *NEIGHBOUR])[::-1]
  expected = 2 + np.cumsum([0, *ranked])
  return int(np.argmax(expected / COST))


def verified(p, q, context, rng, known):
  """Verify this request's part of a budget by what is `known`."""
  tokens, laws = common.propose(q, context, rng)
  ours = common.survival(p, q, context, tokens)
  ranked = np.argsort([*-ours, *(-x for x in NEIGHBOUR)], kind="stable")
  length = int((ranked[: budget(known(ours))] < len(ours)).sum())
  return common.check(tokens[:length], laws[:length], p, context, rng)


def faulty(p, q, context, rng):
  """Take the budget from this step's confidences."""
  return verified(p, q, context, rng, lambda ours: ours)


def fixed(p, q, context, rng):
  """Take it from confidences before anything is drawn."""
  first = np.minimum(p(context), q(context)).sum()
  return verified(p, q, context, rng, lambda _: np.array([first, first**2]))
