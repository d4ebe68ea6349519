"""Rotary position embeddings (Su et al. 2021), as Hugging Face computes them.

A head's first half of channels is the real part, its second half the
imaginary part: not interleaved, as in Meta's own files.
"""

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.models.config import Config, LinearScaling, Llama3Scaling


def frequencies(config: Config) -> np.ndarray:
  """Radians per position of each pair of channels, [C / 2] float32.

  Bit for bit what the model was trained with, or nearly: the last bit of a
  frequency is a visible angle after a few hundred positions. So each step is
  rounded to float32, the power from float64 as PyTorch's comes out.
  """
  exponent = np.arange(0, config.head_dim, 2, dtype=np.float32)
  exponent /= np.float32(config.head_dim)
  power = np.float64(config.rope_theta) ** exponent.astype(np.float64)
  plain = np.float32(1) / power.astype(np.float32)
  match config.rope_scaling:
    case None:
      return plain
    case LinearScaling(factor=factor):
      return plain / np.float32(factor)
    case Llama3Scaling() as scaling:
      return _llama3(plain, scaling)


def _llama3(plain, scaling):
  """Wavelengths beyond the original context stretched, short ones kept."""
  # A number divided by a tensor is its reciprocal times the number there.
  wavelength = np.float32(1) / plain * np.float32(2 * np.pi)
  original = np.float32(scaling.original_max_position_embeddings)
  turns = np.float32(1) / wavelength * original
  low = np.float32(scaling.low_freq_factor)
  high = np.float32(scaling.high_freq_factor)
  kept = np.clip((turns - low) / (high - low), 0, 1)
  return (1 - kept) * plain / np.float32(scaling.factor) + kept * plain


def rotation(positions: jax.Array, frequency: np.ndarray) -> jax.Array:
  """Cosines and sines of `positions` [B, T], as [2, B, T, C / 2] float32."""
  angle = positions.astype(jnp.float32)[..., None] * frequency[None, None]
  return jnp.stack([jnp.cos(angle), jnp.sin(angle)])


def rotate(x: jax.Array, turn: jax.Array) -> jax.Array:
  """Rotates `x` [B, T, G, R, C] by `rotation`, in float32."""
  cos, sin = turn[:, :, :, None, None]
  real, imaginary = jnp.split(x.astype(jnp.float32), 2, axis=-1)
  return jnp.concatenate(
    [real * cos - imaginary * sin, imaginary * cos + real * sin], axis=-1
  ).astype(x.dtype)
