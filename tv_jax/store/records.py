"""The lines of items.jsonl."""

import pathlib

from tv_jax.store import files

# Together these fields say which item a line is.
KEY = (
  "task",
  "question",
  "turn",
  "tree",
  "proposal",
  "verifier",
  "temperature",
  "seed",
)


def key(record: dict) -> tuple:
  """The values of a record's KEY fields.

  Raises:
    ValueError: A field is missing, or is neither a string nor a number.
  """
  if not isinstance(record, dict):
    raise ValueError("an item must be a dict")
  if missing := [field for field in KEY if field not in record]:
    raise ValueError(f"an item without {', '.join(missing)}")
  for field in KEY:
    if not isinstance(record[field], str | int | float):
      raise ValueError(
        f"an item's {field} must be a string or a number, not {record[field]!r}"
      )
  return tuple(record[field] for field in KEY)


def name(identity: tuple) -> str:
  """A key in words, for messages."""
  pairs = zip(KEY, identity, strict=True)
  return "item " + ", ".join(f"{field} {value}" for field, value in pairs)


def in_order(records: dict[tuple, dict]) -> tuple[dict, ...]:
  """The records by rising key, field by field: numbers first, then strings.

  So whatever is made of them does not depend on the order of the lines.
  """

  def rank(identity):
    return [(isinstance(value, str), value) for value in identity]

  return tuple(records[identity] for identity in sorted(records, key=rank))


def parse(data: bytes, path: pathlib.Path) -> tuple[dict[tuple, dict], int]:
  """The records in a file's bytes, but for a last line that is torn.

  A crash tears the last line only. It then lacks its newline or, when the
  machine went down as well, is as long as it should be and holds zeros.

  Args:
    data: The file's bytes.
    path: The file, for the errors.

  Returns:
    The records by key, in the file's order, and the bytes that they take.

  Raises:
    ValueError: A line that a crash cannot explain.
  """
  records, numbers, size = {}, {}, 0
  # Only b"\n" ends a line: a string may hold other separators, like U+2028.
  *lines, rest = data.split(b"\n")
  for number, line in enumerate(lines, 1):
    try:
      record = files.from_bytes(line)
    except ValueError as error:
      if number == len(lines) and not rest:
        break
      raise ValueError(
        f"{path}, line {number}: no JSON: {error}; remove the line, and its"
        " item is made again"
      ) from error
    try:
      identity = key(record)
    except ValueError as error:
      raise ValueError(f"{path}, line {number}: {error}") from error
    if identity in records:
      raise ValueError(
        f"{path}, lines {numbers[identity]} and {number}: the same"
        f" {name(identity)}; remove one of them"
      )
    records[identity], numbers[identity] = record, number
    size += len(line) + 1
  return records, size
