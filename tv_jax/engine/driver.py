"""The engine's loop on the host: prompts take seats, and rows advance.

Axes: B batch, P prompt length, W new tokens at most.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import jax
import numpy as np

from tv_jax.edge.reading import shown
from tv_jax.engine import batches, program, programs, sizes
from tv_jax.engine.batches import Batch
from tv_jax.engine.pair import Pair
from tv_jax.engine.plan import Caches, Records, Request, Seat, State
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class EngineRun:
  """What does not change while prompts are decoded in one way.

  Attributes:
    settings: How to decode.
    batch: Arguments of the programs, and what they are padded to.
    key: Of the seed; each prompt's is folded from it.
    hurried: Whether to compile quickly, for slower programs.
    made: The programs, by function and `programs.context`.
  """

  settings: Settings
  batch: Batch
  key: jax.Array
  hurried: bool = False
  made: dict[tuple, jax.stages.Compiled] = dataclasses.field(
    default_factory=dict
  )

  def program(
    self, function: Callable, *arguments, **how
  ) -> jax.stages.Compiled:
    """Returns the program of a function of the plan and these arguments.

    Args:
      function: What to compile; other arguments make no other program.
      *arguments: Arrays; shapes are enough.
      **how: As in `programs.compile`.
    """
    context = programs.context()
    key = function, context
    if key not in self.made:
      self.made[key] = programs.compile(
        function,
        self.settings.plan,
        *programs.shapes_of(*arguments),
        hurried=self.hurried,
        context=context,
        **how,
      )
    return self.made[key]

  def places(self, function: Callable) -> Callable | None:
    """Returns `function`, which says where results lie, if devices differ."""
    return function if len(self.batch.place.device_set) > 1 else None

  def put(self, arrays):
    """Returns a host's arrays on all devices of the batch."""
    return sharding.put(arrays, self.batch.place)


