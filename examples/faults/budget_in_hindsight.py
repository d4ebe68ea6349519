"""Sizes a batch's verification by confidences that depend on the tokens cut.

TensorRT-LLM's planner for DSpark takes the best of all budgets, and gives it to
the drafts of a batch that most likely survive (17056, open when read). A
draft's rank depends on earlier tokens only. The budget depends on all tokens if
it uses this step's confidences. A comment asked this and got no answer; our
program uses them. vLLM uses confidences from two steps before (47808), which is
exact.
"""

import numpy as np

from examples.faults import common

SYSTEM = "TensorRT-LLM, a question"
REPORT = "https://github.com/NVIDIA/TensorRT-LLM/pull/17056"

COST = (1.0, 1.1, 1.45, 1.5, 1.55)  # of a step, by number of verified drafts
NEIGHBOUR = (0.9, 0.1)  # survival probabilities of another request's drafts


def budget(ours):
  """Choose the number of drafts that gives the most tokens a second."""
  ranked = np.sort([*ours, *NEIGHBOUR])[::-1]
  expected = 2 + np.cumsum([0, *ranked])
  return int(np.argmax(expected / COST))


def verified(p, q, context, rng, known):
  """Verify this request's part of the budget for `known(confidences)`."""
  tokens, laws = common.propose(q, context, rng)
  ours = common.survival(p, q, context, tokens)
  ranked = np.argsort([*-ours, *(-x for x in NEIGHBOUR)], kind="stable")
  length = int((ranked[: budget(known(ours))] < len(ours)).sum())
  return common.check(tokens[:length], laws[:length], p, context, rng)


def faulty(p, q, context, rng):
  """Choose the budget by this step's confidences."""
  return verified(p, q, context, rng, lambda ours: ours)


def fixed(p, q, context, rng):
  """Choose the budget by confidences that precede all draws."""
  first = np.minimum(p(context), q(context)).sum()
  return verified(p, q, context, rng, lambda _: np.array([first, first**2]))
