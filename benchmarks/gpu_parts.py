"""The parts of `benchmarks.gpu`: the checks of gpu_checks.py, and times.

A part is a function of a scale that gives its cases: each a name, a function,
and its arguments. The function returns a row of results, or a function that
does: before that it compiles, which may run beside others.
"""

from __future__ import annotations

import collections
import functools
import pathlib
import re
import tempfile
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp

from benchmarks import common, gpu_checks, gpu_shapes, gpu_times
from benchmarks.gpu_times import (
  HEAD,
  Generation,
  Scale,
  against_limit,
  on_gpu,
  per_iteration,
)
from experiments import paper
from tv_jax import probs, proposals
from tv_jax.verifiers import VERIFIERS, draw_verdict

# Table 1, by tree.
PAPER = paper.LLAMA3.average_acceptance
CYCLES = 8  # that are traced, or thereabouts: new tokens asked for
_STAGE = re.compile(r"while/body/(draft|target|verify|commit)\b")


def passes(scale: Scale) -> Iterator[tuple]:
  """Times one pass of a model over T tokens, in a loop on the device."""
  draft, target = scale.pair
  trees = [common.tree(tree) for tree in scale.trees]
  for T in sorted({1, *map(len, trees)}):
    yield f"{target}, T = {T}", _pass, scale, target, T
  widest = max(len(level) for level in trees[0].levels)
  for T in sorted({1, 2, widest}):
    yield f"{draft}, T = {T}", _pass, scale, draft, T


