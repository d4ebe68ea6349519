"""GGUF files, read as directories in Hugging Face's layout are.

Weights are read tensor by tensor, from the file itself; the layout's small
files are made of its metadata.
"""

from tv_jax.models.gguf import config, reader, tokens
from tv_jax.models.gguf.reader import SUFFIX, contents, is_one, spans

_OBJECTS = {
  "config.json": config.config,
  "generation_config.json": lambda file: {"eos_token_id": config.ends(file)},
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
  return _OBJECTS[name](reader.read(path)) if name in _OBJECTS else None


__all__ = ["FILES", "SUFFIX", "contents", "is_one", "json_object", "spans"]
