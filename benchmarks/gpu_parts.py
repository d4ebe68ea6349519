"""What `benchmarks.gpu` runs: the checks of gpu_checks.py, and times.

A part is a function of a scale that gives its cases, each a name, a function
that returns a row of results, and its arguments.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp

from benchmarks import common, gpu_checks, gpu_shapes
from benchmarks.gpu_program import CAPTURE
from benchmarks.gpu_scale import PAPER, Scale, against_limit, graphs, on_gpu
from tv_jax import decoding, probs, proposals
from tv_jax.models import mask
from tv_jax.verifiers import VERIFIERS, toss_and_draw


def least(run: Callable, repeats: int) -> float:
  """The least of some times, after a first run that counts for nothing."""
  times = []
  for _ in range(repeats + 1):
    begin = time.perf_counter()
    jax.block_until_ready(run())
    times.append(time.perf_counter() - begin)
  return min(times[1:])


def per_iteration(scale: Scale, body: Callable, carry, *arguments) -> float:
  """Seconds of one `body(i, carry, *arguments)` inside a loop on the device.

  The difference of two loops, so that calls and their copies cancel.
  """

  @jax.jit
  def loop(count, carry, *arguments):
    return jax.lax.fori_loop(
      0, count, lambda i, carry: body(i, carry, *arguments), carry
    )

  counts = jnp.int32(scale.loops), jnp.int32(4 * scale.loops)
  program = loop.lower(counts[0], carry, *arguments).compile(
    compiler_options=graphs()
  )
  few, many = (
    least(lambda count=count: program(count, carry, *arguments), scale.repeats)
    for count in counts
  )
  return (many - few) / (3 * scale.loops)


def bandwidth(scale: Scale) -> Iterator[tuple]:
  """What the memory gives to a copy."""
  del scale
  yield "read and write 2 GB" if on_gpu() else "read and write 1 MB", _copy


def _copy():
  size = 1 << (31 if on_gpu() else 20)
  array = jnp.zeros(size // 2, jnp.bfloat16)
  program = jax.jit(lambda x: x + 1)
  seconds = least(lambda: program(array), 10)
  return against_limit(seconds, 2 * size) | {"TB/s": 2 * size / seconds / 1e12}


@functools.lru_cache(maxsize=2)  # a pair: two may not fit
def target_of(name: str, dtype: str):
  """A random model of `MODELS`, made once."""
  return gpu_shapes.random_model(gpu_shapes.config(name, dtype), len(name))


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
  model = target_of(name, scale.dtype)
  cache = model.init_cache(1, scale.slots)
  start = jnp.full(1, scale.prompt, jnp.int32)

  def body(i, carry, params):
    del i
    tokens, cache = carry
    cache = dataclasses.replace(cache, length=start)
    steps = start[:, None] + jnp.arange(T, dtype=jnp.int32)[None]
    seen = mask.causal(start, T, cache.slots)
    logits, _, cache = model.apply(params, tokens, steps, seen, cache)
    return jnp.argmax(logits, axis=-1).astype(jnp.int32), cache

  carry = jnp.zeros((1, T), jnp.int32), cache
  seconds = per_iteration(scale, body, carry, model.params)
  return against_limit(seconds, gpu_shapes.bytes_of_pass(model, scale.slots))


# Of a verification that is timed: drafts that take turns, and their proposal.
_BANK, _PROPOSAL = 8, proposals.WITHOUT_REPLACEMENT


def verification(scale: Scale) -> Iterator[tuple]:
  """One decision of one tree, in a loop on the device."""
  loops = [f"{rule}_loop" for rule in scale.rules]
  for name in scale.trees:
    tree = common.tree(name)
    for rule in [*scale.rules, *loops] + ["block"] * tree.is_chain:
      yield f"{rule}, {name}", _verdict, scale, tree, rule, False
    for rule in scale.rules:
      case = f"{rule}, {name}, from the target's logits"
      yield case, _verdict, scale, tree, rule, True
    yield f"all siblings of {name} in one draw", _draw, scale, tree


def _laws(tree, V):
  """Tokens, draft laws, and the target's logits.

  A bank of tokens, or what does not depend on the coins would leave the loop.
  """
  key = jax.random.key(0)
  p = 4 * jax.random.normal(key, (len(tree), V))
  q = probs.law(p + jax.random.normal(jax.random.fold_in(key, 1), p.shape))
  tokens = gpu_checks.random_drafts(tree, _PROPOSAL, V, _BANK, seed=2)[0]
  return tokens, q, p


def _verdict(scale, tree, rule, logits):
  V = scale.vocabulary
  tokens, q, p = _laws(tree, V)
  decide = VERIFIERS[rule].decide
  p = p if logits else probs.law(p)

  def body(i, carry, tokens, q, p):
    if logits:
      p = probs.law(p + carry.astype(p.dtype) * 1e-20)
    key = jax.random.fold_in(jax.random.key(0), i)
    own = toss_and_draw(key, decide, tree, _PROPOSAL, tokens[i % _BANK], q, p)
    return carry + own.node + own.token

  seconds = per_iteration(scale, body, jnp.int32(0), tokens, q, p)
  return against_limit(seconds, 4 * V * (len(tree) + len(tree.inner)))


def _draw(scale, tree):
  V = scale.vocabulary
  q = _laws(tree, V)[1][: len(tree.inner)]

  def body(i, carry, q):
    key = jax.random.fold_in(jax.random.key(0), i)
    keys = jax.random.split(key, len(q))
    one = functools.partial(_PROPOSAL.draw, k=tree.max_children)
    return carry + jax.vmap(one)(keys, q).sum()

  seconds = per_iteration(scale, body, jnp.int32(0), q)
  return against_limit(seconds, 4 * V * len(q))


def cycles(scale: Scale) -> Iterator[tuple]:
  """Whole cycles of the first pair, beside plain decoding."""
  yield from _beside_plain(scale, scale.pairs[0], scale.trees)


def more_cycles(scale: Scale) -> Iterator[tuple]:
  """The other pairs, an EAGLE head, and what options change."""
  for pair in scale.pairs[1:]:
    yield from _beside_plain(scale, pair, scale.trees)
  pair, tree = scale.pairs[0], scale.trees[0]
  draft, target = pair
  name = f"EAGLE head and {target}, {tree}, traversal"
  yield name, _with_head, scale, target, tree
  for rule in scale.rules[1:]:
    name = f"{draft} and {target}, {tree}, {rule}"
    yield name, _speculative, scale, pair, tree, rule
  if not on_gpu():
    return
  for what, options in {
    # As it is by default.
    "loops outside of CUDA graphs": {"xla_gpu_graph_min_graph_size": 5},
    "no Triton products": CAPTURE | {"xla_gpu_enable_triton_gemm": False},
  }.items():
    yield from _beside_plain(scale, pair, [tree], f", {what}", options)


def _beside_plain(scale, pair, trees, end="", options=None):
  """A pair's cases: plain decoding, and the traversal on trees."""
  draft, target = pair
  yield f"{target}, plain{end}", _plain, scale, target, options
  for tree in trees:
    name = f"{draft} and {target}, {tree}, traversal{end}"
    yield name, _speculative, scale, pair, tree, "traversal", options


