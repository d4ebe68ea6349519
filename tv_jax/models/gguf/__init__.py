"""GGUF files, read as directories in Hugging Face's layout are.

Weights are read tensor by tensor, from the file itself; the layout's small
files are made of its metadata. The gguf package is imported where a tensor is
first read.
"""

import os

from tv_jax.models.gguf import about, header, tokens, weights

SUFFIX = ".gguf"


def is_one(place) -> bool:
  """Returns whether a place is a GGUF file's, there or not."""
  return (
    isinstance(place, str | os.PathLike)
    and os.fspath(place).endswith(SUFFIX)
    and not os.path.isdir(place)
  )


def _ends(path) -> dict:
  return {"eos_token_id": about.ends(header.read(path))}


_OBJECTS = {
  "config.json": about.config,
  "generation_config.json": _ends,
  "tokenizer.json": tokens.tokenizer,
  "tokenizer_config.json": tokens.settings,
}
FILES = tuple(_OBJECTS)


def json_object(path, name: str) -> dict | None:
  """Returns what one of the layout's files would hold; None if it has none.

  Args:
    path: The GGUF file.
    name: The other's; one of `FILES`, or any other, of which there is none.

  Raises:
    ValueError: In one line, what is wrong with it.
  """
  return _OBJECTS[name](path) if name in _OBJECTS else None


def spans(path) -> list[tuple[int, int]]:
  """Returns where each tensor begins in a file, and where the next one does."""
  own = header.read(path)
  begins = sorted(min(one.begin, own.bytes) for one in own.tensors.values())
  return [*zip(begins, [*begins[1:], own.bytes], strict=False)]


contents, read = weights.contents, weights.read

__all__ = [
  "FILES",
  "SUFFIX",
  "contents",
  "is_one",
  "json_object",
  "read",
  "spans",
]
