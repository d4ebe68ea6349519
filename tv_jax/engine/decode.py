"""The loop: prompts take slots of a batch, and rows advance together.

Axes: B batch, N nodes, P prompt length, W new tokens at most, S cache slots.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.drafting import Drafted
from tv_jax.edge.reading import brief
from tv_jax.engine import cycle, programs
from tv_jax.engine.config import DecodeConfig
from tv_jax.engine.pair import Pair
from tv_jax.engine.state import (
  Caches,
  Params,
  Records,
  Request,
  State,
  empty_state,
)
from tv_jax.models import sharding

# Cache slots come in full blocks. So many suit the products of a GPU; on a CPU
# every slot takes time.
_BLOCK, _CPU_BLOCK = 128, 16

Name = TypeVar("Name", bound=Hashable)


class Prompt(NamedTuple):
  """What is to be continued.

  Attributes:
    tokens: Of it.
    item: Its number, which its key is folded from.
    limit: New tokens at most.
  """

  tokens: Sequence[int]
  item: int
  limit: int


def advance(
  config: DecodeConfig, params: Params, done: jax.Array, state: State
) -> State:
  """Runs cycles until so many rows are done."""
  return jax.lax.while_loop(
    lambda state: jnp.sum(state.done) < done,
    lambda state: cycle.cycle(config, params, state)[0],
    state,
  )


class Batch:
  """Slots for prompts, on the device, and the programs that work on them.

  What a prompt yields does not depend on its slot, nor on the other rows.

  Attributes:
    size: B.
    items: [B] the items of what was read into the slots.
    config: What its programs are compiled for.
    params: What they take.
    state: What they change: it is donated to each, whose result replaces it.
    seconds: What "compile", "prefill" and "cycles" have taken.
  """

  def __init__(self, pair: Pair, config: DecodeConfig, size: int, longest: int):
    """Allocates the slots.

    Args:
      pair: The models.
      config: How to decode.
      size: B.
      longest: The length of the longest prompt that there may be.
    """
    self.size, self.config = size, config.static()
    self.seconds = collections.defaultdict(float)
    self.items = np.zeros(size, np.int64)
    self.width = padded_prompt(longest) + 1
    self._programs: dict[Callable, jax.stages.Compiled] = {}
    target = pair.target.config
    self._place = sharding.placement("", pair.target.mesh)  # but for models
    draft = pair.draft if config.drafter else None
    key = jax.random.key(config.seed)
    rule = None
    if config.verifier and len(config.rules) > 1:
      rule = np.int32(config.rules.index(config.verifier))
    self.params = Params(
      target=pair.target.params,
      draft=draft and draft.params,
      key=self._put(key),
      temperature=self._put(np.float32(config.temperature or 1.0)),
      draft_temperature=self._put(np.float32(config.draft_temperature)),
      rule=None if rule is None else self._put(rule),
    )
    layers = len(draft.config.target_layers) if draft else 0
    new = padded_new(config.max_new_tokens)
    state = empty_state(
      self.config,
      rows=size,
      new=new,
      features=(target.hidden_size * max(layers, 1), target.dtype),
    )
    slots = cache_slots(config, self.width, new)
    draft_cache = draft and draft.init_cache(size, slots)
    if draft and draft.mesh is None:
      draft_cache = self._put(draft_cache)
    caches = Caches(pair.target.init_cache(size, slots), draft_cache)
    self.state = dataclasses.replace(self._put(state), caches=caches)

  def insert(self, prompts: Sequence[Prompt], slot: int) -> None:
    """Reads prompts into a slot and those after it, whatever was there."""
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

  def advance(self, done: int) -> None:
    """Runs cycles until so many rows are done."""
    count = self._put(np.int32(done))
    self.state = self._run("cycles", advance, count, loops=True)

  def step(self) -> tuple[Drafted, jax.Array]:
    """Runs a cycle; returns what was drafted, and the target's laws."""
    self.state, drafted, laws = self._run("cycles", cycle.cycle)
    return drafted, laws

  def _run(self, name: str, function: Callable, *arguments, loops=False):
    """Runs a program on the state, which is donated; counts its seconds."""
    arguments = self.params, *arguments, self.state
    begin = time.perf_counter()
    if function not in self._programs:
      outputs = None
      if self._place is not None:
        outputs = jax.tree.map(lambda x: x.sharding, self.state)
        if function is cycle.cycle:
          outputs = outputs, None, None
      self._programs[function] = programs.program(
        function, self.config, *arguments, outputs=outputs, loops=loops
      )
    jax.block_until_ready(arguments)
    compiled = time.perf_counter()
    with _advice():
      results = jax.block_until_ready(self._programs[function](*arguments))
    self.seconds["compile"] += compiled - begin
    self.seconds[name] += time.perf_counter() - compiled
    return results

  def _put(self, arrays):
    """Returns a host's arrays on all devices of the batch."""
    return jax.device_put(arrays, self._place)


