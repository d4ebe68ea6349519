"""Times every verifier: milliseconds per decision, temporaries, GPU kernels.

    JAX_PLATFORMS=cpu python -m benchmarks.verify
    python -m benchmarks.verify --vocab=32000 --trees=chain:5,eagle --nogpu

Drafts. Target logits are 5 times a normal variate, so that probabilities are
log-normal: a few tokens hold most of the mass (the likeliest about 0.4 in the
mean, from 0.05 to 0.99 over the nodes). Draft logits are the target's plus 0.6
times a normal variate, which makes the mean total variation TV(p, q) about 0.2;
what it was is printed. Siblings are drawn from q without replacement, anew for
each decision, and so are the coins; a rule that is for another proposal alone
(`k_seq`) decides on the same tokens as if they were drawn so. All rows are
float32.

Methods. Every rule in `verifiers.DEFAULT` and of `--verifiers`, and the two
walks as one would write them in NumPy: one node after the other with early
exit, work on the rows of the family at hand alone, every V-sized operation in
place.

Inside. A generation calls no verification: it has one in every cycle of its
loop. So all decisions of a tree are gone through in one program as well, each
with the draw of the token that comes after (from another key than the coins'),
beside the NumPy walk in a loop, with such a draw; four times, of which the
least counts.

Protocol. Everything is compiled and warmed before a clock starts. The methods
then take turns, in a new random order for each decision, over the same tokens
and coins, and each waits for its result. All decisions are gone through four
times and the least of a decision's four times counts: other work on the machine
can only add. Large trees get fewer decisions. Only ratios travel from one
machine to another.
"""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags

from benchmarks import common, gpu_program
from benchmarks.decisions import (
  NUMPY_TOKEN_LEVEL,
  NUMPY_TRAVERSAL,
  TOKEN_LEVEL,
  TRAVERSAL,
  Measured,
  measure,
  on_laws,
  proposal_of,
)
from tv_jax.edge import cli, names
from tv_jax.tree import Tree
from tv_jax.verifiers import DEFAULT, VERIFIERS, misfit

_VOCAB = cli.define_names("vocab", "128256 32000", "Vocabulary sizes.")
_TREES = cli.define_names(
  "trees", "chain:5 kary:2x5 eagle grown:768", "Trees, as `tree.parse` reads."
)
_DECISIONS = flags.DEFINE_integer(
  "decisions", 200, "Decisions on a small tree; large ones get fewer.", 1
)
_SEED = flags.DEFINE_integer("seed", 0, "Of the drafts and the coins.", 0)
_VERIFIERS = cli.define_names("verifiers", "", "More rules, by name.")
flags.DEFINE_alias("also", "verifiers")
_GPU = flags.DEFINE_boolean(
  "gpu", True, "Compile for an H200 as well, if the CUDA plugin is there."
)

LEVEL_FORMS = ("traversal", "token_level")
# Who must accept the same node, given the same coins.
RULES = (
  ("block", NUMPY_TRAVERSAL, *TRAVERSAL),
  (NUMPY_TOKEN_LEVEL, *TOKEN_LEVEL),
)


def report(
  vocabularies: list[int],
  trees: dict[str, Tree],
  *,
  decisions: int,
  seed: int,
  gpu: bool,
  also: Sequence[str] = (),
) -> None:
  """Measures and prints everything; the first vocabulary has the goals."""
  print(common.versions())
  results = {}
  for vocabulary in vocabularies:
    results[vocabulary] = of = {}
    for name, tree in trees.items():
      common.say(f"measuring {name} at V = {vocabulary}")
      few = decisions_for(tree, decisions)
      of[name] = measure(tree, vocabulary, few, seed, also)
    ratios = functools.partial(_ratios, eagle=of.get("eagle"))
    for title, cells in (
      ("milliseconds per decision, mean (median)", _times),
      ("ratios of means, the better form of each", ratios),
      ("peak temporaries (and over the inputs)", _memory),
    ):
      columns = {name: cells(measured) for name, measured in of.items()}
      _show(f"V = {vocabulary}: {title}", columns)
  first = vocabularies[0]
  programs = _gpu_programs(trees, first) if gpu else {}
  common.Table(
    title=f"Goals at V = {first}",
    header=["", "measured", ""],
    rows=goals(results[first], programs.get("eagle"), first),
  ).show()


