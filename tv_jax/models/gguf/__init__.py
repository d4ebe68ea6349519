"""Reads GGUF files like directories in Hugging Face's layout.

Weights are read tensor by tensor. The configuration and the tokenizer are made
from the file's metadata.
"""

from tv_jax.models.gguf.config import read_config
from tv_jax.models.gguf.reader import SUFFIX, File, contents, is_file, read
from tv_jax.models.gguf.tokens import read_tokenizer

__all__ = [
  "SUFFIX",
  "File",
  "contents",
  "is_file",
  "read",
  "read_config",
  "read_tokenizer",
]
