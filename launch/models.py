"""Models as far as their size goes, from config.json or from what is published.

Nothing here imports jax: a launcher reckons with what it has never loaded.
"""

from __future__ import annotations

import functools
import os
import pathlib
from collections.abc import Callable
from typing import NamedTuple

from tv_jax.edge import reading
from tv_jax.edge.reading import brief
from tv_jax.engine import extents

DTYPES = ("float32", "bfloat16", "float16")
INT8 = "int8"  # asked for, never stored
# Numbers in a layer beside a Llama's, by model_type: norms of C channels.
NORMS = {"llama": 0, "qwen3": 2}
# Draft kinds: whether the draft is a head on the target's features.
HEADS = {"independent": False, "eagle": True}


class Model(NamedTuple):
  """What config.json says of a model, as far as its size depends on it."""

  model_type: str
  vocab_size: int
  hidden_size: int
  intermediate_size: int
  num_hidden_layers: int
  num_attention_heads: int
  num_key_value_heads: int
  head_dim: int
  tie_word_embeddings: bool
  dtype: str
  quantised: bool = False

  @property
  def layer(self) -> int:
    """Bytes of a layer's parameters, but for its norms of E."""
    E, C, F = self.hidden_size, self.head_dim, self.intermediate_size
    heads, groups = self.num_attention_heads, self.num_key_value_heads
    norms = NORMS[self.model_type] * C * extents.itemsize(self.dtype)
    return norms + sum(
      self.matrix(*shape)
      for shape in (
        ((heads + 2 * groups) * C, E),
        (E, heads * C),
        (2 * F, E),
        (E, F),
      )
    )

  def matrix(self, rows: int, columns: int) -> int:
    """Bytes of one that is multiplied with: of eight bits, a scale a row."""
    if self.quantised:
      return rows * (columns + 4)
    return rows * columns * extents.itemsize(self.dtype)

  @property
  def weights(self) -> int:
    """Bytes of all parameters."""
    E, V, size = self.hidden_size, self.vocab_size, extents.itemsize(self.dtype)
    looked_up = 0 if self.tie_word_embeddings else V * E * size
    layers = self.num_hidden_layers * (self.layer + 2 * E * size)
    return looked_up + self.matrix(V, E) + E * size + layers

  @property
  def head(self) -> int:
    """Bytes of the parameters that are an EAGLE head's own."""
    E = self.hidden_size
    biased = 2 * E * extents.itemsize(self.dtype)  # and a norm
    return self.matrix(E, 2 * E) + biased + self.layer


def _llama(V, E, F, layers, heads, groups, dtype, tied=False) -> Model:
  """A Llama whose heads are as wide together as it is."""
  shape = (V, E, F, layers, heads, groups, E // heads)
  return Model("llama", *shape, tied, dtype)


# Of each repository that configs/ names, its own config.json
# (huggingface.co/NAME/blob/main/config.json); tests count the parameters.
PUBLISHED = {
  "meta-llama/Llama-3.1-8B-Instruct": _llama(
    128256, 4096, 14336, 32, 32, 8, "bfloat16"
  ),
  "meta-llama/Llama-3.2-1B-Instruct": _llama(
    128256, 2048, 8192, 16, 32, 8, "bfloat16", tied=True
  ),
  "meta-llama/Llama-2-7b-hf": _llama(32000, 4096, 11008, 32, 32, 32, "float16"),
  "JackFram/llama-68m": _llama(32000, 768, 3072, 2, 12, 12, "float32"),
  "lmsys/vicuna-7b-v1.3": _llama(32000, 4096, 11008, 32, 32, 32, "float16"),
  "yuhuili/EAGLE-Vicuna-7B-v1.3": _llama(
    32000, 4096, 11008, 1, 32, 32, "float16"
  ),
}


def once(function: Callable) -> Callable:
  """Remembers what came of each argument, an error too."""

  @functools.cache
  def tried(*arguments, **options):
    try:
      return function(*arguments, **options), None
    except ValueError as error:
      return None, str(error)

  @functools.wraps(function)
  def remembered(*arguments, **options):
    found, reason = tried(*arguments, **options)
    if reason is not None:
      raise ValueError(reason)
    return found

  return remembered


@once
def pair(target: str, draft: str, kind: str, dtype: str) -> tuple:
  """Both models, in the dtypes that they are loaded in."""
  if kind not in HEADS:
    raise ValueError(f"what a draft of kind {kind!r} takes is not known")
  first, second = _model(target), _model(draft)
  if HEADS[kind] and {first.model_type, second.model_type} != {"llama"}:
    raise ValueError("EAGLE heads are known on Llamas alone")
  first = _as_wanted(first, dtype)
  if HEADS[kind]:  # it has its target's
    return first, second._replace(dtype=first.dtype, quantised=first.quantised)
  return first, _as_wanted(second, dtype)


def _as_wanted(model: Model, dtype: str) -> Model:
  if dtype == INT8:
    return model._replace(quantised=True)
  return model._replace(dtype=dtype or model.dtype)


def _model(name: str) -> Model:
  """A model in a folder, or one that is published."""
  place = os.path.expanduser(reading.place_of(name))
  if os.path.isdir(place):
    return read(pathlib.Path(place, "config.json"))
  if name not in PUBLISHED:
    raise ValueError(
      f"the shape of {brief(name)} is not known: it is no folder here, and none"
      " of the models that configs/ names"
    )
  return PUBLISHED[name]


def read(path: pathlib.Path) -> Model:
  """What a config.json says; what is missing means what it always does."""
  raw = reading.json_object(path)
  if raw.get("model_type") not in [*NORMS]:
    kind = brief(raw.get("model_type"))
    raise ValueError(f"{path}: the size of a model_type={kind} is not known")

  def count(name, default=None):
    value = raw.get(name)
    value = default if value is None else value
    if type(value) is not int or value < 1:
      raise ValueError(f"{path}: {name}={brief(value)} is no size")
    return value

  width, heads = count("hidden_size"), count("num_attention_heads")
  dtypes = (raw.get("dtype"), raw.get("torch_dtype"), "float32")
  dtype = next(one for one in dtypes if one is not None)
  if dtype not in DTYPES:
    raise ValueError(f"{path}: dtype={brief(dtype)} is not known")
  return Model(
    model_type=raw["model_type"],
    vocab_size=count("vocab_size"),
    hidden_size=width,
    intermediate_size=count("intermediate_size"),
    num_hidden_layers=count("num_hidden_layers"),
    num_attention_heads=heads,
    num_key_value_heads=count("num_key_value_heads", heads),
    head_dim=count("head_dim", width // heads),
    tie_word_embeddings=bool(raw.get("tie_word_embeddings")),
    dtype=dtype,
  )
