"""What is a tree, and which are too large."""

import collections

from tv_jax.edge.reading import brief

ROOT = 0
NO_PARENT = -1
NO_CHILD = -1

# Programs are unrolled over levels and over siblings, and a pass is over all
# nodes: larger trees would be compiled for hours. Real ones are far smaller.
MOST_NODES = 4096
MOST_LEVELS = 256
MOST_CHILDREN = 256


def validate(parents: tuple[int, ...]) -> None:
  """Refuses what is not a tree in level order, naming a node."""
  if not parents or parents[ROOT] != NO_PARENT:
    raise ValueError(f"node 0 must be the root: its parent is {NO_PARENT}")
  if len(parents) == 1:
    raise ValueError("node 0 is the root and has no child: nothing is drafted")
  check_nodes(len(parents))
  for node, parent in enumerate(parents[1:], start=1):
    if parent == NO_PARENT:
      raise ValueError(f"node {node} is a second root: give it a parent")
    if not 0 <= parent < len(parents):
      raise ValueError(
        f"node {node} has parent {brief(parent)}, which is not among the"
        f" {len(parents)} nodes"
      )
  _check_ways_up(parents)
  depth, seen = [0] * len(parents), {NO_PARENT}
  for node, parent in enumerate(parents[1:], start=1):
    if parent >= node:
      raise ValueError(
        f"node {node} stands before its parent {parent}: use level order"
      )
    depth[node] = depth[parent] + 1
    if depth[node] < depth[node - 1]:
      raise ValueError(
        f"node {node} at depth {depth[node]} follows a node at depth"
        f" {depth[node - 1]}: use level order"
      )
    if parent != parents[node - 1] and parent in seen:
      raise ValueError(
        f"node {node} stands apart from its siblings below {parent}: make"
        " siblings adjacent"
      )
    seen.add(parent)
  check_levels(depth[-1])
  check_children(max(collections.Counter(parents).values()))


def _check_ways_up(parents) -> None:
  """Refuses a node from which no way leads to the root."""
  sound = {ROOT}
  for node in range(1, len(parents)):
    way, above = {node}, parents[node]
    while above not in sound and above not in way:
      way.add(above)
      above = parents[above]
    if above not in sound:
      raise ValueError(f"node {node} leads into a cycle, not to the root")
    sound |= way


def check_nodes(count: int, least: str = "") -> None:
  """Refuses too many nodes."""
  if count > MOST_NODES:
    raise ValueError(
      f"{least}{brief(count)} nodes: {MOST_NODES} are the most that a tree may"
      " have"
    )


def check_levels(count: int) -> None:
  """Refuses too many levels."""
  if count > MOST_LEVELS:
    raise ValueError(
      f"{brief(count)} levels: {MOST_LEVELS} are the most that a tree may have"
    )


def check_children(count: int) -> None:
  """Refuses too many children of a node."""
  if count > MOST_CHILDREN:
    raise ValueError(
      f"{brief(count)} children of a node: {MOST_CHILDREN} are the most that it"
      " may have"
    )
