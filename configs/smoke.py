"""Everything that a run does, on a few questions: whether it works here.

python -m tv_jax.main --config=configs/smoke.py

Expected: tokens gained a cycle by item, ± standard errors over 16 questions,
and the traversal's gain in what is expected of the same drafts:

  tree      token_level  traversal    same drafts
  chain:2   2.77 ± 0.03  2.76 ± 0.04  +0.008 ± 0.007
  kary:2x2  2.83 ± 0.04  2.84 ± 0.04  +0.004 ± 0.008

Measured on 2026-11-21 on two cores that others kept busy, from an empty
compilation cache: 79 seconds, of which it computed for 52, most of that to
compile. With the cache that this leaves, a second run: 24 and 15.
"""

import ml_collections

from configs import common


def get_config(arg: str = "") -> ml_collections.ConfigDict:
  """The run, or with arg `weak` that of the weaker draft."""
  return common.bundled(
    "smoke",
    arg,
    tasks="translation qa",
    per_task=8,
    trees="chain:2 kary:2x2",
    max_new_tokens=48,
    timing={"stages": ""},
  )
