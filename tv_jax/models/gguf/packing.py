"""Packs the blocks of GGUF files into the words of `quantised.Form`s.

Codes and scales are moved, not computed with. Each type has a function from
blocks [.., bytes] to their float32 factors, the words of the signed scales if
there are any, and the words of the codes.
"""

import functools

import numpy as np

_NIBBLES, _PAIRS, _BITS = (
  np.uint32(x) for x in (0x0F0F0F0F, 0x03030303, 0x01010101)
)


def pack(kind: str, blocks: np.ndarray) -> np.ndarray:
  """Returns the words [.., W] of blocks [.., bytes] of a type in `FORMS`.

  Raises:
    FloatingPointError: If a factor is not finite.
  """
  factors, *rest = _TYPES[kind](blocks)
  if not np.isfinite(factors).all():
    raise FloatingPointError("float32")
  lead = blocks.shape[:-1]
  parts = [x.reshape(*lead, -1) for x in (factors.view(np.uint32), *rest)]
  return np.concatenate(parts, axis=-1)


def _words(x: np.ndarray) -> np.ndarray:
  return np.ascontiguousarray(x).view(np.uint32)


def _floats(x: np.ndarray) -> np.ndarray:
  return np.ascontiguousarray(x).view(np.float16).astype(np.float32)


def _shifted(x: np.ndarray, *by: int) -> np.ndarray:
  """Shifts words [.., n] right by several numbers of bits: [.., by, n]."""
  return x[..., None, :] >> np.array(by, np.uint32)[:, None]


def _halves(x: np.ndarray, each: int) -> np.ndarray:
  """Returns the lower halves of the bytes of `each` words, then the upper."""
  return _shifted(x.reshape(*x.shape[:-1], -1, each), 0, 4) & _NIBBLES


def _paired(x: np.ndarray, each: int) -> np.ndarray:
  """Returns such halves in pairs: columns i and i + 4 share a byte."""
  codes = _halves(x, each)
  return codes[..., 0::2] | codes[..., 1::2] << 4


def _four(factors: int, x):
  head, codes = np.split(x, [factors], axis=-1)
  return _floats(head), _paired(_words(codes), 4)


def _five(factors: int, x):
  head, high, low = np.split(x, [factors, factors + 4], axis=-1)
  four = _words(high) >> np.arange(0, 32, 4, dtype=np.uint32) & 15
  high = (four * 0x00204081 & _BITS) << 4  # spreads four bits over four bytes
  return _floats(head), _halves(_words(low), 4).reshape(high.shape) | high


def _eight(x):
  return _floats(x[..., :2]), _words(x[..., 2:]) ^ np.uint32(0x80808080)


def _k_head(x):
  """Returns the factors and scales of a block of Q4_K or Q5_K."""
  factors, scales = _floats(x[..., :4]), x[..., 4:16]
  factors[..., 1] *= -1
  # Six bits for each a and each b; the last third has the rest of both.
  a, b, rest = np.split(scales, 3, axis=-1)
  parts = a & 63, rest & 15 | a >> 2 & 48, b & 63, rest >> 4 | b >> 2 & 48
  return factors, _words(np.concatenate(parts, axis=-1))


def _four_k(x):
  return *_k_head(x), _paired(_words(x[..., 16:]), 8)


def _five_k(x):
  high = _shifted(_words(x[..., 16:48]), *range(8)) & _BITS
  low = _halves(_words(x[..., 48:]), 8).reshape(high.shape)
  return *_k_head(x), low | high << 4


def _six_k(x):
  low, high, scales, factor = np.split(x, [128, 192, 208], axis=-1)
  high = _words(high).reshape(*x.shape[:-1], 2, 8)
  high = _shifted(high, 0, 2, 4, 6) & _PAIRS
  low = _halves(_words(low), 16).reshape(high.shape)
  return _floats(factor), _words(scales), low | high << 4


_TYPES = {
  "Q4_0": functools.partial(_four, 2),
  "Q4_1": functools.partial(_four, 4),
  "Q5_0": functools.partial(_five, 2),
  "Q5_1": functools.partial(_five, 4),
  "Q8_0": _eight,
  "Q4_K": _four_k,
  "Q5_K": _five_k,
  "Q6_K": _six_k,
}
