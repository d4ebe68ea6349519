"""What `benchmarks.gpu` runs: checks first, then times, case by case.

A part is a function of a scale that gives its cases, each a name and a
function without arguments that returns a row of results. A check that fails
raises.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import common, gpu_shapes
from benchmarks.gpu_program import CAPTURE
from tv_jax import certify, decoding, probs, proposals
from tv_jax.models import mask
from tv_jax.verifiers import VERIFIERS, toss_and_draw

Case = tuple[str, Callable[[], dict]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scale:
  """How large everything is.

  Attributes:
    pairs: Names of drafts and targets.
    dtype: Of their weights.
    trees: What is drafted; the first is the one that most is done with.
    rules: Verifiers that have a level-parallel form and a loop.
    vocabulary: Of the verifications that are timed.
    slots: S, of the caches.
    prompt: Tokens of a prompt.
    new: Tokens after it.
    drafts: How many random drafts the forms of a rule are compared on.
    drafts_vocabulary: Their vocabulary.
    rows: Samples of the output's law.
    proposals: Those that are compared.
    loops: Iterations of a timed loop.
    repeats: How often each time is taken; the least counts.
  """

  pairs: tuple[tuple[str, str], ...]
  dtype: str
  trees: tuple[str, ...]
  rules: tuple[str, ...]
  vocabulary: int
  slots: int
  prompt: int
  new: int
  drafts: int
  drafts_vocabulary: int
  rows: int
  proposals: tuple[str, ...]
  loops: int
  repeats: int


FULL = Scale(
  pairs=(("Llama-3.2-1B", "Llama-3.1-8B"), ("Llama-68M", "Llama-2-7B")),
  dtype="bfloat16",
  trees=("eagle", "chain:5", "kary:2x5"),
  rules=("traversal", "token_level"),
  vocabulary=128256,
  slots=1024,
  prompt=128,
  new=128,
  drafts=64,
  drafts_vocabulary=4096,
  rows=16384,
  proposals=tuple(proposals.PROPOSALS),
  loops=40,
  repeats=3,
)
TOY = Scale(
  pairs=(("toy draft", "toy"),),
  dtype="float32",
  trees=("branching:2,1",),
  rules=("traversal",),
  vocabulary=64,
  slots=128,
  prompt=16,
  new=16,
  drafts=8,
  drafts_vocabulary=32,
  rows=256,
  proposals=("without_replacement",),
  loops=2,
  repeats=1,
)


def on_gpu() -> bool:
  """Whether there is one."""
  return jax.default_backend() == "gpu"


def graphs(wanted: bool = True) -> dict | None:
  """Compiler options for CUDA graphs around loops, where there is CUDA."""
  return CAPTURE if wanted and on_gpu() else None


# Timing.


def bandwidth_of_chip() -> float | None:
  """Bytes a second by the data sheet; None for an unknown chip."""
  return gpu_shapes.CHIPS.get(jax.devices()[0].device_kind)


def against_limit(seconds: float, moved: int) -> dict:
  """A time beside the least in which memory can move this many bytes."""
  if seconds <= 0:  # of a difference, lost in the noise
    return {"GB": moved / 1e9, "note": "too short to be timed"}
  limit, row = bandwidth_of_chip(), {"ms": 1e3 * seconds, "GB": moved / 1e9}
  if limit:
    row |= {
      "limit ms": 1e3 * moved / limit,
      "share": moved / limit / seconds,
    }
  return row


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


def bandwidth(scale: Scale) -> Iterator[Case]:
  """What the memory gives to a copy."""
  del scale

  def copy():
    size = 1 << (31 if on_gpu() else 20)
    array = jnp.zeros(size // 2, jnp.bfloat16)
    program = jax.jit(lambda x: x + 1)
    seconds = least(lambda: program(array), 10)
    return against_limit(seconds, 2 * size) | {
      "TB/s": 2 * size / seconds / 1e12
    }

  yield "read and write 2 GB" if on_gpu() else "read and write 1 MB", copy


# Checks.


def random_drafts(tree, proposal, vocabulary, count, seed):
  """[count, ..] tokens, q, p, coins: laws with a few likely tokens."""

  def one(key):
    draws, noise, target, coins = jax.random.split(key, 4)
    N = len(tree)
    p = 4 * jax.random.normal(target, (N, vocabulary))
    q = probs.law(p + jax.random.normal(noise, (N, vocabulary)))
    tokens = jnp.zeros(N, jnp.int32)
    for node, key in zip(
      tree.inner, jax.random.split(draws, len(tree.inner)), strict=True
    ):
      k = int(tree.num_children[node])
      drawn = proposal.draw(key, q[int(node)], k)
      tokens = tokens.at[tree.children[node, :k]].set(drawn)
    return tokens, q, probs.law(p), jax.random.uniform(coins, (N,))

  return jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(seed), count))


def forms(scale: Scale) -> Iterator[Case]:
  """The level-parallel forms against the loops, coin for coin."""

  def compare(tree, proposal, names):
    tree, proposal = common.tree(tree), proposals.PROPOSALS[proposal]
    tokens, q, p, eta = random_drafts(
      tree, proposal, scale.drafts_vocabulary, scale.drafts, seed=len(tree)
    )

    @jax.jit
    def decide(tokens, q, p, eta):
      return [
        jax.lax.map(
          lambda row, name=name: VERIFIERS[name].decide(tree, proposal, *row),
          (tokens, q, p, eta),
        )
        for name in names
      ]

    found = [jax.device_get(own) for own in decide(tokens, q, p, eta)]
    # Entries that one form offers and another knows to be 0 differ in `accept`.
    other = sum(np.sum(own.node != found[0].node) for own in found[1:])
    apart = max(
      np.abs(own.residual - found[0].residual)[own.node == found[0].node].max()
      for own in found[1:]
    )
    if other or not apart <= 1e-4 or any(own.fault.any() for own in found):
      raise AssertionError(
        f"{other} of {scale.drafts} decisions differ, residuals by {apart}"
      )
    return {"drafts": scale.drafts, "residuals differ by": float(apart)}

  for tree in scale.trees[:1]:
    for proposal in scale.proposals:
      for rule in scale.rules:
        yield (
          f"{rule}, {proposal}, {tree}: level = loop",
          functools.partial(compare, tree, proposal, (rule, f"{rule}_loop")),
        )
  yield (
    "traversal = traversal_loop = block, chain:5",
    functools.partial(
      compare,
      "chain:5",
      "without_replacement",
      ("traversal", "traversal_loop", "block"),
    ),
  )


def certificate(scale: Scale) -> Iterator[Case]:
  """Exact laws by enumeration, on the device that is to be trusted."""

  def check(rule, proposal):
    settings = certify.Settings(vocabulary=2, cases=3, dtype=np.float32)
    found = certify.check(
      VERIFIERS[rule],
      proposals.PROPOSALS[proposal],
      common.tree("branching:2,1"),
      settings,
    )
    if not found.lossless:
      raise AssertionError(f"{found.failure.faults}: {found.distance}")
    return {"distance": found.distance, "bound": found.bound}

  for rule in scale.rules:
    for proposal in scale.proposals[:2]:
      yield f"{rule}, {proposal}", functools.partial(check, rule, proposal)


@functools.cache
def small_pair(vocabulary: int):
  """A small target and a draft, float32, with laws far from uniform."""
  own = gpu_shapes.config("toy", "float32")
  own = dataclasses.replace(own, vocab_size=vocabulary)
  target, other = (
    gpu_shapes.model(own, gpu_shapes.random_of(own, seed, scale=0.2))
    for seed in range(2)
  )
  # Near enough to the target that some of what it drafts is accepted.
  mixed = jax.tree.map(
    lambda one, two: one + 0.3 * two, target.params, other.params
  )
  return target, dataclasses.replace(other, params=mixed)


def compiled(plan, arguments, new, options=None):
  """The program of a generation; its caches are donated."""

  def generate(params, request, caches):
    return decoding.generate(plan, params, request, caches, new)

  lowered = jax.jit(generate, donate_argnums=2).lower(*arguments)
  return lowered.compile(compiler_options=options)


def small_run(vocabulary, rows, limit, tree, rule, *, greedy=False):
  """A function from compiler options to the records of two runs."""
  target, draft = small_pair(vocabulary)
  draft = draft if tree else None
  plan = gpu_shapes.plan(target, draft, tree, rule, greedy=greedy)
  request = gpu_shapes.request(rows, 5, limit, vocabulary)
  same = jnp.broadcast_to(request.prompts[:1], request.prompts.shape)
  request = request._replace(prompts=same)
  if greedy:
    request = request._replace(draft_temperature=jnp.float32(0.5))
  params = decoding.Params(target.params, draft and draft.params)
  slots = -(-plan.slots(6, limit) // 128) * 128

  def run(options=None):
    caches = gpu_shapes.empty_caches(
      target.config, draft and draft.config, rows, slots
    )
    with jax.default_matmul_precision("highest"):  # float32 is to be float32
      program = compiled(plan, (params, request, caches), limit, options)
    first, caches = program(params, request, caches)
    second, _ = program(params, request, caches)
    return jax.device_get(first), jax.device_get(second)

  return run, (target, np.asarray(request.prompts[0, :5]))


def _same(one, other, what):
  if not all(
    np.array_equal(a, b)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
  ):
    raise AssertionError(f"{what} gave other records")


def engine(scale: Scale) -> Iterator[Case]:
  """Whole generations of a small pair in float32."""
  tree = scale.trees[0]

  def repeated():
    run, _ = small_run(64, 4, 24, tree, "traversal")
    first, second = run(graphs())
    _same(first, second, "a second run of the same program")
    if not on_gpu():
      return {"cycles": int(first.cycles.sum()), "note": "no CUDA, no graphs"}
    _same(first, run(None)[0], "a program without CUDA graphs")
    return {"cycles": int(first.cycles.sum())}

  def greedy(rule):
    def tokens(tree):
      run, _ = small_run(64, 4, 24, tree, rule, greedy=True)
      return run(graphs())[0]

    plain, own = tokens(None), tokens(tree)
    if not np.array_equal(plain.tokens[:, :24], own.tokens[:, :24]):
      raise AssertionError("not the tokens of plain greedy decoding")
    return {"tokens": int(own.kept.sum()), "cycles": int(own.cycles.sum())}

  def lossless(rule):
    V, L = 8, 3
    run, (target, prompt) = small_run(V, scale.rows, L, tree, rule)
    got = run(graphs())[0].tokens[:, :L]
    counts = np.bincount(got @ V ** np.arange(L)[::-1], minlength=V**L).astype(
      float
    )
    heads = np.stack(
      np.meshgrid(*[np.arange(V)] * (L - 1), indexing="ij"), axis=-1
    ).reshape(-1, L - 1)
    context = np.concatenate([np.tile(prompt, (len(heads), 1)), heads], axis=1)
    with jax.default_matmul_precision("highest"):
      p = np.asarray(probs.law(target.logits(context)), np.float64)
    p = p[:, len(prompt) - 1 :]  # of the tokens after the prompt
    before = np.take_along_axis(p[:, :-1], heads[..., None], axis=2).prod(1)
    expected = (before * p[:, -1]).ravel() * scale.rows
    order = np.argsort(expected)
    # Rare outcomes count together, at least five expected in each group.
    group = np.minimum(np.cumsum(expected[order]) // 5, scale.rows // 5)
    _, group = np.unique(group, return_inverse=True)
    mine, theirs = (np.bincount(group, x[order]) for x in (counts, expected))
    df = len(mine) - 1
    chi = float(((mine - theirs) ** 2 / theirs).sum())
    sigmas = (chi - df) / (2 * df) ** 0.5
    if not sigmas < 5:
      raise AssertionError(f"chi-square {chi:.1f} on {df}: {sigmas:.1f} sigma")
    return {"samples": scale.rows, "outcomes": df + 1, "sigma": sigmas}

  yield "the same twice, with CUDA graphs and without", repeated
  for rule in scale.rules:
    yield (
      f"temperature 0 is plain greedy, {rule}",
      functools.partial(greedy, rule),
    )
  for rule in scale.rules:
    yield (
      f"the target's law, {rule}, sampled",
      functools.partial(lossless, rule),
    )


# Times.


@functools.lru_cache(maxsize=2)  # a pair: two may not fit
def target_of(name: str, dtype: str):
  """A random model of `MODELS`, made once."""
  own = gpu_shapes.config(name, dtype)
  return gpu_shapes.model(own, gpu_shapes.random_of(own, len(name)))


@functools.lru_cache(maxsize=1)
def head_of(name: str, dtype: str):
  """A random EAGLE head for a model of `MODELS`."""
  target = target_of(name, dtype)
  return gpu_shapes.head(target, gpu_shapes.random_of(target.config, 7))


def passes(scale: Scale) -> Iterator[Case]:
  """One pass of a model over T tokens, in a loop on the device."""

  def one(name, T):
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

  trees = [common.tree(tree) for tree in scale.trees]
  for draft, target in scale.pairs[:1]:
    for T in sorted({1, *map(len, trees)}):
      yield f"{target}, T = {T}", functools.partial(one, target, T)
    widest = max(len(level) for level in trees[0].levels)
    for T in sorted({1, 2, widest}):
      yield f"{draft}, T = {T}", functools.partial(one, draft, T)


def verification(scale: Scale) -> Iterator[Case]:
  """One decision of one tree, in a loop on the device."""
  V, bank = scale.vocabulary, 8
  proposal = proposals.WITHOUT_REPLACEMENT

  def laws(tree):
    # A bank of tokens, or what does not depend on the coins would leave the
    # loop.
    key = jax.random.key(0)
    p = 4 * jax.random.normal(key, (len(tree), V))
    q = probs.law(p + jax.random.normal(jax.random.fold_in(key, 1), p.shape))
    tokens = random_drafts(tree, proposal, V, bank, seed=2)[0]
    return tokens, q, p

  def verdict(tree, rule, *, logits):
    tree = common.tree(tree)
    tokens, q, p = laws(tree)
    decide = VERIFIERS[rule].decide
    p = p if logits else probs.law(p)

    def body(i, carry, tokens, q, p):
      if logits:
        p = probs.law(p + carry.astype(p.dtype) * 1e-20)
      key = jax.random.fold_in(jax.random.key(0), i)
      own = toss_and_draw(key, decide, tree, proposal, tokens[i % bank], q, p)
      return carry + own.node + own.token

    seconds = per_iteration(scale, body, jnp.int32(0), tokens, q, p)
    return against_limit(seconds, 4 * V * (len(tree) + len(tree.inner)))

  def draw(tree):
    tree = common.tree(tree)
    q, k = laws(tree)[1][: len(tree.inner)], tree.children.shape[1]

    def body(i, carry, q):
      key = jax.random.fold_in(jax.random.key(0), i)
      keys = jax.random.split(key, len(q))
      one = functools.partial(proposal.draw, k=k)
      return carry + jax.vmap(one)(keys, q).sum()

    seconds = per_iteration(scale, body, jnp.int32(0), q)
    return against_limit(seconds, 4 * V * len(q))

  for tree in scale.trees:
    chain = common.tree(tree).is_chain
    forms = [*scale.rules, *(f"{rule}_loop" for rule in scale.rules)]
    for rule in forms + ["block"] * chain:
      yield (
        f"{rule}, {tree}",
        functools.partial(verdict, tree, rule, logits=False),
      )
    for rule in scale.rules:
      yield (
        f"{rule}, {tree}, from the target's logits",
        functools.partial(verdict, tree, rule, logits=True),
      )
    yield f"all siblings of {tree} in one draw", functools.partial(draw, tree)


def cycle_time(scale, target, draft, tree, rule, options) -> dict:
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
  program = compiled(plan, (params, request, caches), scale.new, options)
  compiling = time.perf_counter() - begin
  times, cycles = [], []
  for limit in (1, scale.new):
    asked = request._replace(limit=jnp.full(1, limit, jnp.int32))
    taken = []
    for _ in range(scale.repeats + 1):
      begin = time.perf_counter()
      records, caches = jax.block_until_ready(program(params, asked, caches))
      taken.append(time.perf_counter() - begin)
    times.append(min(taken[1:]))
    cycles.append(int(records.cycles[0]))
  if cycles[1] == cycles[0]:
    raise ValueError("all was accepted in one cycle: nothing to divide by")
  seconds = (times[1] - times[0]) / (cycles[1] - cycles[0])
  if draft is None:
    moved = gpu_shapes.bytes_of_pass(target, scale.slots)
  else:
    moved = gpu_shapes.bytes_of_cycle(
      target, draft, plan.speculation.tree, scale.slots
    )
  return against_limit(seconds, moved) | {
    "cycles": cycles[1],
    "compile s": compiling,
    "temporaries MB": program.memory_analysis().temp_size_in_bytes / 1e6,
  }


def _speculative(scale, pair, tree, rule, options=None) -> dict:
  target, draft = (target_of(name, scale.dtype) for name in pair[::-1])
  row = cycle_time(scale, target, draft, tree, rule, options or graphs())
  length = gpu_shapes.PAPER.get(pair, {}).get(tree, {}).get(rule)
  if length and "ms" in row:
    row["tokens/s at the paper's length"] = 1e3 * length / row["ms"]
  return row


def _plain(scale, name, options=None) -> dict:
  target = target_of(name, scale.dtype)
  row = cycle_time(scale, target, None, None, None, options or graphs())
  if "ms" in row:
    row["tokens/s"] = 1e3 / row["ms"]
  return row


def cycles(scale: Scale) -> Iterator[Case]:
  """Whole cycles of the first pair, beside plain decoding."""
  pair = scale.pairs[0]
  draft, target = pair
  yield f"{target}, plain", functools.partial(_plain, scale, target)
  for tree in scale.trees:
    yield (
      f"{draft} and {target}, {tree}, traversal",
      functools.partial(_speculative, scale, pair, tree, "traversal"),
    )


def more_cycles(scale: Scale) -> Iterator[Case]:
  """The other pairs, an EAGLE head, and what options change."""
  for pair in scale.pairs[1:]:
    draft, target = pair
    yield f"{target}, plain", functools.partial(_plain, scale, target)
    for tree in scale.trees:
      yield (
        f"{draft} and {target}, {tree}, traversal",
        functools.partial(_speculative, scale, pair, tree, "traversal"),
      )
  pair, tree = scale.pairs[0], scale.trees[0]
  draft, target = pair

  def head():
    own = target_of(target, scale.dtype), head_of(target, scale.dtype)
    return cycle_time(scale, *own, tree, "traversal", graphs())

  yield f"EAGLE head and {target}, {tree}, traversal", head
  for rule in scale.rules[1:]:
    yield (
      f"{draft} and {target}, {tree}, {rule}",
      functools.partial(_speculative, scale, pair, tree, rule),
    )
  if not on_gpu():
    return
  off = {"xla_gpu_graph_min_graph_size": 5}  # as it is by default
  cublas = CAPTURE | {"xla_gpu_enable_triton_gemm": False}
  for name, options in (
    ("loops outside of CUDA graphs", off),
    ("no Triton products", cublas),
  ):
    yield (
      f"{target}, plain, {name}",
      functools.partial(_plain, scale, target, options),
    )
    yield (
      f"{draft} and {target}, {tree}, traversal, {name}",
      functools.partial(_speculative, scale, pair, tree, "traversal", options),
    )


# Checks first; then in the order in which one wants to know.
PARTS = {
  "bandwidth": bandwidth,
  "forms": forms,
  "certificate": certificate,
  "engine": engine,
  "cycles": cycles,
  "verification": verification,
  "passes": passes,
  "more cycles": more_cycles,
}
