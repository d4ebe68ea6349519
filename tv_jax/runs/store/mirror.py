"""A store as the other processes of a run have it: in memory."""

from tv_jax.edge import disk
from tv_jax.runs.records import Answer, Key
from tv_jax.runs.store import unit


class Mirror:
  """What is in the store that process 0 writes; nothing is written here.

  Attributes:
    environment_changes: Empty: process 0 tells them.
  """

  environment_changes = ()

  def __init__(self):
    """Nothing is in it yet."""
    self._found: dict[Key, Answer] = {}

  def __contains__(self, key: Key) -> bool:
    """Whether the item is there."""
    return key in self._found

  def __len__(self) -> int:
    """How many items are there."""
    return len(self._found)

  def get(self, key: Key) -> Answer | None:
    """The item, or None."""
    return self._found.get(key)

  @property
  def items(self) -> tuple[Answer, ...]:
    """All by rising key."""
    return unit.in_order(self._found)

  def append(self, answer: Answer) -> None:
    """Adds an item, as a reader of the store would find it."""
    line = disk.round_trip(answer.line, str(answer.key))
    self._found[answer.key] = Answer.of(line)

  def keep_sources(self, sources: dict[str, str]) -> None:
    """Nothing: process 0 keeps them."""

  def save_timing(self, timing: dict) -> None:
    """Nothing: process 0 has its own."""

  def expect(self, count: int) -> None:
    """Nothing: process 0 says it."""

  def finish(self) -> None:
    """Nothing: process 0 does."""
