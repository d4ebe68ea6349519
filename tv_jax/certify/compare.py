"""Compares an output with the target, and looks for a smaller failing case."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tv_jax import tree as tree_lib
from tv_jax.certify.report import Case, WrongPrefix
from tv_jax.tree import NO_CHILD, ROOT, Tree


def compare(
  chances: Mapping[tuple[int, ...], Any],
  target: Callable[[tuple[int, ...]], Sequence],
  tolerance: float,
) -> tuple[float, WrongPrefix | None]:
  """Compares the law of a cycle's output, which the target continues.

  Args:
    chances: The probability of each output, as floats or fractions.
    target: Returns the target's law after a path, as numbers of that type.
    tolerance: Largest total variation that counts as rounding.

  Returns:
    Total variation; and the shortest prefix that is too likely, among several
    the one with the largest excess.
  """
  begins: dict[tuple[int, ...], Any] = {}
  inner: set[tuple[int, ...]] = {()}
  for tokens, chance in chances.items():
    for i in range(len(tokens) + 1):
      begins[tokens[:i]] = begins.get(tokens[:i], 0) + chance
      if i < len(tokens):
        inner.add(tokens[:i])
  # A prefix that no output extends is not extended: there the target continues
  # alone and adds nothing to the difference. For the others of a length: the
  # probability that the target completes them after a cycle, and their
  # probability under the target alone.
  level: dict[tuple[int, ...], tuple] = {(): (0, 1)}
  wrong, distance, done = None, 0.0, 0
  while level:
    excess, below = {}, {}
    for x, (after, alone) in level.items():
      after += chances.get(x, 0)
      for token, share in enumerate(target(x)):
        y = *x, token
        below[y] = ours, theirs = after * share, alone * share
        excess[y] = begins.get(y, 0) + ours - theirs
    distance = float(done + sum(map(abs, excess.values()))) / 2
    if wrong is None and not distance <= tolerance:  # a NaN is wrong, too
      worst = max(excess, key=lambda y: (excess[y], [-t for t in y]))
      wanted = below[worst][1]
      wrong = WrongPrefix(worst, float(wanted + excess[worst]), float(wanted))
    level = {x: below[x] for x in below if x in inner}
    done += sum(abs(excess[x]) for x in excess if x not in level)
  return distance, wrong


def smallest(cases: Iterable[Case]) -> Case | None:
  """Returns the case with the fewest nodes, tokens and runs; None without any.

  Cases that fail ten times less than the clearest are left out.
  """
  cases = [*cases]
  clear = max((case.distance for case in cases), default=0) / 10
  return min(
    (case for case in cases if case.distance >= clear or not case.wrong),
    key=lambda x: (len(x.tree or ()), x.world.vocabulary, x.runs),
    default=None,
  )


def smaller(
  known: Case, cases_on: Callable[[Tree | None], Iterable[Case]]
) -> list[Case]:
  """Returns failing cases on parts of a tree, the smallest parts first.

  The search ends with a part on which a failure is as clear as the known one.

  Args:
    known: A failing case.
    cases_on: Returns small cases on a tree; none if they cannot be made.
  """

  def shows(case):
    if known.wrong:
      return case.wrong and case.distance >= known.distance / 10
    return not case.wrong

  found = []
  for tree in [*_parts(known), known.tree]:
    failing = [case for case in cases_on(tree) if case.failed]
    found += failing
    if any(map(shows, failing)):
      break
  return found


def _parts(known: Case) -> list[Tree]:
  """Returns parts of a failing tree, the smallest first.

  A part has the path to an offered node, the elder siblings of nodes on the
  path, and none, one or all of the node's children. The last part has all
  offered nodes.
  """
  tree = known.tree
  if tree is None:
    return []
  offered = known.reached[0] if known.reached is not None else [1] * len(tree)
  nodes = [ROOT, *(i for i in range(1, len(tree)) if offered[i])]
  sets = {_paths(tree, nodes)}
  for node in nodes:
    below = [c for c in tree.children[node].tolist() if c != NO_CHILD]
    for some in ([], below[:1], below):
      sets.add(_paths(tree, [node, *some]))
  parts = [paths for paths in sets if 0 < len(paths) < len(tree) - 1]
  parts.sort(key=lambda paths: (len(paths), sorted(paths)))
  return [tree_lib.from_paths(paths) for paths in parts]


def _paths(tree: Tree, nodes: Iterable[int]) -> frozenset[tuple[int, ...]]:
  """Returns the paths, as ranks, to nodes, ancestors and all elder siblings."""
  paths = set()
  for node in nodes:
    ranks = tree.rank[tree.paths[node]].tolist()[1 : tree.depth[node] + 1]
    for depth, last in enumerate(ranks):
      paths |= {(*ranks[:depth], rank) for rank in range(last + 1)}
  return frozenset(paths)
