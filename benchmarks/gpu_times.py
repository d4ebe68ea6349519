"""How `benchmarks.gpu` takes times: first it compiles, then it times.

Each function here that times compiles, and returns a function that times: the
first may run beside others, the second must not.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp

from benchmarks import gpu_shapes
from benchmarks.gpu_program import CAPTURE
from tv_jax import proposals
from tv_jax import tree as tree_lib
from tv_jax.models import mask

# Bytes a second from and to memory, by jax's name of the device: from the
# makers' data sheets.
CHIPS = {
  "NVIDIA B200": 8.0e12,
  "NVIDIA H200": 4.8e12,
  "NVIDIA H100 80GB HBM3": 3.35e12,
  "NVIDIA H100 PCIe": 2.0e12,
  "NVIDIA A100-SXM4-80GB": 2.039e12,
  "NVIDIA A100-SXM4-40GB": 1.555e12,
  "NVIDIA RTX A6000": 0.768e12,
  "NVIDIA L40S": 0.864e12,
  "NVIDIA L4": 0.3e12,
  "NVIDIA GeForce RTX 4090": 1.008e12,
  "NVIDIA GeForce RTX 3090": 0.936e12,
  "Tesla T4": 0.32e12,
}

_making = threading.Lock()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scale:
  """How large everything is; the defaults are for a GPU."""

  pair: tuple[str, str] = ("Llama-3.2-1B", "Llama-3.1-8B")
  dtype: str = "bfloat16"  # of their weights
  # The first is the one that most is done with.
  trees: tuple[str, ...] = ("eagle", "chain:5", "kary:2x5")
  rules: tuple[str, ...] = ("traversal", "token_level")
  rows: int = 16  # of a batch
  vocabulary: int = 128256  # of the verifications that are timed
  slots: int = 1024  # S, of the caches
  prompt: int = 128  # tokens
  new: int = 128  # tokens after it
  drafts: int = 64  # random ones that the forms of a rule are compared on
  drafts_vocabulary: int = 4096
  proposals: tuple[str, ...] = tuple(proposals.PROPOSALS)
  loops: int = 40  # iterations of a timed loop
  repeats: int = 3  # how often each time is taken; the least counts


TOY = Scale(
  pair=("toy draft", "toy"),
  dtype="float32",
  trees=("branching:2,1",),
  rules=("traversal",),
  rows=2,
  vocabulary=64,
  slots=128,
  prompt=16,
  new=16,
  drafts=8,
  drafts_vocabulary=32,
  proposals=("without_replacement",),
  loops=2,
  repeats=1,
)


def on_gpu() -> bool:
  """Says whether jax runs on a GPU."""
  return jax.default_backend() == "gpu"


def graphs() -> dict | None:
  """Returns compiler options for CUDA graphs around loops, if on a GPU."""
  return CAPTURE if on_gpu() else None


def bandwidth_of_chip() -> float | None:
  """Returns bytes a second by the data sheet; None for an unknown chip."""
  return CHIPS.get(jax.devices()[0].device_kind)


def against_limit(seconds: float, moved: int) -> dict:
  """Compares a time with the least in which memory can move these bytes."""
  if seconds <= 0:  # a difference, lost in the noise
    return {"GB": moved / 1e9, "note": "too short to be timed"}
  row = {"ms": 1e3 * seconds, "GB": moved / 1e9}
  if limit := bandwidth_of_chip():
    least = moved / limit
    row |= {"limit ms": 1e3 * least, "share": least / seconds}
  return row


def least(run: Callable, repeats: int) -> float:
  """Returns the least of some times, after a run that does not count."""
  times = []
  for _ in range(repeats + 1):
    begin = time.perf_counter()
    jax.block_until_ready(run())
    times.append(time.perf_counter() - begin)
  return min(times[1:])


def per_iteration(scale, body: Callable, carry, *arguments) -> Callable:
  """Times one `body(i, carry, *arguments)` inside a loop on the device.

  By the difference of two loops, so that calls and their copies cancel.

  Args:
    scale: How many iterations and repeats.
    body: As `jax.lax.fori_loop` takes it, with more arguments.
    carry: The first carry, or its shapes.
    *arguments: Likewise.

  Returns:
    A function of the carry and the arguments to seconds.
  """

  def loop(count, carry, *arguments):
    return jax.lax.fori_loop(
      0, count, lambda i, carry: body(i, carry, *arguments), carry
    )

  program = (
    jax.jit(loop)
    .lower(jnp.int32(0), carry, *arguments)
    .compile(compiler_options=graphs())
  )

  def seconds(carry, *arguments):
    def run(count):
      return program(jnp.int32(count), carry, *arguments)

    few, many = (
      least(functools.partial(run, count), scale.repeats)
      for count in (scale.loops, 4 * scale.loops)
    )
    return (many - few) / (3 * scale.loops)

  return seconds


def one_pass(scale, model, rows: int, T: int, slots: int, length: int):
  """Times a pass over T tokens of each row, after `length` others.

  Args:
    scale: How many iterations and repeats.
    model: With arrays, or shapes.
    rows: B.
    T: Query length.
    slots: S, of the cache.
    length: How many tokens are in it.

  Returns:
    A function of the parameters to seconds.
  """
  start = jnp.full(rows, length, jnp.int32)
  steps = start[:, None] + jnp.arange(T, dtype=jnp.int32)[None]

  def body(i, carry, params):
    del i
    tokens, cache = carry
    cache = dataclasses.replace(cache, length=start)
    seen = mask.causal(start, T, slots)
    logits, _, cache = model.module.apply(
      {"params": params}, tokens, steps, seen, cache
    )
    return jnp.argmax(logits, axis=-1).astype(jnp.int32), cache

  def carry():
    return jnp.zeros((rows, T), jnp.int32), model.init_cache(rows, slots)

  time = per_iteration(scale, body, jax.eval_shape(carry), model.params)
  return lambda params: time(carry(), params)


@functools.lru_cache(maxsize=2)  # a pair: two may not fit
def _weights(name: str, dtype: str):
  return gpu_shapes.random_model(gpu_shapes.config(name, dtype), len(name))


def weights(name: str, dtype: str):
  """Makes a random model of `MODELS`, once."""
  with _making:
    return _weights(name, dtype)


def shapes(name: str, dtype: str):
  """Makes the same model of shapes: all that compiling needs."""
  config = gpu_shapes.config(name, dtype)
  return gpu_shapes.model(config, gpu_shapes.shapes_on(config))


# Stands for a draft that is an EAGLE head of the target's.
HEAD = "EAGLE head"


class Generation:
  """A generation at the paper's shapes: compiled when made, run when called.

  Attributes:
    moved: The bytes that a cycle must move.
    compiling: The seconds that it took to compile.
    program: The compiled program.
  """

  def __init__(
    self, scale, pair, tree, rule="traversal", *, batch=1, options=None
  ):
    """Compiles `rule` on `tree`; `pair` with None for a draft is plain."""
    self.scale, self.pair, self.batch = scale, pair, batch
    target, draft = self._models(shapes, gpu_shapes.shapes_on)
    plan = gpu_shapes.plan(target, draft, tree or "eagle", rule)
    needed = plan.slots(scale.prompt + 1, scale.new)
    self.slots = max(scale.slots, -(-needed // 128) * 128)
    self.moved = gpu_shapes.bytes_of_pass(target, self.slots, batch)
    if draft is not None:
      static = tree_lib.resolve(tree)
      assert isinstance(static, tree_lib.Tree)
      self.moved = gpu_shapes.bytes_of_cycle(
        target, draft, static, self.slots, batch
      )
    given = self._arguments(target, draft)
    begin = time.perf_counter()
    self.program = gpu_shapes.compiled(
      plan, given, scale.new, options or graphs()
    )
    self.compiling = time.perf_counter() - begin

  def _models(self, make, leaves):
    """Makes target and draft; a head's parameters are made by `leaves`."""
    draft, target = self.pair
    own = make(target, self.scale.dtype)
    if draft == HEAD:
      return own, gpu_shapes.head(own, leaves(own.config))
    return own, draft and make(draft, self.scale.dtype)

  def _arguments(self, target, draft):
    own = self.scale
    return gpu_shapes.arguments(
      target, draft, self.batch, own.prompt, own.new, self.slots
    )

  def runner(self):
    """Makes weights and caches; returns what gives so many tokens' records."""
    random = functools.partial(gpu_shapes.random_of, seed=7)
    models = self._models(weights, random)
    params, request, caches = self._arguments(*models)

    def run(limit):
      nonlocal caches
      asked = request._replace(limit=jnp.full(self.batch, limit, jnp.int32))
      records, caches = self.program(params, asked, caches)
      return records

    return run

  def __call__(self) -> dict:
    """Times a cycle by the difference of long and short generations."""
    run, times, counts = self.runner(), [], []
    for limit in (1, self.scale.new):
      times.append(least(functools.partial(run, limit), self.scale.repeats))
      counts.append(int(run(limit).cycles.max()))
    if counts[1] == counts[0]:
      raise ValueError("all was accepted in one cycle: nothing to divide by")
    seconds = (times[1] - times[0]) / (counts[1] - counts[0])
    memory = self.program.memory_analysis()
    assert memory
    held = memory.temp_size_in_bytes
    return against_limit(seconds, self.moved) | {
      "cycles": counts[1],
      "compile s": self.compiling,
      "temporaries MB": held / 1e6,
    }
