"""What `benchmarks.gpu` runs: the checks of gpu_checks.py, and times.

A part is a function of a scale that gives its cases: each a name, a function,
and its arguments. The function returns a row of results, or a function that
does: what comes before it, which is to compile, may run beside others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp

from benchmarks import common, gpu_checks, gpu_shapes, gpu_times, gpu_trace
from benchmarks.gpu_program import CAPTURE
from benchmarks.gpu_scale import PAPER, Scale, against_limit, on_gpu
from benchmarks.gpu_times import HEAD, Generation, per_iteration
from tv_jax import probs, proposals
from tv_jax.verifiers import VERIFIERS, toss_and_draw


def bandwidth(scale: Scale) -> Iterator[tuple]:
  """What the memory gives."""
  del scale
  yield "2 GB" if on_gpu() else "1 MB", lambda: gpu_times.copy


def passes(scale: Scale) -> Iterator[tuple]:
  """One pass of a model over T tokens, in a loop on the device."""
  draft, target = scale.pairs[0]
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


# Of a verification that is timed: drafts that take turns, and their proposal.
_BANK, _PROPOSAL = 8, proposals.WITHOUT_REPLACEMENT


def verification(scale: Scale) -> Iterator[tuple]:
  """One decision of one tree, in a loop on the device."""
  for name in scale.trees:
    tree = common.tree(name)
    for rule in (*scale.rules, *["block"] * tree.is_chain):
      yield f"{rule}, {name}", _verdict, scale, tree, rule, False
    yield f"all siblings of {name} in one draw", _draw, scale, tree
  first = common.tree(scale.trees[0])
  for rule in scale.rules:
    case = f"{rule}, {scale.trees[0]}, from the target's logits"
    yield case, _verdict, scale, first, rule, True
    case = f"{rule}_loop, {scale.trees[0]}"
    yield case, _verdict, scale, first, f"{rule}_loop", False


def _laws(tree, V):
  """Tokens, draft laws, and the target's logits.

  A bank of tokens, or what does not depend on the coins would leave the loop.
  """
  key = jax.random.key(0)
  p = 4 * jax.random.normal(key, (len(tree), V))
  q = probs.law(p + jax.random.normal(jax.random.fold_in(key, 1), p.shape))
  draw = functools.partial(gpu_checks.random_tokens, tree, _PROPOSAL)
  keys = jax.random.split(jax.random.fold_in(key, 2), _BANK)
  return jax.vmap(draw, (0, None))(keys, q), q, p


def _verdict(scale, tree, rule, logits):
  V = scale.vocabulary
  decide = VERIFIERS[rule].decide

  def body(i, carry, tokens, q, p):
    if logits:
      p = probs.law(p + carry.astype(p.dtype) * 1e-20)
    key = jax.random.fold_in(jax.random.key(0), i)
    own = toss_and_draw(key, decide, tree, _PROPOSAL, tokens[i % _BANK], q, p)
    return carry + own.node + own.token

  def laws():
    tokens, q, p = _laws(tree, V)
    return tokens, q, p if logits else probs.law(p)

  make = jax.jit(laws).lower().compile()
  time = per_iteration(scale, body, jnp.int32(0), *jax.eval_shape(laws))
  moved = 4 * V * (len(tree) + len(tree.inner))
  return lambda: against_limit(time(jnp.int32(0), *make()), moved)


def _draw(scale, tree):
  V = scale.vocabulary

  def body(i, carry, q):
    key = jax.random.fold_in(jax.random.key(0), i)
    keys = jax.random.split(key, len(q))
    one = functools.partial(_PROPOSAL.draw, k=tree.max_children)
    return carry + jax.vmap(one)(keys, q).sum()

  def laws():
    return probs.law(jax.random.normal(jax.random.key(0), (len(tree.inner), V)))

  time = per_iteration(scale, body, jnp.int32(0), jax.eval_shape(laws))
  moved = 4 * V * len(tree.inner)
  return lambda: against_limit(time(jnp.int32(0), laws()), moved)


def cycles(scale: Scale) -> Iterator[tuple]:
  """Whole cycles of the first pair, beside plain decoding."""
  yield from _beside_plain(scale, scale.pairs[0])


def more_cycles(scale: Scale) -> Iterator[tuple]:
  """Other rules, and an EAGLE head."""
  pair, tree = scale.pairs[0], scale.trees[0]
  for rule in scale.rules[1:]:
    yield _cycle(scale, pair, tree, rule)
  yield _cycle(scale, (HEAD, pair[1]), tree, "traversal")


def large(scale: Scale) -> Iterator[tuple]:
  """What takes long to compile: many nodes, and plans for siblings."""
  pair, first = scale.pairs[0], scale.trees[0]
  for rule in scale.pair_rules:
    tree = common.tree(first)
    yield f"{rule}, {first}", _verdict, scale, tree, rule, False
    yield _cycle(scale, pair, first, rule)
  for name in scale.large:
    tree = common.tree(name)
    yield f"traversal, {name}", _verdict, scale, tree, "traversal", False
    yield f"{pair[1]}, T = {len(tree)}", _pass, scale, pair[1], len(tree)
    yield _cycle(scale, pair, name, "traversal")


def rows(scale: Scale) -> Iterator[tuple]:
  """Several rows at a time."""
  pair, tree = scale.pairs[0], scale.trees[0]
  for batch in scale.batches:
    many = f", {batch} rows"
    yield f"{pair[1]}, plain{many}", _plain, scale, pair, batch
    yield _cycle(scale, pair, tree, "traversal", many, batch=batch)


def options(scale: Scale) -> Iterator[tuple]:
  """What options of the compiler change, which are not as they are above."""
  if not on_gpu():
    return
  pair, tree = scale.pairs[0], scale.trees[0]
  for what, own in {
    "loops outside of CUDA graphs": {"xla_gpu_graph_min_graph_size": 5},
    "no Triton products": CAPTURE | {"xla_gpu_enable_triton_gemm": False},
  }.items():
    yield f"{pair[1]}, plain, {what}", _plain, scale, pair, 1, own
    yield _cycle(scale, pair, tree, "traversal", f", {what}", options=own)


def stages(scale: Scale) -> Iterator[tuple]:
  """Kernels and what they take, by stage, outside of CUDA graphs."""
  for tree in scale.trees[:1] + scale.trees[2:3]:
    name = f"{' and '.join(scale.pairs[0])}, {tree}, traversal"
    yield name, gpu_trace.Stages, scale, scale.pairs[0], tree


def another_pair(scale: Scale) -> Iterator[tuple]:
  """The other pairs."""
  for pair in scale.pairs[1:]:
    yield from _beside_plain(scale, pair)


def _beside_plain(scale, pair):
  """A pair's cases: plain decoding, and the traversal on trees."""
  yield f"{pair[1]}, plain", _plain, scale, pair
  for tree in scale.trees:
    yield _cycle(scale, pair, tree, "traversal")


