"""Times every verifier: milliseconds per decision, temporaries, GPU kernels.

    JAX_PLATFORMS=cpu python -m benchmarks.verify
    python -m benchmarks.verify --vocab=32000 --trees=chain:5,eagle --nogpu

Drafts. Target logits are 5 times a normal variate, so that probabilities are
log-normal: a few tokens hold most of the mass (the likeliest about 0.4 in the
mean, from 0.05 to 0.99 over the nodes). Draft logits are the target's plus 0.6
times a normal variate, which makes the mean total variation TV(p, q) about 0.2;
what it was is printed. Siblings are drawn from q without replacement, anew for
each decision, and so are the coins. All rows are float32.

Methods. Every rule in `VERIFIERS`, and the two walks as one would write them
in NumPy: one node after the other with early exit, work on the rows of the
family at hand alone, every V-sized operation in place.

Protocol. Everything is compiled and warmed before a clock starts. The methods
then take turns, in a new random order for each decision, over the same tokens
and coins, and each waits for its result. All decisions are gone through four
times and the least of a decision's four times counts: other work on the machine
can only add. Large trees get fewer decisions. Only ratios travel from one
machine to another.
"""

import bisect
import dataclasses
import datetime
import functools
import os
import re
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from absl import app, flags
from rich.console import Console
from rich.table import Table

from benchmarks import common, gpu_program
from tv_jax import probs, proposals
from tv_jax.proposals import INVALID
from tv_jax.tree import NO_CHILD, ROOT, Tree
from tv_jax.verifiers import VERIFIERS

_VOCAB = flags.DEFINE_list("vocab", ["128256", "32000"], "Vocabulary sizes.")
_TREES = flags.DEFINE_string(
  "trees", "chain:5,kary:2x5,eagle,grown:768", "Trees, as `tree.parse` reads."
)
_DECISIONS = flags.DEFINE_integer(
  "decisions", 200, "Decisions on a small tree; large ones get fewer.", 1
)
_SEED = flags.DEFINE_integer("seed", 0, "Of the drafts and the coins.", 0)
_GPU = flags.DEFINE_boolean(
  "gpu", True, "Compile for an H200 as well, if the CUDA plugin is there."
)

SCALE, NOISE = 5.0, 0.6
REPEATS = 4
PROPOSAL = proposals.WITHOUT_REPLACEMENT
TRAVERSAL = ("traversal", "traversal_loop")
TOKEN_LEVEL = ("token_level", "token_level_loop")
LEVEL_FORMS = ("traversal", "token_level")
NUMPY_TRAVERSAL, NUMPY_TOKEN_LEVEL = "numpy traversal", "numpy token-level"
# Who must accept the same node, given the same coins.
RULES = (
  ("block", NUMPY_TRAVERSAL, *TRAVERSAL),
  (NUMPY_TOKEN_LEVEL, *TOKEN_LEVEL),
)


# Drafts.


class Drafts(NamedTuple):
  """The rows of one tree, and many draws of its tokens."""

  draft: np.ndarray  # [M, V] logits of the nodes that have children
  target: np.ndarray  # [N, V] logits
  tokens: np.ndarray  # [decisions, N]
  distance: float  # mean TV(p, q) over the nodes that have children


def make_drafts(tree: Tree, vocabulary: int, decisions: int, seed) -> Drafts:
  """Random drafts, made row by row: nothing else is as large as the logits."""
  rng = np.random.default_rng(seed)
  target = np.empty((len(tree), vocabulary), np.float32)
  for row in target:
    rng.standard_normal(out=row, dtype=np.float32)
    row *= SCALE
  inner = np.flatnonzero(tree.num_children)
  draft = np.empty((len(inner), vocabulary), np.float32)
  tokens = np.full((decisions, len(tree)), INVALID, np.int32)
  distance = []
  for node, row in zip(inner, draft, strict=True):
    rng.standard_normal(out=row, dtype=np.float32)
    row *= NOISE
    row += target[node]
    q = _softmax(row)
    distance.append(np.abs(_softmax(target[node]) - q).sum() / 2)
    cumulative = np.cumsum(q, dtype=np.float64)
    children = tree.children[node, : tree.num_children[node]]
    for drawn in tokens:
      drawn[children] = _draw_siblings(rng, cumulative, len(children))
  return Drafts(draft, target, tokens, float(np.mean(distance)))