def decode(
  batch: Batch,
  prompts: Sequence[Prompt],
  step: Callable[[Batch], object] | None = None,
) -> Iterator[Records]:
  """Decodes prompts: a row that is done takes the next one.

  Args:
    batch: The slots; what is in them is given up.
    prompts: What to continue.
    step: Runs one cycle, for who watches cycles. Without it many are run at
      once: until a row is done that a prompt waits for, or all are.

  Yields:
    Each prompt's records, of one row, in the order of the prompts: as soon as
    it and all before are done.
  """
  waiting = collections.deque(enumerate(prompts))
  places: dict[int, int] = {}  # by slot, the place of its prompt
  ended: dict[int, Records] = {}  # by place, until those before are there
  due = 0
  while due < len(prompts):
    for slot in range(batch.size):
      if waiting and slot not in places:
        places[slot], prompt = waiting.popleft()
        batch.insert([prompt], slot)
    wanted = 1 if waiting else batch.size
    if step:
      while np.sum(batch.state.done) < wanted:
        step(batch)
    else:
      batch.advance(wanted)
    done, records = jax.device_get((batch.state.done, batch.state.records))
    for slot in [slot for slot in places if done[slot]]:
      ended[places.pop(slot)] = jax.tree.map(
        lambda array, slot=slot: array[slot : slot + 1].copy(), records
      )
    while due in ended:
      yield ended.pop(due)
      due += 1


class Timed(NamedTuple):
  """One answer, in seconds without compilation."""

  prefill: float
  cycles: float
  records: Records

  @property
  def seconds(self) -> float:
    """Of the whole answer."""
    return self.prefill + self.cycles


def time_in_turn(
  pair: Pair,
  configs: Mapping[Name, DecodeConfig],
  prompts: Sequence[Prompt],
  longest: int,
  *,
  rounds: int = 1,
  before: Callable[[Name, bool], None] = lambda name, warm: None,
) -> tuple[dict[Name, list[Timed]], dict[Name, float]]:
  """Times several configs, one prompt at a time, in turn on each prompt.

  A busy machine is then busy for all of them alike.

  Args:
    pair: The models.
    configs: How to decode, by name.
    prompts: What to continue.
    longest: What they are padded for.
    rounds: How often each config answers each prompt.
    before: Called before each answer with the config's name, and whether the
      answer counts: the first of each is to compile and to warm up.

  Returns:
    The answers by name, round by round; and the seconds of compilation.
  """
  # Kept, so that however many there are, each compiles its programs once.
  batches = {
    name: Batch(pair, config, 1, longest) for name, config in configs.items()
  }

  def answer(name, prompt, warm=True):
    before(name, warm)
    spent = batches[name].seconds
    spent["prefill"] = spent["cycles"] = 0.0
    (records,) = decode(batches[name], [prompt])
    return Timed(spent["prefill"], spent["cycles"], records)

  for name in configs:
    answer(name, prompts[0], warm=False)
  compiling = {
    name: batch.seconds["compile"] for name, batch in batches.items()
  }
  names, answers = [*configs], {name: [] for name in configs}
  for turn in range(rounds):
    for place, prompt in enumerate(prompts):
      first = (turn + place) % len(names)
      for name in (*names[first:], *names[:first]):
        answers[name].append(answer(name, prompt))
  return answers, compiling


def padded_prompt(length: int) -> int:
  """Returns P: a power of 2 from 16 to a chunk, then a number of chunks."""
  if length > cycle.CHUNK:
    return -(-length // cycle.CHUNK) * cycle.CHUNK
  return max(16, 1 << (length - 1).bit_length())


def padded_new(limit: int) -> int:
  """Returns W: a power of 2 from 16 to 128, then a multiple of 128."""
  if limit > 128:
    return -(-limit // 128) * 128
  return max(16, 1 << (limit - 1).bit_length())


def cache_slots(config: DecodeConfig, prompt: int, new: int) -> int:
  """Returns S for `new` tokens after a prompt, in full blocks.

  The last cycle may commit D tokens too many. While a row waits for the others
  its cycles go on, each writing a tree, or catching up, and behind that the
  rows of a draft's block.
  """
  N, D = config.nodes, config.depth
  ahead = config.drafter.block if config.drafter else 0
  least = prompt + new + D + max(N, D + 1 + ahead) + 1
  block = _CPU_BLOCK if jax.default_backend() == "cpu" else _BLOCK
  return -(-least // block) * block


@contextlib.contextmanager
def _advice():
  """Says what to do where there is no memory."""
  try:
    yield
  except jax.errors.JaxRuntimeError as error:
    if "RESOURCE_EXHAUSTED" not in str(error):
      raise
    raise ValueError(
      f"out of memory ({brief(str(error))}): choose a smaller batch_size or"
      " tree, or fewer max_new_tokens"
    ) from None