def _cycle(scale, pair, tree, rule, end="", **others) -> tuple:
  name = f"{' and '.join(pair)}, {tree}, {rule}{end}"
  return name, _speculative, scale, pair, tree, rule, others


def _plain(scale, pair, batch=1, options=None) -> Callable:
  pair = None, pair[1]
  generation = Generation(scale, pair, None, batch=batch, options=options)

  def row():
    found = generation()
    if "ms" in found:
      found["tokens/s"] = 1e3 * batch / found["ms"]
    return found

  return row


def _speculative(scale, pair, tree, rule, others) -> Callable:
  generation = Generation(scale, pair, tree, rule, **others)
  lengths = PAPER.get(pair, {}).get(tree)
  length = getattr(lengths, rule, None)

  def row():
    found = generation()
    if "ms" in found and length is not None:
      rate = 1e3 * length.mean * generation.batch / found["ms"]
      found["tokens/s at the paper's length"] = rate
    return found

  return row


# Checks first; then in the order in which one wants to know.
PARTS = {
  "bandwidth": bandwidth,
  "forms": gpu_checks.forms,
  "certificate": gpu_checks.certificate,
  "engine": gpu_checks.engine,
  "cycles": cycles,
  "verification": verification,
  "passes": passes,
  "stages": stages,
  "more cycles": more_cycles,
  "rows": rows,
  "options": options,
  "another pair": another_pair,
  "large": large,
}
