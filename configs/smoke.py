"""All steps of a run on a few questions, to see that it works here.

python -m tv_jax.main --config=configs/smoke.py

Expected: tokens gained per cycle by item, ± standard errors over 16 questions,
and the traversal's gain on the same drafts:

  tree      token_level  traversal    same drafts
  chain:2   2.49 ± 0.05  2.43 ± 0.05  +0.003 ± 0.002
  kary:2x2  2.65 ± 0.04  2.65 ± 0.04  +0.007 ± 0.005

Measured on 2026-11-22 on two busy cores, without a compilation cache: 92
seconds, most of them for compilation.
"""

import ml_collections

from configs import common


def get_config(arg: str = "") -> ml_collections.ConfigDict:
  """The run; arg is a draft of `common.DRAFTS`."""
  return common.bundled(
    "smoke",
    arg,
    tasks="translation qa",
    per_task=8,
    trees="chain:2 kary:2x2",
    max_new_tokens=48,
  )
