"""The paper's figure of depths: the gain grows with depth and tree size.

  python -m experiments.depth
  python -m experiments.depth --config=configs/llama3_1b_8b.py

The paper prints no numbers for its figure. Its main table has one point of it:
the binary tree of depth 5.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from experiments import command, comparing, drawing, experiment, main_table
from experiments.experiment import Artefact, Group, Shard

# By kind and depth.
SHAPES = {
  "chain": {depth: f"chain:{depth}" for depth in (2, 4, 6, 8)},
  "binary": {depth: f"kary:2x{depth}" for depth in (2, 3, 4, 5)},
}
NOTE = (
  "The paper's figure prints no numbers; the binary tree of depth 5 is in its"
  " main table."
)


def sweep(config, smoke: bool) -> Iterator[Shard]:
  """Makes a shard for each tree."""
  del config
  for trees in SHAPES.values():
    for tree in [*trees.values()][: 1 if smoke else None]:
      yield Shard(tree.replace(":", "-"), {"trees": tree})


def render(groups: Sequence[Group]) -> Artefact:
  """Makes a table and figures for each kind of tree of each group."""
  made = Artefact()
  for group in groups:
    beside = main_table.closest(group).average_acceptance
    lengths, gains = {}, {}
    for kind, trees in SHAPES.items():
      found: dict[float, comparing.Compared] = {
        depth: comparing.compare(
          group.answers, comparing.on(main_table.AT_ONE, tree)
        )
        for depth, tree in trees.items()
      }
      rows = []
      for depth, tree in trees.items():
        nodes = depth if kind == "chain" else 2 ** (depth + 1) - 2
        theirs = comparing.printed(beside.get(tree))
        rows.append([tree, str(nodes), *found[depth].row, *theirs])
      made.tables.append(
        comparing.table(f"{group.name}, {kind}", ["tree", "drafted"], rows)
      )
      made.reading += comparing.growth(group, kind, found, "depth ", "level")
      lengths[kind] = {
        name: {
          depth: cell.by_item
          for depth, both in found.items()
          if (cell := getattr(both, rule))
        }
        for name, rule in (("Tok.V", "token_level"), ("Tra.V", "traversal"))
      }
      gains[kind] = {
        "this run": {d: both.gain for d, both in found.items() if both.gain}
      }
    made.notes += comparing.notes(group)
    made.figures |= {
      f"depth-{group.name}": drawing.lines(
        lengths, x="depth", y="tokens gained in a cycle"
      ),
      f"depth-gain-{group.name}": drawing.lines(
        gains, x="depth", y="gain over token-level, %"
      ),
    }
  made.notes += [NOTE, *comparing.DEFINITIONS]
  return made


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
