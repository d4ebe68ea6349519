"""Packs the blocks of GGUF files into the words of `quantised.Form`s.

The codes and scales are moved, not computed with. Functions take a type's
blocks as bytes [.., bytes] and return words of 32 bits: the float32 factors of
a block, the signed scales if it has any, and the codes.
"""

import numpy as np

_NIBBLES, _PAIRS, _BITS = (
  np.uint32(x) for x in (0x0F0F0F0F, 0x03030303, 0x01010101)
)
_SIGN = np.uint32(1 << 31)


def pack(kind: str, blocks: np.ndarray) -> np.ndarray:
  """Returns the words [.., W] of blocks [.., bytes] of a type in `FORMS`.

  Raises:
    FloatingPointError: If a factor is not finite.
  """
  factors, scales, codes = _PARTS[kind](blocks)
  if not np.isfinite(factors).all():
    raise FloatingPointError
  parts = factors.view(np.uint32), scales, codes
  lead = blocks.shape[:-1]
  return np.concatenate([x.reshape(*lead, -1) for x in parts], axis=-1)


def _words(x: np.ndarray) -> np.ndarray:
  return np.ascontiguousarray(x).view(np.uint32)


def _floats(x: np.ndarray) -> np.ndarray:
  return np.ascontiguousarray(x).view(np.float16).astype(np.float32)


def _nothing(x: np.ndarray) -> np.ndarray:
  return np.empty((*x.shape[:-1], 0), np.uint32)


def _halves(x: np.ndarray, each: int) -> np.ndarray:
  """Splits bytes into their lower and upper halves, one code in each byte.

  Of each `each` words [.., each] the lower halves come first.
  """
  x = x.reshape(*x.shape[:-1], -1, 1, each)
  return x >> np.array([[0], [4]], np.uint32) & _NIBBLES


def _paired(x: np.ndarray, each: int) -> np.ndarray:
  """Likewise, but with two codes in each byte: columns i and i + 4."""
  codes = _halves(x, each)
  return codes[..., 0::2] | codes[..., 1::2] << 4


def _fifth(x: np.ndarray) -> np.ndarray:
  """Spreads 32 bits [.., 1] to bit 4 of bytes, as words [.., 8]."""
  four = x >> np.arange(0, 32, 4, dtype=np.uint32) & 15
  return (four * 0x00204081 & _BITS) << 4


def _q4_0(x):
  return _floats(x[..., :2]), _nothing(x), _paired(_words(x[..., 2:]), 4)


def _q4_1(x):
  return _floats(x[..., :4]), _nothing(x), _paired(_words(x[..., 4:]), 4)


def _q5_0(x):
  high, low = _fifth(_words(x[..., 2:6])), _halves(_words(x[..., 6:]), 4)
  return _floats(x[..., :2]), _nothing(x), low.reshape(high.shape) | high


def _q5_1(x):
  high, low = _fifth(_words(x[..., 4:8])), _halves(_words(x[..., 8:]), 4)
  return _floats(x[..., :4]), _nothing(x), low.reshape(high.shape) | high


def _q8_0(x):
  codes = _words(x[..., 2:]) ^ np.uint32(0x80808080)
  return _floats(x[..., :2]), _nothing(x), codes


def _k_head(x):
  """Returns the factors and scales of a block of Q4_K or Q5_K."""
  factors, s = _floats(x[..., :4]), x[..., 4:16]
  factors[..., 1] *= -1
  low, high, both = s[..., :4], s[..., 4:8], s[..., 8:]
  parts = (
    low & 63,
    both & 15 | low >> 2 & 48,
    high & 63,
    both >> 4 | high >> 2 & 48,
  )
  return factors, _words(np.concatenate(parts, axis=-1))


def _q4_k(x):
  return *_k_head(x), _paired(_words(x[..., 16:]), 8)


def _q5_k(x):
  low = _halves(_words(x[..., 48:]), 8).reshape(*x.shape[:-1], 8, 8)
  shifts = np.arange(8, dtype=np.uint32)[:, None]
  high = _words(x[..., None, 16:48]) >> shifts & _BITS
  return *_k_head(x), low | high << 4


def _q6_k(x):
  lead = x.shape[:-1]
  low = _words(x[..., :128]).reshape(*lead, 2, 1, 16)
  low = low >> np.array([[0], [4]], np.uint32) & _NIBBLES
  high = _words(x[..., 128:192]).reshape(*lead, 2, 1, 8)
  high = high >> np.array([[0], [2], [4], [6]], np.uint32) & _PAIRS
  codes = low.reshape(*lead, 2, 4, 8) | high << 4
  return _floats(x[..., 208:]), _words(x[..., 192:208]), codes


_PARTS = {
  "Q4_0": _q4_0,
  "Q4_1": _q4_1,
  "Q5_0": _q5_0,
  "Q5_1": _q5_1,
  "Q8_0": _q8_0,
  "Q4_K": _q4_k,
  "Q5_K": _q5_k,
  "Q6_K": _q6_k,
}
