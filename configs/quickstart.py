"""The paper's main table in minutes, with the bundled models, on any machine.

python -m tv_jax.main --config=configs/quickstart.py

Expected: tokens gained a cycle by item, ± standard errors over 96 questions,
and the traversal's gain in what is expected of the same drafts:

  tree      token_level  traversal    same drafts
  chain:5   4.60 ± 0.09  4.61 ± 0.08  +0.039 ± 0.010
  kary:2x5  5.15 ± 0.06  5.13 ± 0.06  +0.033 ± 0.012
  eagle     4.91 ± 0.06  4.97 ± 0.06  +0.026 ± 0.006

Measured on 2026-11-21 on two cores of a busy machine, from an empty compilation
cache: just under 3 minutes, most of them to compile.
"""

import ml_collections

from configs import common


def get_config(arg: str = "") -> ml_collections.ConfigDict:
  """The run, or with arg `weak` that of the weaker draft."""
  return common.bundled("quickstart", arg, timing={"stages": "first"})