class Rows:
  """Decodes prompts, `size` at a time: a row that is done takes the next one.

  What a prompt yields does not depend on its row, nor on the others. `seat` and
  `advance` do the work, `compile` makes their programs. A class that watches
  cycles overrides them.

  Attributes:
    caches: What the next call may use again.
    compile_seconds: Of all that came before the first prompt of each call:
      compilation, and making empty arrays.
  """

  def __init__(self, pair: Pair, size: int, *, hurried: bool = False):
    """Decodes nothing yet.

    Args:
      pair: The models.
      size: B.
      hurried: Whether to compile quickly, for slower programs.
    """
    self.pair, self.size, self.hurried = pair, size, hurried
    self.caches: Caches | None = None
    self.compile_seconds = 0.0
    self._last: EngineRun | None = None

  def prepare(self, settings: Settings, longest: int) -> None:
    """Compiles what `decode` will call, on a single device."""
    run = self._begin(settings, longest)
    place = run.batch.place
    state = jax.tree.map(
      lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place),
      jax.eval_shape(
        lambda: self._vacant(run, batches.caches(self.pair, run.batch))
      ),
    )
    self.compile(run, state)

  def decode(
    self, settings: Settings, prompts: Sequence[Prompt], longest: int = 0
  ) -> Iterator[Records]:
    """Yields each prompt's records, of one row, in the order of the prompts.

    Args:
      settings: How to decode.
      prompts: What to continue.
      longest: The longest prompt, if one to come is longer.

    Yields:
      As soon as it and all before are done.
    """
    for _, ended in self.turns(settings, prompts, longest):
      yield from ended

  def turns(
    self, settings: Settings, prompts: Sequence[Prompt], longest: int = 0
  ) -> Iterator[tuple[Records, list[Records]]]:
    """Decodes as `decode` does, and can be watched.

    Args:
      settings: How to decode.
      prompts: What to continue.
      longest: As of `decode`.

    Yields:
      After each `advance` the records of all rows, and what `decode` then
      yields.
    """
    begin = time.perf_counter()
    longest = max([longest, *(len(prompt.tokens) for prompt in prompts)])
    run = self._begin(settings, longest)
    # What is donated is gone if a program fails.
    caches, self.caches = self.caches, None
    state = self._vacant(run, batches.caches(self.pair, run.batch, caches))
    self.compile(run, state)
    self.compile_seconds += time.perf_counter() - begin
    request = run.batch.request
    waiting = collections.deque(enumerate(prompts))
    seated: dict[int, int] = {}  # by row, the place of its prompt
    ended: dict[int, Records] = {}  # by place, until those before are there
    due = 0
    while due < len(prompts):
      with _room():
        for row in range(self.size):
          if waiting and row not in seated:
            seated[row], prompt = waiting.popleft()
            seat = _seat(run.batch, prompt, row)
            request, state = self.seat(run, seat, request, state)
        state = self.advance(run, request, state, full=bool(waiting))
        done, records = jax.device_get((state.done, state.records))
      for row in [row for row in seated if done[row]]:
        ended[seated.pop(row)] = jax.tree.map(
          lambda array, row=row: array[row : row + 1].copy(), records
        )
      told = []
      while due in ended:
        told.append(ended.pop(due))
        due += 1
      yield records, told
    self.caches = state.caches

  def compile(self, run: EngineRun, state: State) -> None:
    """Makes the programs that `seat` and `advance` call with such a state."""
    self.compile_seat(run, state)
    params, request = run.batch.params, run.batch.request
    _advancer(run, params, request, state, run.put(np.bool(True)))

  def compile_seat(self, run: EngineRun, state: State) -> None:
    """Makes the program that `seat` calls with such a state."""
    params, request = run.batch.params, run.batch.request
    seat = run.put(_seat(run.batch, Prompt((), 0, 0), 0))
    _seater(run, params, run.key, seat, request, state)

  def seat(
    self, run: EngineRun, seat: Seat, request: Request, state: State
  ) -> tuple[Request, State]:
    """Returns the batch and its state with a prompt read into a row."""
    arguments = run.batch.params, run.key, run.put(seat), request, state
    return _seater(run, *arguments)(*arguments)

  def advance(
    self, run: EngineRun, request: Request, state: State, *, full: bool
  ) -> State:
    """Returns the state when all rows are done; if `full`, when any is."""
    arguments = run.batch.params, request, state, run.put(np.bool(full))
    return _advancer(run, *arguments)(*arguments)

  def _begin(self, settings, longest) -> EngineRun:
    """Returns the run; that of the call before, if nothing differs."""
    last, width = self._last, sizes.prompt_slots(longest) + 1
    if last and (last.settings, last.batch.width) == (settings, width):
      return last
    batch = batches.assemble(self.pair, settings, self.size, longest)
    key = sharding.put(jax.random.key(settings.seed), batch.place)
    run = EngineRun(
      settings=settings, batch=batch, key=key, hurried=self.hurried
    )
    self._last = run
    return run

  def _vacant(self, run, caches) -> State:
    """Returns the state of rows that nothing is in yet."""
    batch = run.batch
    state = program.vacant(
      run.settings.plan, batch.params, batch.request, caches, batch.new
    )
    if self.pair.target.mesh is None:
      return state
    caches = state.caches.map(
      lambda cache: dataclasses.replace(cache, length=run.put(cache.length))
    )
    state = run.put(dataclasses.replace(state, caches=None))
    return dataclasses.replace(state, caches=caches)


def _seat(batch, prompt, row) -> Seat:
  """A prompt for a row, padded as all of the batch."""
  tokens = np.zeros(batch.width, np.int32)
  tokens[: len(prompt.tokens)] = prompt.tokens
  return Seat(
    tokens=tokens,
    length=np.int32(len(prompt.tokens)),
    limit=np.int32(prompt.limit),
    item=np.uint32(prompt.item),
    row=np.int32(row),
  )


def _seater(run, *arguments) -> jax.stages.Compiled:
  return run.program(
    program.seat,
    *arguments,
    donated=(4,),
    places=run.places(_seated),
    new=run.batch.new,
  )


def _advancer(run, *arguments) -> jax.stages.Compiled:
  return run.program(
    program.advance,
    *arguments,
    donated=(2,),
    places=run.places(_advanced),
    loops=True,
  )


def _seated(params, key, seat, request, state):
  del params, key, seat
  return where((request, state))


def _advanced(params, request, state, full):
  del params, request, full
  return where(state)


def where(arrays):
  """Returns the shardings of arrays, to have results where these lie."""
  return jax.tree.map(lambda array: array.sharding, arrays)


@contextlib.contextmanager
def _room():
  """Says what to do where a program finds no memory."""
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
