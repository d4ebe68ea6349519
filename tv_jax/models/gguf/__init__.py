"""GGUF files, read as directories in Hugging Face's layout are.

Weights are read tensor by tensor from the file itself; the configuration and
the tokenizer are made of its metadata.
"""

from tv_jax.models.gguf.config import read_config
from tv_jax.models.gguf.reader import SUFFIX, contents, is_file
from tv_jax.models.gguf.tokens import read_tokenizer

__all__ = [
  "SUFFIX",
  "contents",
  "is_file",
  "read_config",
  "read_tokenizer",
]
