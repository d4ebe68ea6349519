"""Rotary position embeddings (Su et al. 2021), as Hugging Face computes them.

The first half of a head's channels is the real part, the second half the
imaginary part. Meta's files interleave them instead.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.io import checks
from tv_jax.io.errors import UserError
from tv_jax.io.reading import brief


@dataclasses.dataclass(frozen=True, kw_only=True)
class LinearScaling:
  """Divides positions by `factor`."""

  factor: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Llama3Scaling:
  """Divides low frequencies by `factor`, with a ramp to unchanged high ones."""

  factor: float
  low_freq_factor: float
  high_freq_factor: float
  original_max_position_embeddings: int


Scaling = LinearScaling | Llama3Scaling
SCALINGS = {"linear": LinearScaling, "llama3": Llama3Scaling}
_KINDS = {float: checks.number(0), int: checks.integer(1)}


def from_dict(raw: dict) -> tuple[float, Scaling | None]:
  """Reads theta and scaling from a config.json, in both spellings.

  Args:
    raw: The parsed file, without null attributes.

  Returns:
    Theta, and the scaling or None.
  """
  if raw.get("rope_parameters") and raw.get("rope_scaling"):
    raise UserError("rope_parameters and rope_scaling are both given")
  values = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
  values = dict(checks.mapping(values, "rope_scaling"))
  theta = values.pop("rope_theta", None) or raw.get("rope_theta", 10000.0)
  theta = checks.number(0)(theta, "rope_theta")
  kind = values.pop("rope_type", values.pop("type", "default"))
  if kind not in ("default", *SCALINGS):
    raise UserError(
      f"RoPE scaling {brief(kind)} is not supported, only default, "
      f"{', '.join(SCALINGS)}"
    )
  cls = SCALINGS.get(kind)
  fields = dataclasses.fields(cls) if cls else ()
  kinds = {field.name: _KINDS[field.type] for field in fields}
  if set(kinds) != set(values):
    raise UserError(
      f"RoPE scaling {kind!r} needs {sorted(kinds)}, got"
      f" {brief(sorted(values))}"
    )
  numbers = checks.fields(kinds)(values)
  return theta, cls(**numbers) if cls else None


def to_dict(scaling: Scaling | None) -> dict | None:
  """Returns `rope_scaling`, as any version of transformers reads it."""
  if scaling is None:
    return None
  kinds = {scaling: kind for kind, scaling in SCALINGS.items()}
  return dataclasses.asdict(scaling) | {"rope_type": kinds[type(scaling)]}


def frequencies(
  theta: float, channels: int, scaling: Scaling | None
) -> np.ndarray:
  """Returns the radians per position of each pair of channels, [C / 2].

  Each step is rounded to float32, as in PyTorch, and the power from float64:
  after a few hundred positions, a frequency's last bit is a visible angle.
  """
  exponent = np.arange(0, channels, 2, dtype=np.float32)
  exponent /= np.float32(channels)
  power = np.float64(theta) ** exponent.astype(np.float64)
  plain = np.float32(1) / power.astype(np.float32)
  match scaling:
    case None:
      return plain
    case LinearScaling(factor=factor):
      return plain / np.float32(factor)
    case Llama3Scaling():
      return _llama3(plain, scaling)


def _llama3(plain, scaling):
  """Stretches wavelengths that exceed the original context."""
  # PyTorch divides a number by a tensor as the reciprocal times the number.
  wavelength = np.float32(1) / plain * np.float32(2 * np.pi)
  original = np.float32(scaling.original_max_position_embeddings)
  cycles = np.float32(1) / wavelength * original
  low = np.float32(scaling.low_freq_factor)
  high = np.float32(scaling.high_freq_factor)
  kept = np.clip((cycles - low) / (high - low), 0, 1)
  return (1 - kept) * plain / np.float32(scaling.factor) + kept * plain


def rotation(positions: jax.Array, frequency: np.ndarray) -> jax.Array:
  """Returns cosines and sines of `positions` [B, T], as [2, B, T, C / 2]."""
  angle = positions.astype(jnp.float32)[..., None] * frequency[None, None]
  return jnp.stack([jnp.cos(angle), jnp.sin(angle)])


def rotate(x: jax.Array, rotation: jax.Array) -> jax.Array:
  """Rotates `x` [B, T, G, R, C] by the output of `rotation`, in float32."""
  cos, sin = rotation[:, :, :, None, None]
  real, imaginary = jnp.split(x.astype(jnp.float32), 2, axis=-1)
  return jnp.concatenate(
    [real * cos - imaginary * sin, imaginary * cos + real * sin], axis=-1
  ).astype(x.dtype)
