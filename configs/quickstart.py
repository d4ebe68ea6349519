"""The paper's main table in minutes, with the bundled models, on any machine.

python -m tv_jax.main --config=configs/quickstart.py
python -m tv_jax.main --config=configs/quickstart.py:weak

The second is of a draft that agrees less. Expected: tokens gained a cycle, and
the traversal's gain in what is expected of the same drafts, ± standard errors
over 96 questions; from three seeds of benchmarks.minibench on 2026-11-22, a run
has one:

  draft       tree      token_level  traversal    same drafts
  draft       chain:5   3.98 ± 0.04  4.05 ± 0.04  +0.071 ± 0.007
  draft       kary:2x5  4.54 ± 0.04  4.60 ± 0.04  +0.059 ± 0.009
  draft       eagle     4.45 ± 0.03  4.51 ± 0.03  +0.058 ± 0.005
  draft_weak  chain:5   2.14 ± 0.03  2.18 ± 0.03  +0.040 ± 0.005
  draft_weak  kary:2x5  2.75 ± 0.04  2.78 ± 0.04  +0.035 ± 0.006
  draft_weak  eagle     2.83 ± 0.04  2.87 ± 0.04  +0.043 ± 0.005

The first took 4 1/2 minutes on two cores on 2026-11-22, one of them busy in the
first of these, from an empty compilation cache; most of it is to compile. What
`make run` asks of the weaker draft after it, chains alone, took 37 seconds.
"""

import ml_collections

from configs import common


def get_config(arg: str = "") -> ml_collections.ConfigDict:
  """The run, or with arg `weak` that of the weaker draft."""
  return common.bundled("quickstart", arg, timing={"stages": "first"})
