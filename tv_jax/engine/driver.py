"""The engine's programs, called: for a batch, or for row after row.

Axes: B batch, P prompt length, W new tokens at most.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax
import numpy as np

from tv_jax.edge.reading import shown
from tv_jax.engine import batches, decoding
from tv_jax.engine.decoding import Caches, Records, State
from tv_jax.engine.pair import Pair
from tv_jax.engine.settings import Settings
from tv_jax.models import sharding


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


class Programs(NamedTuple):
  """What decodes row after row; see `decoding`."""

  seat: jax.stages.Compiled
  advance: jax.stages.Compiled


def program(settings, batch, caches, *, hurried=False) -> jax.stages.Compiled:
  """What decodes such batches, made once; of the caches shapes are enough."""
  return decoding.compile(
    decoding.generate,
    settings.plan,
    *decoding.shapes_of(batch.params, batch.request, caches),
    donated=(2,),
    places=_places if _several(batch) else None,
    hurried=hurried,
    new=batch.new,
  )


def decode(settings, batch, caches, items=(), *, hurried=False):
  """A batch as one program; see `decode_batches` and `decoding.compile`."""
  del items
  begin = time.perf_counter()
  run = program(settings, batch, caches, hurried=hurried)
  compiling = time.perf_counter() - begin
  with _room():
    records, caches = run(batch.params, batch.request, caches)
    return jax.device_get(records), caches, compiling


def programs(settings: Settings, batch, state: State) -> Programs:
  """Those of such batches, made once; of the state shapes are enough."""
  params, request = batch.params, batch.request
  place = request.length.sharding
  seat = sharding.put(_seat(batch, Prompt((), 0, 0), 0), place)
  full = sharding.put(np.bool(True), place)
  several = _several(batch)
  return Programs(
    seat=decoding.compile(
      decoding.seat,
      settings.plan,
      *decoding.shapes_of(params, _key(settings, place), seat, request, state),
      donated=(4,),
      places=_seated if several else None,
      new=batch.new,
    ),
    advance=decoding.compile(
      decoding.advance,
      settings.plan,
      *decoding.shapes_of(params, request, state, full),
      donated=(2,),
      places=_advanced if several else None,
    ),
  )


def prepare(pair: Pair, settings: Settings, size: int, longest: int) -> None:
  """Makes what `Rows` will call, on a single device."""
  batch = _assemble(pair, settings, (), size, longest)
  caches = batches.shapes(pair, batch)
  if size == 1:
    program(settings, batch, caches)
    return
  state = jax.tree.map(
    lambda x: jax.ShapeDtypeStruct(
      x.shape, x.dtype, sharding=batch.request.length.sharding
    ),
    jax.eval_shape(lambda: _vacant(pair, settings, batch, caches)),
  )
  programs(settings, batch, state)


class Rows:
  """Decodes prompts, `size` at a time: a row that is done takes the next one.

  What a prompt yields does not depend on its row, nor on the others.

  Attributes:
    compile_seconds: Of all compilation until now.
  """

  def __init__(self, pair: Pair, size: int):
    """Nothing is decoded yet."""
    self.pair, self.size = pair, size
    self.caches: Caches | None = None
    self.compile_seconds = 0.0

  def decode(
    self, settings: Settings, prompts: Sequence[Prompt], longest: int = 0
  ) -> Iterator[Records]:
    """Each prompt's records, of one row, in the order of the prompts.

    Args:
      settings: How to decode.
      prompts: What to continue.
      longest: The longest prompt, if one to come is longer.

    Yields:
      As soon as it and all before are done.
    """
    longest = max([longest, *(len(prompt.tokens) for prompt in prompts)])
    # What is donated is gone if a program fails.
    caches, self.caches = self.caches, None
    if self.size > 1:
      batch = _assemble(self.pair, settings, (), self.size, longest)
      caches = batches.caches(self.pair, batch, caches)
      state = _vacant(self.pair, settings, batch, caches)
      state = yield from self._refilled(settings, batch, state, prompts)
      self.caches = state.caches
      return
    for prompt in prompts:
      batch = _assemble(self.pair, settings, [prompt], 1, longest)
      caches = batches.caches(self.pair, batch, caches)
      records, caches, spent = decode(settings, batch, caches)
      self.compile_seconds += spent
      yield records
    self.caches = caches

  def _refilled(self, settings, batch, state, prompts):
    """Seats a prompt wherever there is room; the last state."""
    begin = time.perf_counter()
    run = programs(settings, batch, state)
    self.compile_seconds += time.perf_counter() - begin
    params, request = batch.params, batch.request
    whole = request.length.sharding
    key = _key(settings, whole)
    waiting = collections.deque(enumerate(prompts))
    seated: dict[int, int] = {}  # by row, the place of its prompt
    ended: dict[int, Records] = {}  # by place, until those before are there
    due = 0
    while due < len(prompts):
      with _room():
        for row in range(self.size):
          if waiting and row not in seated:
            seated[row], prompt = waiting.popleft()
            own = sharding.put(_seat(batch, prompt, row), whole)
            request, state = run.seat(params, key, own, request, state)
        full = sharding.put(np.bool(bool(waiting)), whole)
        state = run.advance(params, request, state, full)
        done, records = jax.device_get((state.done, state.records))
      for row in [row for row in seated if done[row]]:
        ended[seated.pop(row)] = jax.tree.map(
          lambda array, row=row: array[row : row + 1].copy(), records
        )
      while due in ended:
        yield ended.pop(due)
        due += 1
    return state


def _assemble(pair, settings, prompts, size, longest):
  """A batch of a size, padded alike whatever the prompts."""
  tokens, items, limits = zip(*(prompts or [Prompt((), 0, 0)]), strict=True)
  return batches.assemble(pair, settings, tokens, items, size, longest, limits)


def _key(settings, place):
  return sharding.put(jax.random.key(settings.seed), place)


def _seat(batch, prompt, row) -> decoding.Seat:
  """A prompt for a row, padded as all of the batch."""
  tokens = np.zeros(batch.request.prompts.shape[1], np.int32)
  tokens[: len(prompt.tokens)] = prompt.tokens
  return decoding.Seat(
    tokens=tokens,
    length=np.int32(len(prompt.tokens)),
    limit=np.int32(prompt.limit),
    item=np.uint32(prompt.item),
    row=np.int32(row),
  )


def _vacant(pair, settings, batch, caches) -> State:
  """The state of rows that nothing is in yet."""
  state = decoding.vacant(
    settings.plan, batch.params, batch.request, caches, batch.new
  )
  if pair.target.mesh is None:
    return state
  caches = state.caches
  whole = sharding.placement("", pair.target.mesh)
  state = sharding.put(dataclasses.replace(state, caches=None), whole)
  lengths = [cache and sharding.put(cache.length, whole) for cache in caches]
  return dataclasses.replace(
    state,
    caches=Caches(
      *(
        cache and dataclasses.replace(cache, length=length)
        for cache, length in zip(caches, lengths, strict=True)
      )
    ),
  )


@contextlib.contextmanager
def _room():
  """Says what to do where a program finds none."""
  try:
    yield
  except jax.errors.JaxRuntimeError as error:
    # The estimate before was of the least; temporaries came on top.
    if "RESOURCE_EXHAUSTED" not in str(error):
      raise
    raise ValueError(
      f"out of memory ({shown(error)}): choose a smaller batch_size or tree, or"
      " fewer max_new_tokens"
    ) from None


def _several(batch) -> bool:
  return len(batch.request.length.sharding.device_set) > 1


def _places(params, request, caches):
  """Records on every device; caches where the next batch looks for them."""
  del params
  return request.length.sharding, _as_before(caches)


def _seated(params, key, prompt, request, state):
  del params, key, prompt
  return _as_before((request, state))


def _advanced(params, request, state, full):
  del params, request, full
  return _as_before(state)


def _as_before(arrays):
  return jax.tree.map(lambda array: array.sharding, arrays)
