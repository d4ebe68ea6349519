"""Tells how a rule walks over a drafted tree from its stop law.

Axes: N nodes.

A stop law has the chance of each node to be the accepted one, given a draft.
A rule that offers one node after the other accepts the next one with

    chance = (mass of what is accepted now) / (mass of what is still possible).

Each cycle has the `Verifier.walk` of its rules. Bottom-up rules
(traversal, block) offer children before parents, and accept a node itself.
Top-down rules (token-level) offer a node's children in draw order; a child
stands for all nodes below it, and a node none of whose children is taken is
accepted. The mass that is still possible is the sum of what is left, never 1
minus what is gone: so the last chance is exactly 1.

A rule that walks in another way ends at other nodes than the run: `undrawn`
finds such rules, and their walks are not shown.

A cycle is a dictionary as in a run's traces: "parents", "pieces" (None where no
token was drawn), "coins", "stop" and "direction" by rule. `assets/walks.js` is
the same for the page.
"""

import collections
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from tv_jax.tree import ROOT, Tree
from tv_jax.verifiers import DOWN, UP


class Step(NamedTuple):
  """A node was offered."""

  node: int
  coin: float
  chance: float
  accepted: bool  # whether coin < chance


class Walk(NamedTuple):
  """All nodes that were offered, and the one that was accepted."""

  steps: tuple[Step, ...]
  node: int


# A coin this near its chance may have fallen on either side of it.
_CLOSE = 1e-5


def direction(cycle: dict, rule: str) -> str:
  """Returns DOWN, UP, or "" where it is not known how the rule walks."""
  return cycle.get("direction", {}).get(rule, "")


def undrawn(traces: Iterable[dict]) -> tuple[dict[str, str], int]:
  """Finds the rules whose walks cannot be shown.

  Returns:
    The reason for each rule, and the number of cycles that did not end where
    the walk of their rule does.
  """
  reasons, ran, missed = {}, collections.Counter(), collections.Counter()
  for trace in traces:
    for cycle in trace["cycles"]:
      for rule in cycle["stop"]:
        if not direction(cycle, rule):
          reasons[rule] = (
            f"{rule} does not say in which direction it walks, so that its walk"
            " cannot be told from its stop law"
          )
      rule = trace["verifier"]
      if rule in cycle["stop"] and direction(cycle, rule):
        ran[rule] += 1
        missed[rule] += not _fits(cycle, rule)
  for rule, count in (+missed).items():
    reasons[rule] = (
      f"{rule} does not walk as its direction says: {count} of {ran[rule]}"
      " cycles ended at another node than the walk told from its stop law"
    )
  return reasons, missed.total()


def _fits(cycle, rule):
  """Returns whether the run ended where the walk does, but for rounding."""
  found = walk(cycle, rule)
  return found.node == cycle["node"] or any(
    abs(step.coin - step.chance) < _CLOSE for step in found.steps
  )


def chances(cycle: dict, rule: str) -> np.ndarray:
  """Returns the chance [N] of each node when offered; NaN if it never is."""
  if len(cycle["parents"]) == 1:  # nothing was drafted
    return np.ones(1)
  tree, stop = Tree(tuple(cycle["parents"])), cycle["stop"][rule]
  now, left = np.array(stop, np.float64), np.zeros(len(tree))
  if direction(cycle, rule) == DOWN:
    now = tree.ancestors.T @ now
    for node in tree.inner:
      children = tree.children[node, : tree.num_children[node]]
      left[children] = stop[node] + now[children][::-1].cumsum()[::-1]
    left[ROOT] = now[ROOT]
  else:
    order = tree.postorder
    left[order] = now[order][::-1].cumsum()[::-1]
  return np.divide(now, left, out=np.full(len(tree), np.nan), where=left > 0)


def walk(cycle: dict, rule: str) -> Walk:
  """Returns what the rule decides with the cycle's coins."""
  if len(cycle["parents"]) == 1:
    return Walk((), ROOT)
  tree = Tree(tuple(cycle["parents"]))
  chance, steps = chances(cycle, rule), []

  def first_hit(nodes):
    """Returns the first of the nodes that is accepted when offered, or None."""
    for node in map(int, nodes):
      if node == ROOT or cycle["pieces"][node] is None:
        continue
      coin = cycle["coins"][node]
      hit = bool(coin < chance[node])
      steps.append(Step(node, coin, float(chance[node]), hit))
      if hit:
        return node
    return None

  if direction(cycle, rule) == UP:
    node = first_hit(tree.postorder)
    return Walk(tuple(steps), ROOT if node is None else node)
  node, below = ROOT, ROOT
  while below is not None:
    node = below
    below = first_hit(np.flatnonzero(tree.parent == node))
  return Walk(tuple(steps), node)