def _softmax(logits):
  weights = np.exp(logits - logits.max())
  return weights / weights.sum()


def _draw_siblings(rng, cumulative, k) -> list[int]:
  """Draws k tokens by inversion; those drawn are cut out of the interval."""
  cuts, tokens = [], []
  for _ in range(k):
    left = cumulative[-1] - sum(stop - start for start, stop in cuts)
    point = rng.random() * left
    for start, stop in cuts:  # ascending
      if point >= start:
        point += stop - start
    last = len(cumulative) - 1
    token = min(int(np.searchsorted(cumulative, point, side="right")), last)
    start = cumulative[token - 1] if token else 0.0
    bisect.insort(cuts, (start, cumulative[token]))
    tokens.append(token)
  return tokens


def to_laws(tree: Tree, draft: jax.Array, target: jax.Array):
  """The laws q, p [N, V] from logits; a leaf's row of q is never read."""
  inner = np.flatnonzero(tree.num_children)
  q = (
    jnp.zeros_like(target)
    .at[inner]
    .set(probs.law(draft), unique_indices=True, indices_are_sorted=True)
  )
  return q, probs.law(target)


# The two walks in NumPy.


class Walk:
  """A tree and the buffers of a walk; results live until the next one.

  Siblings are taken to be drawn without replacement.
  """

  def __init__(self, tree: Tree, vocabulary: int, dtype=np.float32):
    """Prepares all that does not depend on the draft."""
    self.children = [
      [child for child in row if child != NO_CHILD]
      for row in tree.children.tolist()
    ]
    # A maximum with an array of zeros takes a quarter of the time of one with
    # the number 0, and a product with ones a third of that of a sum.
    self.zeros = np.zeros(vocabulary, dtype)
    self.ones = np.ones(vocabulary, dtype)
    self.weights = np.empty(vocabulary, dtype)

  def traversal(self, tokens, q, p, eta) -> tuple[int, np.ndarray]:
    """The accepted node and the law of the bonus token."""
    self._load(tokens, q, p, eta)
    return self._visit(ROOT, 1.0)

  def token_level(self, tokens, q, p, eta) -> tuple[int, np.ndarray]:
    """The accepted node and the law of the bonus token."""
    self._load(tokens, q, p, eta)
    node, following = ROOT, ROOT
    while following is not None:
      node, following = following, None
      family = _Family(self, node, 1.0)
      for j, child in enumerate(family.children):
        if self.eta[child] < family.entry(j):
          following = child
          break
        family.reject(j, weigh=j + 1 < len(family.children))
    return node, family.law()

  def _load(self, tokens, q, p, eta):
    self.tokens, self.eta = tokens.tolist(), eta.tolist()
    self.q, self.p, self.holder = q, p, None

  def _visit(self, node, chance):
    """The first node in post-order that is accepted at or below this one."""
    family = _Family(self, node, chance)
    for j, child in enumerate(family.children):
      entry = family.entry(j)
      if entry > 0 and (found := self._visit(child, entry)):
        return found
      last = j + 1 == len(family.children)
      family.reject(j, weigh=not (last and node == ROOT))
    if node == ROOT or self.eta[node] < family.mass:
      return node, family.law()
    return None


