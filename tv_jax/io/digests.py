"""Digests of files and values: a run refuses a changed input by its name."""

from __future__ import annotations

import functools
import hashlib
import json
import pathlib

# A larger file is sampled: its beginning, where a GGUF file has its tokenizer,
# and evenly spread pieces.
WHOLE = 64 << 20
_PIECES, _PIECE = 4096, 4096


def of_value(value) -> str:
  """Returns the digest of a value that JSON can hold."""
  data = json.dumps(value, sort_keys=True).encode()
  return hashlib.sha256(data).hexdigest()[:16]


def of_file(path: pathlib.Path) -> str:
  """Returns the digest of a file, read again only if the file has changed."""
  status = path.stat()
  return _of_file(path, status.st_size, status.st_mtime_ns)


@functools.lru_cache
def _of_file(path: pathlib.Path, size: int, changed: int) -> str:
  del changed
  if path.suffix == ".json":  # layout makes no difference
    return of_value(json.loads(path.read_text(encoding="utf-8-sig")))
  with path.open("rb") as file:
    if size <= WHOLE:
      return hashlib.file_digest(file, "sha256").hexdigest()[:16]
    digest = hashlib.sha256(str(size).encode())
    digest.update(file.read(WHOLE))
    for piece in range(_PIECES):
      file.seek((size - _PIECE) * piece // (_PIECES - 1))
      digest.update(file.read(_PIECE))
  return digest.hexdigest()[:16]
