"""Rotary position embeddings (Su et al. 2021), as Hugging Face computes them.

A head's first half of channels is the real part, its second half the
imaginary part: not interleaved, as in Meta's own files.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.edge.reading import brief
from tv_jax.models import fields


@dataclasses.dataclass(frozen=True, kw_only=True)
class LinearScaling:
  """Positions divided by `factor`."""

  factor: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class Llama3Scaling:
  """Low frequencies divided by `factor`, high ones kept, a ramp between."""

  factor: float
  low_freq_factor: float
  high_freq_factor: float
  original_max_position_embeddings: int


Scaling = LinearScaling | Llama3Scaling
SCALINGS = {"linear": LinearScaling, "llama3": Llama3Scaling}


def from_dict(raw: dict, faults: list[str]) -> tuple[float, Scaling | None]:
  """Theta and scaling of a config.json, in the newer or the older spelling.

  Args:
    raw: The parsed file.
    faults: Gets a line for each thing that is wrong.

  Returns:
    Theta, and None where frequencies are not scaled.
  """
  newer = fields.group(raw, "rope_parameters", faults)
  older = fields.group(raw, "rope_scaling", faults)
  if newer and older:
    faults.append("rope_parameters and rope_scaling are both given")
  values = newer or older
  thetas = {
    fields.number(place, "rope_theta", faults) for place in (newer, raw)
  } - {None}
  newer.pop("rope_theta", None)
  if len(thetas) > 1:
    faults.append(f"rope_theta is given twice: {sorted(thetas)}")
  theta = min(thetas, default=10000.0)

  kinds = [values.pop(name, None) for name in ("rope_type", "type")]
  kinds = [kind for kind in kinds if kind is not None] or ["default"]
  kind = kinds[0]
  if kinds[-1] != kind or kind not in ("default", *SCALINGS):
    faults.append(
      f"RoPE scaling {brief(kinds)} is not supported, only default, "
      f"{', '.join(SCALINGS)}"
    )
    return theta, None
  if kind == "default":
    if values:
      faults.append(f"unknown RoPE settings {brief(sorted(values))}")
    return theta, None
  return theta, _scaling(kind, values, faults)


def _scaling(kind, values, faults) -> Scaling | None:
  """A scaling with the numbers that it needs."""
  names = {field.name for field in dataclasses.fields(SCALINGS[kind])}
  if names != set(values):
    faults.append(
      f"RoPE scaling {kind!r} needs {sorted(names)}, got"
      f" {brief(sorted(values))}"
    )
    return None
  before = len(faults)
  numbers = {
    name: (fields.count if name.startswith("original") else fields.number)(
      values, name, faults
    )
    for name in values
  }
  faults += [f"{name} is missing" for name in values if values[name] is None]
  if len(faults) > before:
    return None
  scaling = SCALINGS[kind](**numbers)
  if isinstance(scaling, Llama3Scaling):
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    if low >= high:
      faults.append(f"low_freq_factor={low} must be below {high}, the high one")
  return scaling


def to_dict(scaling: Scaling | None) -> dict | None:
  """A config.json's `rope_scaling`, the spelling that all versions read."""
  if scaling is None:
    return None
  kinds = {scaling: kind for kind, scaling in SCALINGS.items()}
  return dataclasses.asdict(scaling) | {"rope_type": kinds[type(scaling)]}


def frequencies(
  theta: float, channels: int, scaling: Scaling | None
) -> np.ndarray:
  """Radians per position of each pair of channels, [C / 2] float32.

  Bit for bit what the model was trained with, or nearly: the last bit of a
  frequency is a visible angle after a few hundred positions. So each step is
  rounded to float32, the power from float64 as PyTorch's comes out.
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
  turn = jnp.stack([jnp.cos(angle), jnp.sin(angle)])
  # On a CPU fused with what each layer does for each head, and computed there.
  return jax.lax.platform_dependent(
    turn, cpu=jax.lax.optimization_barrier, default=lambda turn: turn
  )


def rotate(x: jax.Array, turn: jax.Array) -> jax.Array:
  """Rotates `x` [B, T, G, R, C] by `rotation`, in float32."""
  cos, sin = turn[:, :, :, None, None]
  real, imaginary = jnp.split(x.astype(jnp.float32), 2, axis=-1)
  return jnp.concatenate(
    [real * cos - imaginary * sin, imaginary * cos + real * sin], axis=-1
  ).astype(x.dtype)