def _plain(scale, name, options):
  target = target_of(name, scale.dtype)
  row = cycle_time(scale, target, None, None, None, options)
  if "ms" in row:
    row["tokens/s"] = 1e3 / row["ms"]
  return row


def _speculative(scale, pair, tree, rule, options=None):
  target, draft = (target_of(name, scale.dtype) for name in pair[::-1])
  row = cycle_time(scale, target, draft, tree, rule, options)
  if "ms" in row and tree in PAPER.get(pair, {}):
    length = getattr(PAPER[pair][tree], rule).mean
    row["tokens/s at the paper's length"] = 1e3 * length / row["ms"]
  return row


def _with_head(scale, name, tree):
  target = target_of(name, scale.dtype)
  head = gpu_shapes.head(target, gpu_shapes.random_of(target.config, 7))
  return cycle_time(scale, target, head, tree, "traversal")


def cycle_time(scale, target, draft, tree, rule, options=None) -> dict:
  """Milliseconds of a cycle, between long generations and short ones."""
  plan = gpu_shapes.plan(target, draft, tree, rule)
  V = target.config.vocab_size
  request = gpu_shapes.request(1, scale.prompt, scale.new, V)
  params = decoding.Params(target.params, draft and draft.params)
  own = draft and draft.config
  caches = gpu_shapes.empty_caches(target.config, own, 1, scale.slots)
  if plan.slots(scale.prompt + 1, scale.new) > scale.slots:
    raise ValueError(f"slots={scale.slots} are too few")
  begin = time.perf_counter()
  program = gpu_shapes.compiled(
    plan, (params, request, caches), scale.new, options or graphs()
  )
  compiling = time.perf_counter() - begin

  def run(limit):
    nonlocal records, caches
    asked = request._replace(limit=jnp.full(1, limit, jnp.int32))
    records, caches = program(params, asked, caches)
    return records, caches

  times, counts, records = [], [], None
  for limit in (1, scale.new):
    times.append(least(functools.partial(run, limit), scale.repeats))
    counts.append(int(records.cycles[0]))
  if counts[1] == counts[0]:
    raise ValueError("all was accepted in one cycle: nothing to divide by")
  seconds = (times[1] - times[0]) / (counts[1] - counts[0])
  moved = gpu_shapes.bytes_of_pass(target, scale.slots)
  if draft is not None:
    tree = plan.speculation.tree
    moved = gpu_shapes.bytes_of_cycle(target, draft, tree, scale.slots)
  return against_limit(seconds, moved) | {
    "cycles": counts[1],
    "compile s": compiling,
    "temporaries MB": program.memory_analysis().temp_size_in_bytes / 1e6,
  }


# Checks first; then in the order in which one wants to know.
PARTS = {
  "bandwidth": bandwidth,
  "forms": gpu_checks.forms,
  "certificate": gpu_checks.certificate,
  "engine": gpu_checks.engine,
  "cycles": cycles,
  "verification": verification,
  "passes": passes,
  "more cycles": more_cycles,
}
