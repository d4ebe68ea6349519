"""The decode loop: prompts take slots of a batch; all rows advance together.

Axes: B batch, N nodes, P prompt length, W maximum number of new tokens,
S cache slots.
"""

from __future__ import annotations

import collections
import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.drafting import Drafted
from tv_jax.engine import cycle, programs
from tv_jax.engine.config import DecodeConfig, Static
from tv_jax.engine.pair import Pair
from tv_jax.engine.state import (
  Caches,
  Continuation,
  Params,
  Request,
  State,
  continuation,
  empty_state,
)
from tv_jax.io.errors import UserError
from tv_jax.io.reading import brief
from tv_jax.models import sharding

# The number of cache slots is a multiple of this. Matrix products on a GPU
# prefer multiples of 128; on a CPU every unused slot costs time.
_BLOCK, _CPU_BLOCK = 128, 16

# P and W are rounded up: to powers of 2 up to CHUNK and NEW, above these to
# multiples of them.
NEW = 128


class Prompt(NamedTuple):
  """A prompt to continue.

  Attributes:
    tokens: Token ids of the prompt.
    item: Number of the prompt. Its random key is folded from this number.
    limit: Maximum number of new tokens.
  """

  tokens: Sequence[int]
  item: int
  limit: int


def advance(
  static: Static, params: Params, state: State, min_finished: jax.Array
) -> State:
  """Runs cycles until at least `min_finished` rows have finished."""
  return jax.lax.while_loop(
    lambda state: jnp.sum(state.done) < min_finished,
    lambda state: cycle.cycle(static, params, state)[0],
    state,
  )


class Batch:
  """Slots for prompts on the device, and the compiled programs for them.

  The tokens of a prompt do not depend on its slot or on the other rows.

  Attributes:
    size: B, the number of slots.
    items: [B] item numbers of the prompts in the slots.
    static: The options that its programs are compiled for.
    params: Model parameters and other inputs that no program changes.
    state: The batch's state. It is donated to every program and replaced by the
      program's result.
    seconds: Seconds spent so far on "compile", "prefill" and "cycles".
  """

  def __init__(self, pair: Pair, config: DecodeConfig, size: int, longest: int):
    """Allocates slots for prompts of at most `longest` tokens."""
    self.size, self.static = size, config.static
    self.seconds = collections.defaultdict(float)
    self.items = np.zeros(size, np.int64)
    self.width = padded(longest, cycle.CHUNK) + 1
    self._programs: dict[Callable, jax.stages.Compiled] = {}
    target = pair.target.config
    # The sharding of small arrays: copies on all devices.
    self._sharding = sharding.placement("", pair.target.mesh)
    static, rule = config.static, 0
    draft = pair.draft if static.drafter else None
    if config.verifier:
      rule = static.among.index(config.verifier)
    self.params = Params(
      target=pair.target.params,
      draft=draft and draft.params,
      key=self._put(jax.random.key(config.seed)),
      temperature=self._put(np.float32(config.temperature or 1.0)),
      draft_temperature=self._put(np.float32(config.draft_temperature)),
      rule=self._put(np.int32(rule)),
    )
    layers = len(draft.config.target_layer_ids) if draft else 0
    new = padded(config.max_new_tokens, NEW)
    state = empty_state(
      static,
      rows=size,
      new=new,
      features=(target.hidden_size * max(layers, 1), target.dtype),
    )
    slots = cache_slots(static, self.width, new)
    draft_cache = draft and draft.init_cache(size, slots)
    if draft and draft.mesh is None:
      draft_cache = self._put(draft_cache)
    caches = Caches(pair.target.init_cache(size, slots), draft_cache)
    self.state = dataclasses.replace(self._put(state), caches=caches)

  def insert(self, prompts: Sequence[Prompt], slot: int) -> None:
    """Reads prompts into consecutive slots, replacing their contents."""
    items = [prompt.item for prompt in prompts]
    self.items[slot : slot + len(prompts)] = items
    tokens = np.zeros((len(prompts), self.width), np.int32)
    for row, prompt in zip(tokens, prompts, strict=True):
      row[: len(prompt.tokens)] = prompt.tokens
    request = {
      "tokens": tokens,
      "length": np.array([len(p.tokens) for p in prompts], np.int32),
      "limit": np.array([p.limit for p in prompts], np.int32),
      "item": np.array(items, np.uint32),
    }
    first = self._put(np.int32(slot))
    self.state = self._run(
      "prefill", cycle.insert, Request(**self._put(request)), first
    )

  def advance(self, min_finished: int) -> None:
    """Runs cycles until at least `min_finished` rows have finished."""
    count = self._put(np.int32(min_finished))
    self.state = self._run("cycles", advance, count, loops=True)

  def step(self) -> tuple[Drafted, jax.Array]:
    """Runs one cycle.

    Returns:
      The drafted trees, and the target's probabilities [B, N, V] after each
      node.
    """
    self.state, drafted, p = self._run("cycles", cycle.cycle, results=3)
    return drafted, p

  def _run(
    self, name: str, function: Callable, *arguments, loops=False, results=1
  ):
    """Runs a program on the donated state, and adds to `seconds[name]`.

    Each function is compiled once: its arguments always have the same shapes.
    """
    arguments = self.params, self.state, *arguments
    begin = time.perf_counter()
    if function not in self._programs:
      self._programs[function] = programs.program(
        function, self.static, *arguments, loops=loops, results=results
      )
    jax.block_until_ready(arguments)
    compiled = time.perf_counter()
    try:
      outputs = jax.block_until_ready(self._programs[function](*arguments))
    except jax.errors.JaxRuntimeError as error:
      if "RESOURCE_EXHAUSTED" not in str(error):
        raise
      raise UserError(
        f"out of memory ({brief(str(error))}): choose a smaller batch_size or"
        " tree, or fewer max_new_tokens"
      ) from None
    self.seconds["compile"] += compiled - begin
    self.seconds[name] += time.perf_counter() - compiled
    return outputs

  def _put(self, arrays):
    """Copies host arrays to all devices of the batch."""
    return jax.device_put(arrays, self._sharding)