class _Family:
  """A node's g = [alpha p - beta q]_+, but `at` on its children's tokens."""

  def __init__(self, walk: Walk, node: int, chance: float):
    self.walk, self.node = walk, node
    tokens = walk.tokens
    self.children = [c for c in walk.children[node] if tokens[c] != INVALID]
    self.tokens = [tokens[child] for child in self.children]
    self.q_at = [walk.q.item(node, token) for token in self.tokens]
    self.at = [chance * walk.p.item(node, token) for token in self.tokens]
    self.alpha = self.mass = chance
    self.beta, self.deficit = 0.0, 1 - chance
    self.rest = None  # the mass of q off the tokens, once it is needed

  def entry(self, j: int) -> float:
    return min(1.0, self.at[j] / (self._scale(j) * self.q_at[j]))

  def reject(self, j: int, *, weigh: bool):
    """Takes child j out of g; without `weigh` g is right up to its scale."""
    before = self.beta, self.at
    scale = self._scale(j)
    self.beta += scale
    self.at = self.at[:j] + [
      max(g - scale * q, 0.0)
      for g, q in zip(self.at[j:], self.q_at[j:], strict=True)
    ]
    self.walk.holder = None
    if not weigh:
      return
    kept = self.alpha * self._weigh()
    size = kept + self.deficit
    if size <= 0:  # g = q_j: a rejection that had no chance
      self.beta, self.at = before
      return
    self.alpha /= size
    self.beta /= size
    self.at = [g / size for g in self.at]
    self.mass, self.deficit = kept / size, self.deficit / size

  def law(self) -> np.ndarray:
    weights, p = self.walk.weights, self.walk.p[self.node]
    if self.beta == 0:
      return p
    # The walk's last pass is most often the one that is wanted here.
    total = self.total if self.walk.holder is self else self._weigh()
    if total <= 0:
      return p
    return np.multiply(weights, 1 / total, out=weights)

  def _weigh(self) -> float:
    """Writes g / alpha, and sums it: the pass over the vocabulary."""
    walk, node = self.walk, self.node
    weights = walk.weights
    np.multiply(walk.q[node], self.beta / self.alpha, out=weights)
    np.subtract(walk.p[node], weights, out=weights)
    np.maximum(weights, walk.zeros, out=weights)
    for token, value in zip(self.tokens, self.at, strict=True):
      weights[token] = value / self.alpha
    walk.holder, self.total = self, float(weights.dot(walk.ones))
    return self.total

  def _scale(self, j):
    """q_j is this multiple of q."""
    if j == 0:
      return 1.0
    if self.rest is None:
      self.rest = self._rest()
    return 1 / (self.rest + sum(self.q_at[j:]))

  def _rest(self):
    """Sums between the tokens: 1 minus theirs would lose what is left."""
    row, ones = self.walk.q[self.node], self.walk.ones
    rest, start = 0.0, 0
    for stop in [*sorted(self.tokens), len(row)]:
      rest += float(row[start:stop].dot(ones[start:stop]))
      start = stop + 1
    return rest


# Measurement.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measured:
  """What was measured on one tree at one vocabulary."""

  tree: Tree
  distance: float  # mean TV(p, q)
  bare: dict[str, np.ndarray]  # [decisions] ms by method
  whole: dict[str, np.ndarray]  # [fewer] ms by method, with logits to laws
  nodes: dict[str, np.ndarray]  # [decisions] the accepted node by method
  temporaries: dict[str, int]  # bytes by verifier
  inputs: int  # bytes of the laws


