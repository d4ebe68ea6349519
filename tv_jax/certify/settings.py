"""How much a certificate looks at."""

from typing import NamedTuple

import numpy as np


class Settings(NamedTuple):
  """How much to check."""

  vocabulary: int = 3
  cases: int = 27
  drafts: int = 1000  # where they are sampled
  dtype: type = np.float64
  seed: int = 0
  bound: bool = False  # whether to ask what any lossless rule could gain
  sampled: bool = False  # whether coins are tossed, thresholds not looked at


DEFAULT = Settings()
