"""Times every verifier: milliseconds per decision, beside a walk in NumPy.

    JAX_PLATFORMS=cpu python -m benchmarks.verify
    python -m benchmarks.verify --vocab=32000 --trees=chain:5,eagle

Drafts. Target logits are 5 times a normal variate: a few tokens hold most of
the mass (the likeliest about 0.4 in the mean). Draft logits are the target's
plus 0.6 times a normal variate, which makes the mean total variation TV(p, q)
about 0.2; what it was is printed. Siblings are drawn from q without
replacement, anew for each decision, and so are the coins; a rule that is for
another proposal alone (`k_seq`) decides on the same tokens as if they were
drawn so. All rows are float32.

Methods. Every rule in `verifiers.DEFAULT` and of `--verifiers`, and the
traversal as one would write it in NumPy: one node after the other with early
exit, every operation on the vocabulary in place.

Inside. A generation calls no verification: it has one in every cycle of its
loop. So all decisions of a tree are gone through in one program as well, each
with the draw of the token that comes after, beside the NumPy walk in a loop,
with such a draw.

Protocol. Everything is compiled and warmed before a clock starts. The methods
then take turns, in a new random order for each decision, over the same tokens
and coins, and each waits for its result. All is gone through four times, of
which the least counts: other work on the machine can only add. Large trees get
fewer decisions. Only ratios travel from one machine to another.
"""

import numpy as np

from benchmarks import common
from benchmarks.decisions import NUMPY, TRAVERSAL, measure, proposal_of
from tv_jax.edge import names
from tv_jax.tree import Tree
from tv_jax.verifiers import VERIFIERS, misfit

# Who must accept the same node, given the same coins.
SAME = (NUMPY, "block", *TRAVERSAL)


def decisions_for(tree: Tree, decisions: int) -> int:
  """Fewer on large trees, yet enough for a mean."""
  return max(min(decisions, 24), min(decisions, decisions * 64 // len(tree)))


def cells(measured) -> dict[str, str]:
  """A column of the table, by row."""
  nodes = [own for name, own in measured.nodes.items() if name in SAME]
  same = (np.stack(nodes) == nodes[0]).all(axis=0)
  length = measured.tree.depth[measured.nodes[NUMPY]].mean() + 1
  called, inside = measured.called, measured.inside
  means = {name: own.mean() for name, own in called.items()}
  found = {
    "decisions": str(len(same)),
    "mean TV(p, q)": f"{measured.distance:.3f}",
    "tokens, traversal": f"{length:.2f}",
    "same decisions": f"{same.sum()} of {len(same)}",
  }
  for name, ms in called.items():
    found[name] = f"{means[name]:.3g} ({np.median(ms):.3g})"
  found |= {f"inside, {name}": f"{ms:.3g}" for name, ms in inside.items()}
  for name, times in (("a call each", means), ("inside", inside)):
    ratio = min(times[form] for form in TRAVERSAL) / times[NUMPY]
    found[f"traversal / NumPy's, {name}"] = f"{ratio:.2f}"
  return found


def main(arguments: list[str]) -> None:
  """Reads the flags, measures, prints a table a vocabulary."""
  parser = common.Parser("verify", __doc__)
  parser.add_argument("--vocab", default="128256 32000")
  trees = "chain:5 kary:2x5 eagle grown:768"
  parser.add_argument("--trees", default=trees)
  parser.add_argument("--decisions", type=common.at_least(1), default=200)
  parser.add_argument("--seed", type=common.at_least(0), default=0)
  parser.add_argument("--verifiers", "--also", default="", help="more rules")
  given = parser.parse_args(arguments)
  texts = names.split(given.vocab)
  vocabularies = [int(one) if one.isdecimal() else 0 for one in texts]
  trees = common.parse_trees(given.trees)
  widest = max(16, *(tree.children.shape[1] for tree in trees.values()))
  if not vocabularies or min(vocabularies) < widest:
    raise ValueError(
      f"--vocab={given.vocab}: give whole numbers of {widest} or more"
    )
  also = names.split(given.verifiers)
  for name in also:
    rule = names.find(VERIFIERS, name, "--verifiers")
    why = [misfit(rule, tree, proposal_of(name)) for tree in trees.values()]
    if all(why):
      raise ValueError(f"--verifiers={name}: {why[0]}")
  common.setting("verify", arguments)
  for vocabulary in vocabularies:
    columns = {}
    for name, tree in trees.items():
      common.say(f"measuring {name} at V = {vocabulary}")
      few = decisions_for(tree, given.decisions)
      columns[name] = cells(measure(tree, vocabulary, few, given.seed, also))
    rows = dict.fromkeys(row for own in columns.values() for row in own)
    common.Table(
      title=f"V = {vocabulary}: milliseconds per decision, mean (median)",
      header=["", *columns],
      rows=[
        [row, *(own.get(row, "-") for own in columns.values())] for row in rows
      ],
    ).show()


if __name__ == "__main__":
  common.run("verify", main)
