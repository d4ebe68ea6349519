"""Which weights what goes through a model is multiplied with, and how they lie.

Checkpoints have them as PyTorch does, [out, in], and so they stay on a GPU. A
CPU takes less for a few tokens where they lie [in, out] (`benchmarks.cpu`):
what XLA calls there packs a matrix before it multiplies, and this way it has
less to move.

Letters as in decoder.py.
"""

from __future__ import annotations

from tv_jax.models.config import Config

# By the axes of a weight, as checkpoints have them, those that come out: a
# channel is one of these.
CHANNELS = {
  "GPCE": "GPC",
  "EGRC": "E",
  "F2E": "F2",
  "EF": "E",
  "EI": "E",
  "VE": "V",
}


def channels(name: str, axes: str, config: Config) -> str:
  """The axes of a parameter that come out of its product; none: it has none.

  An embedding that is not the unembedding too is looked up and nothing else.
  """
  looked_up = name == "embedding" and not config.tie_word_embeddings
  return "" if looked_up else CHANNELS.get(axes, "")


def order(name: str, axes: str, config: Config) -> str:
  """The axes of a parameter in the order in which they lie."""
  out = len(channels(name, axes, config))
  return axes[out:] + axes[:out] if config.turned else axes