def decode(
  batch: Batch,
  prompts: Sequence[Prompt],
  step: Callable[[Batch], object] | None = None,
) -> Iterator[Continuation]:
  """Decodes prompts. The next prompt takes the slot of a finished one.

  Args:
    batch: The slots. Their current contents are discarded.
    prompts: The prompts to continue.
    step: Function that runs one cycle with `Batch.step`, for callers that watch
      every cycle. By default cycles run on the device until a waiting prompt
      can take a slot, or until all rows have finished.

  Yields:
    One continuation for each prompt, in order. A finished prompt waits until
    all earlier prompts have finished.
  """
  waiting = collections.deque(enumerate(prompts))
  running: dict[int, int] = {}  # slot -> index of its prompt
  ended: dict[int, Continuation] = {}  # finished prompts, not yet yielded
  due = 0  # index of the next prompt to yield
  while due < len(prompts):
    for slot in range(batch.size):
      if waiting and slot not in running:
        running[slot], prompt = waiting.popleft()
        batch.insert([prompt], slot)
    wanted = 1 if waiting else batch.size
    if step:
      while np.sum(batch.state.done) < wanted:
        step(batch)
    else:
      batch.advance(wanted)
    done, records = jax.device_get((batch.state.done, batch.state.records))
    for slot in [slot for slot in running if done[slot]]:
      ended[running.pop(slot)] = continuation(records, slot)
    while due in ended:
      yield ended.pop(due)
      due += 1


def padded(length: int, most: int) -> int:
  """Rounds up to a power of 2 from 16; above `most`, to a multiple of it."""
  if length > most:
    return -(-length // most) * most
  return max(16, 1 << (length - 1).bit_length())


def cache_slots(static: Static, prompt: int, new: int) -> int:
  """Returns S, the number of cache slots for a prompt and `new` tokens.

  The last cycle may commit D tokens beyond the limit. A finished row still
  takes part in other rows' cycles, so there is room for one more cycle: the N
  nodes of a tree, or the D + 1 tokens that a draft reads again and its block.
  """
  N, D = static.nodes, static.depth
  ahead = static.drafter.block if static.drafter else 0
  least = prompt + new + D + max(N, D + 1 + ahead) + 1
  block = _CPU_BLOCK if jax.default_backend() == "cpu" else _BLOCK
  return -(-least // block) * block
