"""Several things at a time, in threads that keep nobody from ending."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Iterable, Iterator


def each(function: Callable, values: Iterable, workers: int) -> Iterator[tuple]:
  """Yields values with what a function makes of them, as they get done.

  Another one is begun only when whoever takes these comes back for more: what
  is not on the disk yet when the process dies are `workers` at most.

  Args:
    function: Called in threads; the first error of it is raised here.
    values: What to call it with.
    workers: How many threads.

  Yields:
    Pairs of a value and a result.
  """
  todo, done = queue.SimpleQueue(), queue.SimpleQueue()

  def work():
    while (given := todo.get()) is not None:
      (value,) = given
      try:
        done.put((value, function(value), None))
      except BaseException as error:
        done.put((value, None, error))

  left, busy = iter(values), 0
  # No pool: the interpreter would wait for its threads, which wait for replies.
  for _ in range(workers):
    threading.Thread(target=work, daemon=True).start()
  try:
    while True:
      for value in itertools.islice(left, workers - busy):
        todo.put((value,))
        busy += 1
      if not busy:
        return
      value, result, error = done.get()
      busy -= 1
      if error is not None:
        raise error
      yield value, result
  finally:
    for _ in range(workers):
      todo.put(None)