def _pass(scale, name, T):
  model = gpu_times.shapes(name, scale.dtype)
  slots = scale.prompt + -(-T // 128) * 128 + scale.slots
  time = gpu_times.one_pass(scale, model, 1, T, slots, scale.prompt)

  def row():
    params = gpu_times.weights(name, scale.dtype).params
    return against_limit(time(params), gpu_shapes.bytes_of_pass(model, slots))

  return row


# How many drafts take turns in a timed verification, and their proposal.
_BANK, _PROPOSAL = 8, proposals.WITHOUT_REPLACEMENT


def verification(scale: Scale) -> Iterator[tuple]:
  """Times one decision of one tree, in a loop on the device."""
  for name in scale.trees:
    tree = common.tree(name)
    for rule in (*scale.rules, *["block"] * tree.is_chain):
      yield f"{rule}, {name}", _verdict, scale, tree, rule, False
    yield f"all siblings of {name} in one draw", _draw, scale, tree
  first = common.tree(scale.trees[0])
  for rule in scale.rules:
    case = f"{rule}, {scale.trees[0]}, from the target's logits"
    yield case, _verdict, scale, first, rule, True


def _laws(tree, V):
  """Makes tokens, draft laws, and the target's logits.

  Tokens change from turn to turn, else what depends on no coin would leave the
  loop.
  """
  key = jax.random.key(0)
  p = 4 * jax.random.normal(key, (len(tree), V))
  q = probs.law(p + jax.random.normal(jax.random.fold_in(key, 1), p.shape))
  draw = functools.partial(gpu_checks.random_tokens, tree, _PROPOSAL)
  keys = jax.random.split(jax.random.fold_in(key, 2), _BANK)
  return jax.vmap(draw, (0, None))(keys, q), q, p


def _verdict(scale, tree, rule, logits):
  V = scale.vocabulary

  def body(i, carry, tokens, q, p):
    if logits:
      p = probs.law(p + carry.astype(p.dtype) * 1e-20)
    key = jax.random.fold_in(jax.random.key(0), i)
    draft = tokens[i % _BANK], q, p
    own = draw_verdict(key, VERIFIERS[rule], tree, _PROPOSAL, *draft)
    return carry + own.node + own.token

  def laws():
    tokens, q, p = _laws(tree, V)
    return tokens, q, p if logits else probs.law(p)

  make = jax.jit(laws).lower().compile()
  time = per_iteration(scale, body, jnp.int32(0), *jax.eval_shape(laws))
  moved = 4 * V * (len(tree) + len(tree.inner))
  return lambda: against_limit(time(jnp.int32(0), *make()), moved)


def _draw(scale, tree):
  V, k = scale.vocabulary, tree.max_children

  def body(i, carry, q):
    key = jax.random.fold_in(jax.random.key(0), i)
    keys = jax.random.split(key, len(q))
    draw = jax.vmap(lambda key, law: _PROPOSAL.draw(key, law, k))
    return carry + draw(keys, q).sum()

  def laws():
    return probs.law(jax.random.normal(jax.random.key(0), (len(tree.inner), V)))

  time = per_iteration(scale, body, jnp.int32(0), jax.eval_shape(laws))
  moved = 4 * V * len(tree.inner)
  return lambda: against_limit(time(jnp.int32(0), laws()), moved)


def cycles(scale: Scale) -> Iterator[tuple]:
  """Times plain decoding, trees, rules, an EAGLE head, and several rows."""
  pair, first = scale.pair, scale.trees[0]
  yield f"{pair[1]}, plain", _plain, scale, 1
  for tree in scale.trees:
    yield _cycle(scale, pair, tree, "traversal")
  for rule in scale.rules[1:]:
    yield _cycle(scale, pair, first, rule)
  yield _cycle(scale, (HEAD, pair[1]), first, "traversal")
  yield f"{pair[1]}, plain, {scale.rows} rows", _plain, scale, scale.rows
  yield _cycle(scale, pair, first, "traversal", scale.rows)


def _cycle(scale, pair, tree, rule, batch=1) -> tuple:
  name = f"{' and '.join(pair)}, {tree}, {rule}"
  name += f", {batch} rows" * (batch > 1)
  return name, _speculative, scale, pair, tree, rule, batch


def _plain(scale, batch) -> Callable:
  generation = Generation(scale, (None, scale.pair[1]), None, batch=batch)
  return lambda: _rated(generation, 1.0, "tokens/s")


def _speculative(scale, pair, tree, rule, batch) -> Callable:
  generation = Generation(scale, pair, tree, rule, batch=batch)
  lengths = PAPER.get(tree) if pair == Scale().pair else None
  mean = lengths and getattr(lengths, rule).mean
  return lambda: _rated(generation, mean, "tokens/s at the paper's length")


def _rated(generation, length, name) -> dict:
  found = generation()
  if length and "ms" in found:
    found[name] = 1e3 * length * generation.batch / found["ms"]
  return found


def stages(scale: Scale) -> Iterator[tuple]:
  """Counts kernels and times them, by stage, outside of CUDA graphs."""
  for tree in scale.trees[:1] + scale.trees[2:3]:
    name = f"{' and '.join(scale.pair)}, {tree}, traversal"
    yield name, Stages, scale, scale.pair, tree


class Stages(Generation):
  """A generation outside of CUDA graphs, where kernels have their names."""

  def __init__(self, scale, pair, tree, rule="traversal"):
    """Compiles it so that the host launches each kernel."""
    none = {"xla_gpu_enable_command_buffer": ""} if on_gpu() else None
    super().__init__(scale, pair, tree, rule, options=none)

  def __call__(self) -> dict:
    """Returns kernels and their microseconds a cycle, by stage."""
    run = self.runner()
    jax.block_until_ready(run(CYCLES))
    with tempfile.TemporaryDirectory() as folder:
      with jax.profiler.trace(folder):
        records = jax.block_until_ready(run(CYCLES))
      launched = list(_kernels(pathlib.Path(folder)))
    cycles = int(records.cycles.max())
    scopes = dict(
      re.findall(
        r'%?([\w.-]+) = .*?op_name="([^"]*)"', self.program.as_text() or ""
      )
    )
    count, spent = collections.Counter(), collections.defaultdict(float)
    for name, nanoseconds in launched:
      found = _STAGE.search(scopes.get(name, ""))
      # Other: before the first cycle, after the last, and what has no name.
      stage = found[1] if found else "other"
      count[stage] += 1
      spent[stage] += nanoseconds
    row = {"cycles": cycles}
    for stage in ("draft", "target", "verify", "commit", "other"):
      row |= {
        f"{stage} kernels": count[stage] / cycles,
        f"{stage} us": spent[stage] / 1e3 / cycles,
      }
    return row


def _kernels(folder: pathlib.Path) -> Iterator[tuple[str, float]]:
  """Returns instructions and nanoseconds of what ran on the device."""
  for path in folder.rglob("*.xplane.pb"):
    for plane in jax.profiler.ProfileData.from_file(str(path)).planes:
      if not plane.name.startswith("/device:GPU"):
        continue
      for line in plane.lines:
        if line.name.startswith("Stream"):
          for event in line.events:
            stats = dict(event.stats)
            yield str(stats.get("hlo_op", "")), event.duration_ns


# Checks first; then in the order in which one wants to know.
PARTS = {
  "forms": gpu_checks.forms,
  "engine": gpu_checks.engine,
  "cycles": cycles,
  "verification": verification,
  "passes": passes,
  "stages": stages,
}
