"""The paper's main table in minutes, with the bundled models, on any machine.

python -m tv_jax.main --config=configs/quickstart.py
python -m tv_jax.main --config=configs/quickstart.py:weak
python -m tv_jax.main --config=configs/quickstart.py:eagle
python -m tv_jax.main --config=configs/quickstart.py:eagle3
python -m tv_jax.main --config=configs/quickstart.py:dspark

`weak` is a draft that agrees less with the target; the others read the target's
features, and are of three kinds. Expected: tokens gained per cycle in each
rule's run, and the traversal's gain on the same drafts, ± standard errors over
96 questions. A run has one seed; these numbers have three (docs/results.md,
2026-11-29).

  draft       tree      token_level  traversal    same drafts
  draft       chain:5   4.06 ± 0.04  4.11 ± 0.04  +1.7 ± 0.2 %
  draft       kary:2x5  4.58 ± 0.04  4.65 ± 0.05  +1.4 ± 0.2 %
  draft       eagle     4.48 ± 0.04  4.57 ± 0.04  +1.5 ± 0.1 %
  draft_weak  chain:5   2.17 ± 0.03  2.21 ± 0.03  +1.9 ± 0.2 %
  draft_weak  kary:2x5  2.74 ± 0.04  2.80 ± 0.04  +1.4 ± 0.2 %
  draft_weak  eagle     2.84 ± 0.04  2.85 ± 0.04  +1.2 ± 0.2 %
  eagle       chain:5   3.67 ± 0.04  3.81 ± 0.05  +2.2 ± 0.2 %
  eagle       kary:2x5  4.41 ± 0.05  4.48 ± 0.05  +1.5 ± 0.2 %
  eagle       eagle     4.28 ± 0.04  4.36 ± 0.04  +1.6 ± 0.1 %

The expected chain lengths of `eagle3` and `dspark` are in their cards
(tv_jax/assets/bundled).

`make run` is the first command, and chains alone with `weak`. It took 2 min
16 s on 2026-11-24, from an empty compilation cache, on two idle cores.
"""

import ml_collections

from configs import common


def get_config(arg: str = "") -> ml_collections.ConfigDict:
  """The run; arg is a draft of `common.DRAFTS`."""
  return common.bundled("quickstart", arg)