def decisions_for(tree: Tree, decisions: int) -> int:
  """Fewer on large trees, yet enough for a mean."""
  return max(min(decisions, 24), min(decisions, decisions * 64 // len(tree)))


def _show(title: str, columns: dict[str, dict[str, str]]):
  """Columns are cells by row; the longest one has all rows."""
  rows = [
    [row, *(own.get(row, "-") for own in columns.values())]
    for row in max(columns.values(), key=len)
  ]
  common.Table(title=title, header=["", *columns], rows=rows).show()


def _times(measured) -> dict[str, str]:
  times = measured.bare | {
    f"logits, {name}": own for name, own in measured.whole.items()
  }
  return (
    {
      "decisions": str(len(measured.bare[NUMPY_TRAVERSAL])),
      "mean TV(p, q)": f"{measured.distance:.3f}",
      "tokens, traversal": _tokens(measured, NUMPY_TRAVERSAL),
      "tokens, token-level": _tokens(measured, NUMPY_TOKEN_LEVEL),
      "same decisions": _agreement(measured),
    }
    | {
      name: f"{np.mean(ms):.3g} ({np.median(ms):.3g})"
      for name, ms in times.items()
    }
    | {f"inside, {name}": f"{ms:.3g}" for name, ms in measured.inside.items()}
  )


def _tokens(measured, method) -> str:
  """Gained a cycle: the accepted path and the bonus token."""
  return f"{measured.tree.depth[measured.nodes[method]].mean() + 1:.2f}"


def _agreement(measured) -> str:
  """In how many decisions all methods of a rule accepted the same node."""
  same = True
  for rule in RULES:
    nodes = [measured.nodes[name] for name in rule if name in measured.nodes]
    same &= (np.stack(nodes) == nodes[0]).all(axis=0)
  return f"{same.sum()} of {len(same)}"


def _ratios(measured, eagle) -> dict[str, str]:
  bare, whole = measured.bare, measured.whole
  cells = {
    "traversal / token-level": ratio(bare, TRAVERSAL, TOKEN_LEVEL),
    "the same with logits": ratio(whole, TRAVERSAL, TOKEN_LEVEL),
    "traversal / NumPy's": ratio(bare, TRAVERSAL, [NUMPY_TRAVERSAL]),
    "token-level / NumPy's": ratio(bare, TOKEN_LEVEL, [NUMPY_TOKEN_LEVEL]),
    "inside, traversal / NumPy's": inside_ratio(measured),
  }
  cells = {name: f"{value:.2f}" for name, value in cells.items()}
  if eagle:
    time, nodes = growth(measured, eagle)
    cells["time : nodes, over EAGLE"] = f"{time:.3g} : {nodes:.3g}"
  return cells


def ratio(times: dict[str, np.ndarray], forms, others) -> float:
  """A rule's time over another's, the better form of each."""
  return _best(times, forms) / _best(times, others)


def inside_ratio(measured: Measured) -> float:
  """The traversal's time over NumPy's, where neither is called for each."""
  return ratio(measured.inside, TRAVERSAL, [NUMPY_TRAVERSAL])


def _best(times, forms):
  return min(float(np.mean(times[form])) for form in forms)


def growth(measured: Measured, eagle: Measured) -> tuple[float, float]:
  """Traversal's time and the nodes, each over the EAGLE tree's."""
  time = _best(measured.bare, TRAVERSAL) / _best(eagle.bare, TRAVERSAL)
  return time, len(measured.tree) / len(eagle.tree)


def _memory(measured) -> dict[str, str]:
  return {"p and q": _bytes(measured.inputs)} | {
    name: f"{_bytes(size)} ({size / measured.inputs:.2f})"
    for name, size in measured.temporaries.items()
  }


def _bytes(count: int) -> str:
  unit = min(int(np.log10(max(count, 1))) // 3, 3)
  return f"{count / 1000**unit:.3g} {('B', 'kB', 'MB', 'GB')[unit]}"


# GPU programs.


def _gpu_programs(trees, vocabulary) -> dict:
  """Programs by tree and form, compiled for an H200, and shown."""
  if reason := gpu_program.why_not():
    print(f"\nNothing about an H200: {reason}.")
    return {}
  programs, columns = {}, {}
  for name, tree in trees.items():
    common.say(f"compiling {name} for an H200")
    programs[name], columns[name] = {}, {}
    for form in LEVEL_FORMS:
      own = programs[name][form] = compile_for_gpu(form, tree, vocabulary)
      columns[name] |= {
        f"{form}: kernels": str(len(own.kernels)),
        f"{form}: temporaries": _bytes(own.memory.temp_size_in_bytes),
        f"{form}: V-sized ones": ", ".join(own.temporaries(vocabulary))
        or "none",
      }
  _show(f"V = {vocabulary}: compiled for an H200", columns)
  return programs


def compile_for_gpu(
  name: str, tree: Tree, vocabulary: int
) -> gpu_program.Program:
  """Compiles one verifier for an H200, which need not be there."""
  N = len(tree)
  row = jax.ShapeDtypeStruct((N,), jnp.float32)
  rows = jax.ShapeDtypeStruct((N, vocabulary), jnp.float32)
  tokens = jax.ShapeDtypeStruct((N,), jnp.int32)
  return gpu_program.compile_for(on_laws(name, tree), tokens, row, rows, rows)


# Goals.


def goals(
  of: dict[str, Measured],
  programs: dict[str, gpu_program.Program] | None,
  vocabulary: int,
) -> list[list[str]]:
  """What is wanted, what was measured, and whether that will do.

  Args:
    of: By tree.
    programs: The EAGLE tree's by form, if there are any.
    vocabulary: V.

  Returns:
    Rows of a table.
  """
  eagle, large = of.get("eagle"), of.get("grown:768")
  wanted = {
    "cost": "EAGLE: traversal <= 2 x token-level",
    "whole": "EAGLE, with logits to laws: <= 1.25 x token-level",
    "numpy": "EAGLE: traversal faster than the NumPy walk",
    "inside": "Inside a program, with its token: no tree slower than NumPy's",
    "memory": "768 nodes: temporaries < 3 x inputs",
    "growth": "768 nodes over EAGLE: time grows no faster than nodes",
    "kernels": "EAGLE on an H200: <= 37 and <= 14 kernels",
    "no rows": "EAGLE on an H200: no V-sized temporary",
  }
  found = {}
  if eagle:
    cost = ratio(eagle.bare, TRAVERSAL, TOKEN_LEVEL)
    found["cost"] = f"{cost:.2f} x", cost <= 2
    whole = ratio(eagle.whole, TRAVERSAL, TOKEN_LEVEL)
    found["whole"] = f"{whole:.2f} x", whole <= 1.25
    walk = ratio(eagle.bare, TRAVERSAL, [NUMPY_TRAVERSAL])
    found["numpy"] = f"{walk:.2f} x its time", walk < 1
  if of:
    walks = {name: inside_ratio(measured) for name, measured in of.items()}
    name = max(walks, key=walks.get)
    text = f"{walks[name]:.2f} x its time at most ({name})"
    found["inside"] = text, walks[name] <= 1
  if large:
    own = [name for name in DEFAULT if name in large.temporaries]
    name = max(own, key=large.temporaries.get)
    share = large.temporaries[name] / large.inputs
    found["memory"] = f"{share:.2f} x ({name})", share < 3
  if eagle and large:
    time, nodes = growth(large, eagle)
    found["growth"] = f"{time:.3g} x, nodes {nodes:.3g} x", time <= nodes
  if programs:
    walks = [programs[form] for form in LEVEL_FORMS]
    one, two = (len(walk.kernels) for walk in walks)
    found["kernels"] = f"{one} and {two}", one <= 37 and two <= 14
    rows = [row for walk in walks for row in walk.temporaries(vocabulary)]
    found["no rows"] = ", ".join(rows) or "none", not rows
  verdict = {True: "met", False: "missed", None: "-"}
  lines = []
  for name, text in wanted.items():
    measured, met = found.get(name, ("not measured", None))
    lines.append([text, measured, verdict[met]])
  return lines


# The command.


def check_siblings(trees: dict[str, Tree], vocabulary: int) -> None:
  """Refuses a node with more children than there are tokens to draw."""
  for name, tree in trees.items():
    if (width := tree.children.shape[1]) > vocabulary:
      raise ValueError(
        f"--vocab={vocabulary}: too small for the {width} siblings of {name}"
      )


def main(heard, arguments: list[str]) -> None:
  """Reads the flags and runs."""
  del heard
  cli.no_arguments(arguments)
  vocabularies = sorted({*cli.numbers(_VOCAB, int, least=16)}, reverse=True)
  trees = common.parse_trees(" ".join(_TREES.value), common.tree)
  check_siblings(trees, vocabularies[-1])
  also = cli.split(_VERIFIERS.value)
  for name in also:
    rule = names.lookup(VERIFIERS, name, "--verifiers")
    why = [misfit(rule, tree, proposal_of(name)) for tree in trees.values()]
    if all(why):
      raise ValueError(f"--verifiers={name}: {why[0]}")
  report(
    vocabularies,
    trees,
    decisions=_DECISIONS.value,
    seed=_SEED.value,
    gpu=_GPU.value,
    also=also,
  )


if __name__ == "__main__":
  cli.run("benchmarks.verify", main)
