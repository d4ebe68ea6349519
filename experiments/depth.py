"""The paper's figure of depths: the gain grows with depth and tree size.

  python -m experiments.depth
  python -m experiments.depth --config=configs/llama3_1b_8b.py

The paper prints no numbers for its figure. Of its points two are known, as they
are in its main table too: the binary tree of depth 5, and a chain of 5, which
the figure does not have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from experiments import command, comparing, drawing, experiment, main_table
from experiments.experiment import Artefact, Group, Shard
from tv_jax.runs.report.tables import Table

SHAPES = {
  "chain": [f"chain:{depth}" for depth in (2, 4, 6, 8)],
  "binary": [f"kary:2x{depth}" for depth in (2, 3, 4, 5)],
}


def sweep(config, smoke: bool) -> Iterator[Shard]:
  """A shard for each tree."""
  del config
  for trees in SHAPES.values():
    for tree in trees[:1] if smoke else trees:
      yield Shard(tree.replace(":", "-"), {"trees": tree})


def render(groups: Sequence[Group]) -> Artefact:
  """A table for each kind of tree of each group, and both as figures."""
  made, reading, notes, figures = [], [], [], {}
  for group in groups:
    found = {
      kind: {
        tree: comparing.compare(
          group.answers, comparing.on(main_table.AT_ONE, tree)
        )
        for tree in trees
      }
      for kind, trees in SHAPES.items()
    }
    beside = main_table.closest(group).average_acceptance
    for kind, own in found.items():
      made.append(_table(group, kind, own, beside))
      reading += comparing.growth(
        group, kind, _depths(own), "depth ", "one level more"
      )
    notes += comparing.notes(group)
    figures |= _figures(group, found)
  notes += [
    "The paper's figure prints no numbers; the binary tree of depth 5 is in its"
    " main table.",
    *comparing.DEFINITIONS,
  ]
  return Artefact(reading, made, figures, notes)


def _table(group, kind, found, beside) -> Table:
  rows = []
  for tree, own in found.items():
    nodes = str(len(_parsed(tree)) - 1)
    rows.append([tree, nodes, *own.row, *comparing.printed(beside.get(tree))])
  return comparing.table(f"{group.name}, {kind}", ["tree", "drafted"], rows)


def _depths(found):
  """By depth, what is there."""
  return {_parsed(tree).max_depth: own for tree, own in found.items()}


def _parsed(name):
  # Here, as it imports jax, which a launcher of sweeps does without.
  from tv_jax import tree

  return tree.parse(name)


def _figures(group, found) -> dict[str, str]:
  lengths, gains = {}, {}
  for kind, own in found.items():
    cells = _depths(own)
    lengths[kind] = {
      name: {
        depth: getattr(both, rule).by_item
        for depth, both in cells.items()
        if getattr(both, rule)
      }
      for name, rule in (("Tok.V", "token_level"), ("Tra.V", "traversal"))
    }
    gains[kind] = {"this run": {d: b.gain for d, b in cells.items() if b.gain}}
  return {
    f"depth-{group.name}": drawing.lines(
      lengths, x="depth", y="tokens gained in a cycle"
    ),
    f"depth-gain-{group.name}": drawing.lines(
      gains, x="depth", y="gain over token-level, %"
    ),
  }


EXPERIMENT = experiment.Experiment(
  name="depth",
  title="Depths: chains and binary trees, as in the paper's figure",
  sweep=sweep,
  render=render,
  configs=("quickstart", "quickstart:weak"),
  base={
    "temperatures": (1.0,),
    "plain": False,
    **experiment.LENGTHS_ALONE,
  },
)


if __name__ == "__main__":
  command.run(EXPERIMENT)
