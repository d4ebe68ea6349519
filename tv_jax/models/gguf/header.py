"""Reads what stands at the beginning of a GGUF file.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Nothing
in the file is believed: a number of things is compared with the bytes that are
left before any of them is read.
"""

import dataclasses
import functools
import math
import mmap
import pathlib
import struct
from collections.abc import Mapping

import numpy as np

from tv_jax.edge import reading
from tv_jax.edge.reading import brief, shown

MAGIC = b"GGUF"
VERSIONS = (2, 3)
ALIGNMENT = 32  # unless general.alignment says otherwise

# Kinds of values, by number.
_NUMBERS = dict(enumerate(("u1", "i1", "u2", "i2", "u4", "i4", "f4")))
_NUMBERS |= {10: "u8", 11: "i8", 12: "f8"}
_BOOLEAN, _TEXT, _ARRAY = 7, 8, 9

# No header is larger: vocabularies of a quarter of a million tokens take 20 MB.
LARGEST = 1 << 26
_MOST_AXES = 4

# The fewest bytes that one of these can take.
_LEAST_ENTRY = 8 + 4 + 1
_LEAST_TENSOR = 8 + 4 + 4 + 8


@dataclasses.dataclass(frozen=True)
class Tensor:
  """What a file says of a tensor.

  Attributes:
    shape: The axis along which numbers lie side by side is the last.
    kind: The number of its type.
    begin: Its first byte in the file.
  """

  shape: tuple[int, ...]
  kind: int
  begin: int

  @property
  def size(self) -> int:
    """Returns how many numbers it holds."""
    return math.prod(self.shape)


@dataclasses.dataclass(frozen=True)
class Header:
  """A file's metadata, and where its tensors are.

  Attributes:
    path: The file.
    bytes: How many it has.
    metadata: Numbers, booleans and texts.
    lists: Metadata that are lists of texts, or arrays of numbers.
    tensors: By the file's own names, in its order.
    start: The first byte that a tensor can have.
    alignment: What each tensor's first byte is a multiple of.
  """

  path: pathlib.Path
  bytes: int
  metadata: Mapping[str, str | int | float]
  lists: Mapping[str, list[str] | np.ndarray]
  tensors: Mapping[str, Tensor]
  start: int = 0
  alignment: int = ALIGNMENT


class _FaultyError(Exception):
  """What is wrong with a file."""


class _Cursor:
  """A place in a file, from which values are read one after the other."""

  def __init__(self, data):
    self.data, self.at = data, 0
    self.end = min(len(data), LARGEST)

  def take(self, size: int) -> bytes:
    """Returns so many bytes."""
    self.expect(size)
    self.at += size
    return self.data[self.at - size : self.at]

  def expect(self, size: int) -> None:
    """Refuses a file that has fewer bytes left."""
    if size > self.end - self.at:
      raise _FaultyError("it ends too early")

  def number(self, kind: str) -> int:
    """Returns a number of a kind of struct's."""
    (value,) = struct.unpack("<" + kind, self.take(struct.calcsize(kind)))
    return value

  def text(self) -> str:
    """Returns a text."""
    try:
      return self.take(self.number("Q")).decode()
    except UnicodeDecodeError:
      raise _FaultyError("a text in it is not UTF-8") from None

  def value(self):
    """Returns a value of whatever kind it says that it is."""
    kind = self.number("I")
    if kind == _ARRAY:
      return self._array(self.number("I"), self.number("Q"))
    if kind == _TEXT:
      return self.text()
    return self._numbers(kind, 1)[0].item()

  def _array(self, kind: int, count: int):
    if kind != _TEXT:
      return self._numbers(kind, count)
    self.expect(8 * count)
    return [self.text() for _ in range(count)]

  def _numbers(self, kind: int, count: int) -> np.ndarray:
    if kind == _BOOLEAN:
      return self._numbers(0, count).astype(bool)
    if kind not in _NUMBERS:
      raise _FaultyError(f"a value in it is of the unknown kind {kind}")
    dtype = np.dtype(f"<{_NUMBERS[kind]}")
    return np.frombuffer(self.take(count * dtype.itemsize), dtype)

  def tensor(self) -> Tensor:
    """Returns a tensor's; it begins so far behind the first."""
    count = self.number("I")
    if count > _MOST_AXES:
      raise _FaultyError(f"a tensor in it has {count} axes")
    shape = tuple(self.number("Q") for _ in range(count))
    return Tensor(shape[::-1], self.number("I"), self.number("Q"))

  def named(self, least: int, count: int, read) -> dict:
    """Returns so many values with a name each, which takes `least` bytes."""
    self.expect(least * count)
    found = {}
    for _ in range(count):
      name = self.text()
      if name in found:
        raise _FaultyError(f"{brief(name)} is in it twice")
      found[name] = read()
    return found


def read(path) -> Header:
  """Reads a file's header.

  Raises:
    ValueError: In one line, why it is none.
  """
  path = reading.regular(path)
  about = path.stat()
  return _read(path, about.st_size, about.st_mtime_ns)


@functools.lru_cache(maxsize=4)
def _read(path: pathlib.Path, size: int, changed: int) -> Header:
  """Reads a file that has not changed once; it is asked for often."""
  del changed
  try:
    if not size:
      raise _FaultyError("it is empty")
    with (
      path.open("rb") as file,
      mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
      return Header(path, size, *_parts(_Cursor(data)))
  except _FaultyError as error:
    raise ValueError(
      f"{shown(path)} is truncated or is not GGUF ({error}): get it again"
    ) from None


def _parts(cursor: _Cursor) -> tuple[dict, dict, dict, int, int]:
  """Returns what `Header` holds of a file, but its path and size."""
  if cursor.take(4) != MAGIC:
    raise _FaultyError("it does not begin with GGUF")
  if (version := cursor.number("I")) not in VERSIONS:
    raise _FaultyError(
      f"its version is {version}: 2 and 3 are read, their numbers little end"
      " first"
    )
  tensors, entries = cursor.number("Q"), cursor.number("Q")
  values = cursor.named(_LEAST_ENTRY, entries, cursor.value)
  found = cursor.named(_LEAST_TENSOR, tensors, cursor.tensor)
  several = {
    name: value
    for name, value in values.items()
    if isinstance(value, list | np.ndarray)
  }
  metadata = {x: value for x, value in values.items() if x not in several}
  step = metadata.get("general.alignment", ALIGNMENT)
  if type(step) is not int or step < 1 or step & (step - 1):
    raise _FaultyError(f"general.alignment={brief(step)} is no power of two")
  first = -(-cursor.at // step) * step
  placed = {
    name: dataclasses.replace(one, begin=first + one.begin)
    for name, one in found.items()
  }
  return metadata, several, placed, first, step