def measure(tree: Tree, vocabulary: int, decisions: int, seed) -> Measured:
  """Times all methods on one tree."""
  drafts = make_drafts(tree, vocabulary, decisions, seed)
  rng = np.random.default_rng([seed, 1])
  eta = rng.random((decisions, len(tree)), dtype=np.float32)
  coins = list(zip(drafts.tokens, eta, strict=True))
  logits = jnp.asarray(drafts.draft), jnp.asarray(drafts.target)
  distance = drafts.distance
  del drafts  # each copy of a large tree's rows is most of a gigabyte
  whole, _ = _race(
    {
      name: _bound(_compile(_from_logits(name, tree), coins, logits), logits)
      for name in (*TRAVERSAL, *TOKEN_LEVEL)
    },
    coins[: -(-decisions // 8)],  # mostly softmax, which hardly varies
    rng,
  )
  laws = jax.jit(functools.partial(to_laws, tree))(*logits)
  del logits
  programs = {
    name: _compile(_decide(name, tree), coins, laws)
    for name, verifier in VERIFIERS.items()
    if tree.is_chain or not verifier.chains_only
  }
  methods = {name: _bound(run, laws) for name, run in programs.items()}
  bare, nodes = _race(methods | _numpy_methods(tree, laws), coins, rng)
  return Measured(
    tree=tree,
    distance=distance,
    bare=bare,
    whole=whole,
    nodes=nodes,
    temporaries={
      name: run.memory_analysis().temp_size_in_bytes
      for name, run in programs.items()
    },
    inputs=sum(rows.nbytes for rows in laws),
  )


def _decide(name: str, tree: Tree) -> Callable:
  decide = functools.partial(VERIFIERS[name].decide, tree, PROPOSAL)
  return lambda tokens, eta, q, p: decide(tokens, q, p, eta)


def _from_logits(name: str, tree: Tree) -> Callable:
  decide = _decide(name, tree)
  return lambda tokens, eta, draft, target: decide(
    tokens, eta, *to_laws(tree, draft, target)
  )


def _compile(function, coins, rows):
  return jax.jit(function).lower(*coins[0], *rows).compile()


def _bound(program, rows) -> Callable:
  """A method: `prepare(tokens, eta)`, untimed, gives what is timed."""

  def prepare(tokens, eta):
    tokens, eta = jax.device_put((tokens, eta))
    return lambda: jax.block_until_ready(program(tokens, eta, *rows)).node

  return prepare


def _numpy_methods(tree, laws) -> dict[str, Callable]:
  # Views on a CPU; for another device the walks' rows are on the host.
  q, p = map(np.asarray, laws)
  walk = Walk(tree, q.shape[1])

  def method(rule):
    return lambda tokens, eta: lambda: rule(tokens, q, p, eta)[0]

  return {
    NUMPY_TRAVERSAL: method(walk.traversal),
    NUMPY_TOKEN_LEVEL: method(walk.token_level),
  }


def _race(methods, coins, rng):
  """Milliseconds and accepted nodes by method, [decisions], same coins."""
  names = list(methods)
  times = np.zeros((len(names), REPEATS, len(coins)))
  nodes = np.zeros((len(names), len(coins)), int)
  for prepare in methods.values():
    prepare(*coins[0])()  # warm
  for repeat, decision in np.ndindex(REPEATS, len(coins)):
    for place in rng.permutation(len(names)):  # none always has a warm cache
      run = methods[names[place]](*coins[decision])
      start = time.perf_counter()
      node = run()
      times[place, repeat, decision] = 1e3 * (time.perf_counter() - start)
      nodes[place, decision] = int(node)
  least = times.min(axis=1)
  return dict(zip(names, least, strict=True)), dict(
    zip(names, nodes, strict=True)
  )


def decisions_for(tree: Tree, decisions: int) -> int:
  """Fewer on large trees, yet enough for a mean."""
  return max(min(decisions, 24), min(decisions, decisions * 64 // len(tree)))


# GPU programs.


@dataclasses.dataclass(frozen=True, kw_only=True)
class GpuProgram:
  """What one level-parallel decision is on an H200."""

  kernels: int
  temporaries: int  # bytes
  vocabulary_sized: tuple[str, ...]  # values of V elements or more, not laws


def compile_for_gpu(name: str, tree: Tree, vocabulary: int) -> GpuProgram:
  """Compiles one verifier for an H200, which need not be there."""
  N = len(tree)
  row = jax.ShapeDtypeStruct((N,), jnp.float32)
  rows = jax.ShapeDtypeStruct((N, vocabulary), jnp.float32)
  tokens = jax.ShapeDtypeStruct((N,), jnp.int32)
  program = gpu_program.compile_for(
    _decide(name, tree), tokens, row, rows, rows, target="h200"
  )
  temporaries = program.memory.temp_size_in_bytes
  large = temporaries >= 4 * vocabulary
  return GpuProgram(
    kernels=len(program.kernels),
    temporaries=temporaries,
    vocabulary_sized=values_of(program.hlo, vocabulary) if large else (),
  )


def values_of(hlo: str, size: int) -> tuple[str, ...]:
  """What a module's main computation writes of `size` elements or more.

  Neither its arguments nor its results: what is left are temporaries.
  """
  main = hlo[hlo.index("\nENTRY") :].split("\n}")[0].splitlines()[1:]
  results = next(line for line in main if line.lstrip().startswith("ROOT"))
  found = []
  for line in main:
    match = re.match(r"\s+%?([\w.-]+) = (\(.*?\)|\S+) ([\w-]+)\(", line)
    if not match or match[3] in ("parameter", "bitcast", "get-tuple-element"):
      continue
    shapes = re.findall(r"\[([\d,]+)\]", match[2])
    largest = max(
      (int(np.prod([int(n) for n in shape.split(",")])) for shape in shapes),
      default=1,
    )
    if largest >= size and not re.search(rf"%?{match[1]}\b", results):
      found.append(f"{match[1]} {re.sub('{.*?}', '', match[2])}")
  return tuple(found)


# Report.


def report(
  vocabularies: list[int],
  trees: dict[str, Tree],
  *,
  decisions: int,
  seed: int,
  gpu: bool,
) -> None:
  """Measures and prints everything; the first vocabulary has the goals."""
  _print_setting()
  results = {}
  for vocabulary in vocabularies:
    results[vocabulary] = of = {}
    for name, tree in trees.items():
      _say(f"measuring {name} at V = {vocabulary}")
      few = decisions_for(tree, decisions)
      of[name] = measure(tree, vocabulary, few, seed)
    _print_times(vocabulary, of)
    _print_ratios(vocabulary, of)
    _print_memory(vocabulary, of)
  first = vocabularies[0]
  programs = _gpu_programs(trees, first) if gpu else {}
  _print_goals(first, goals(results[first], programs))


def _gpu_programs(trees, vocabulary) -> dict[str, dict[str, GpuProgram]]:
  if reason := _why_no_gpu():
    print(f"\nNothing about an H200: {reason}.")
    return {}
  programs = {}
  for name, tree in trees.items():
    _say(f"compiling {name} for an H200")
    programs[name] = {
      form: compile_for_gpu(form, tree, vocabulary) for form in LEVEL_FORMS
    }
  _print_gpu(vocabulary, programs)
  return programs


def _say(text):
  print(f"{text} ..", file=sys.stderr, flush=True)


def _print_setting():
  print(
    f"{datetime.date.today()}, jax {jax.__version__}, NumPy {np.__version__},"
    f" {jax.default_backend()}, {os.cpu_count()} CPU cores"
  )


def _why_no_gpu() -> str:
  """What keeps this process from compiling for a GPU that is not there."""
  if not gpu_program.available():
    return (
      "that needs jax-cuda13-plugin and jax-cuda13-pjrt of jaxlib's version,"
      " installed with --no-deps, but no GPU"
    )
  if jax.default_backend() != "cpu":
    return "set JAX_PLATFORMS=cpu to compile for a GPU that is not there"
  return ""


def _print_times(vocabulary, of: dict[str, Measured]):
  names = dict.fromkeys(
    name for measured in of.values() for name in measured.bare
  )
  rows = {
    "decisions": lambda m: str(len(m.bare[NUMPY_TRAVERSAL])),
    "mean TV(p, q)": lambda m: f"{m.distance:.3f}",
    "tokens, traversal": lambda m: _tokens(m, NUMPY_TRAVERSAL),
    "tokens, token-level": lambda m: _tokens(m, NUMPY_TOKEN_LEVEL),
    "same decisions": _agreement,
  }
  for name in names:
    rows[name] = lambda m, name=name: _time(m.bare.get(name))
  for name in (*TRAVERSAL, *TOKEN_LEVEL):
    rows[f"logits, {name}"] = lambda m, name=name: _time(m.whole[name])
  _print_table(
    f"V = {vocabulary}: milliseconds per decision, mean (median)", of, rows
  )


def _print_ratios(vocabulary, of):
  def against_eagle(measured):
    time, nodes = growth(measured, of["eagle"])
    return f"{time:.3g} : {nodes:.3g}"

  rows = {
    "traversal / token-level": lambda m: f"{cost(m):.2f}",
    "the same with logits": lambda m: f"{cost_with_logits(m):.2f}",
    "traversal / NumPy's": lambda m: (
      f"{_best(m.bare, TRAVERSAL) / np.mean(m.bare[NUMPY_TRAVERSAL]):.2f}"
    ),
    "token-level / NumPy's": lambda m: (
      f"{_best(m.bare, TOKEN_LEVEL) / np.mean(m.bare[NUMPY_TOKEN_LEVEL]):.2f}"
    ),
  }
  if "eagle" in of:
    rows["time : nodes, over EAGLE"] = against_eagle
  _print_table(
    f"V = {vocabulary}: ratios of means, the better form of each", of, rows
  )


def _print_memory(vocabulary, of):
  names = dict.fromkeys(name for m in of.values() for name in m.temporaries)
  rows = {"p and q": lambda m: _bytes(m.inputs)}
  for name in names:
    rows[name] = lambda m, name=name: (
      f"{_bytes(m.temporaries[name])} ({m.temporaries[name] / m.inputs:.2f})"
      if name in m.temporaries
      else "-"
    )
  _print_table(
    f"V = {vocabulary}: peak temporaries (and over the inputs)", of, rows
  )


def _print_gpu(vocabulary, of: dict[str, dict[str, GpuProgram]]):
  rows = {}
  for form in LEVEL_FORMS:
    rows[f"{form}: kernels"] = lambda of, form=form: str(of[form].kernels)
    rows[f"{form}: temporaries"] = lambda of, form=form: _bytes(
      of[form].temporaries
    )
    rows[f"{form}: V-sized ones"] = lambda of, form=form: (
      ", ".join(of[form].vocabulary_sized) or "none"
    )
  _print_table(f"V = {vocabulary}: compiled for an H200", of, rows)


def _print_table(title: str, columns: dict, rows: dict[str, Callable]):
  """A row is a function from a column's value to a cell."""
  cells = [
    [name, *(cell(value) for value in columns.values())]
    for name, cell in rows.items()
  ]
  header = ["", *columns]
  if sys.stdout.isatty():
    table = Table(*header, title=title)
    for row in cells:
      table.add_row(*row)
    Console().print(table)
    return
  widths = [
    max(map(len, column)) for column in zip(header, *cells, strict=True)
  ]
  print(f"\n### {title}\n")
  for row in (header, ["-" * width for width in widths], *cells):
    print("|", " | ".join(map(str.ljust, row, widths)), "|")


def _time(milliseconds) -> str:
  if milliseconds is None:
    return "-"
  return f"{np.mean(milliseconds):.3g} ({np.median(milliseconds):.3g})"


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


def _bytes(count: int) -> str:
  unit = min(int(np.log10(max(count, 1))) // 3, 3)
  return f"{count / 1000**unit:.3g} {('B', 'kB', 'MB', 'GB')[unit]}"


# Goals.


def _best(times: dict[str, np.ndarray], forms: tuple[str, ...]) -> float:
  """Mean milliseconds of the better form."""
  return min(float(np.mean(times[form])) for form in forms)


def cost(measured: Measured) -> float:
  """Traversal's time over token-level's."""
  return _best(measured.bare, TRAVERSAL) / _best(measured.bare, TOKEN_LEVEL)


def cost_with_logits(measured: Measured) -> float:
  """The same when both make their laws from logits."""
  return _best(measured.whole, TRAVERSAL) / _best(measured.whole, TOKEN_LEVEL)


def growth(measured: Measured, eagle: Measured) -> tuple[float, float]:
  """Traversal's time and the nodes, each over the EAGLE tree's."""
  time = _best(measured.bare, TRAVERSAL) / _best(eagle.bare, TRAVERSAL)
  return time, len(measured.tree) / len(eagle.tree)


class Goal(NamedTuple):
  """What is wanted, what was measured, and whether that will do."""

  wanted: str
  measured: str = "not measured"
  met: bool | None = None


def goals(
  of: dict[str, Measured], programs: dict[str, dict[str, GpuProgram]]
) -> list[Goal]:
  """The goals beside what was measured, at one vocabulary."""
  eagle, large = of.get("eagle"), of.get("grown:768")
  wanted = {
    "cost": "EAGLE: traversal <= 2 x token-level",
    "whole": "EAGLE, with logits to laws: <= 1.25 x token-level",
    "numpy": "EAGLE: traversal faster than the NumPy walk",
    "memory": "768 nodes: temporaries < 3 x inputs",
    "growth": "768 nodes over EAGLE: time grows no faster than nodes",
    "kernels": "EAGLE on an H200: <= 37 and <= 14 kernels",
    "no rows": "EAGLE on an H200: no V-sized temporary",
  }
  found = {}
  if eagle:
    found["cost"] = f"{cost(eagle):.2f} x", cost(eagle) <= 2
    whole = cost_with_logits(eagle)
    found["whole"] = f"{whole:.2f} x", whole <= 1.25
    walk = _best(eagle.bare, TRAVERSAL) / np.mean(eagle.bare[NUMPY_TRAVERSAL])
    found["numpy"] = f"{walk:.2f} x its time", walk < 1
  if large:
    name = max(large.temporaries, key=large.temporaries.get)
    share = large.temporaries[name] / large.inputs
    found["memory"] = f"{share:.2f} x ({name})", share < 3
  if eagle and large:
    time, nodes = growth(large, eagle)
    found["growth"] = f"{time:.3g} x, nodes {nodes:.3g} x", time <= nodes
  if program := programs.get("eagle"):
    walks = program["traversal"], program["token_level"]
    kernels = [walk.kernels for walk in walks]
    found["kernels"] = (
      f"{kernels[0]} and {kernels[1]}",
      kernels[0] <= 37 and kernels[1] <= 14,
    )
    rows = [row for walk in walks for row in walk.vocabulary_sized]
    found["no rows"] = ", ".join(rows) or "none", not rows
  return [Goal(text, *found.get(name, ())) for name, text in wanted.items()]


def _print_goals(vocabulary, goals: list[Goal]):
  columns = {"measured": lambda g: g.measured, "": lambda g: _verdict(g.met)}
  rows = {goal.wanted: lambda column, goal=goal: column(goal) for goal in goals}
  _print_table(f"Goals at V = {vocabulary}", columns, rows)


def _verdict(met: bool | None) -> str:
  return {True: "met", False: "missed", None: "-"}[met]


# The command.


def parse_vocabularies(texts: list[str]) -> list[int]:
  """Vocabulary sizes, largest first."""
  for text in texts:
    if not (text.isdecimal() and int(text) >= 16):
      raise ValueError(f"--vocab={text}: give whole numbers of 16 or more")
  return sorted({int(text) for text in texts}, reverse=True)


def parse_trees(text: str) -> dict[str, Tree]:
  """Trees by name; "branching:4,2" holds a comma of its own."""
  try:
    return {
      name: common.tree(name) for name in re.split(r",(?!\d)", text.strip())
    }
  except ValueError as error:
    raise ValueError(f"--trees: {error}") from error


def check_siblings(trees: dict[str, Tree], vocabulary: int) -> None:
  """Refuses a node with more children than there are tokens to draw."""
  for name, tree in trees.items():
    if (width := tree.children.shape[1]) > vocabulary:
      raise ValueError(
        f"--vocab={vocabulary}: too small for the {width} siblings of {name}"
      )


def main(arguments: list[str]) -> None:
  """Reads the flags and runs."""
  if len(arguments) > 1:
    sys.exit(f"unexpected argument {arguments[1]!r}; flags begin with --")
  try:
    vocabularies = parse_vocabularies(_VOCAB.value)
    trees = parse_trees(_TREES.value)
    check_siblings(trees, vocabularies[-1])
  except ValueError as error:
    sys.exit(str(error))
  report(
    vocabularies,
    trees,
    decisions=_DECISIONS.value,
    seed=_SEED.value,
    gpu=_GPU.value,
  )


if __name__ == "__main__":
  app.run(main)
