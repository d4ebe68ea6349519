"""Python that the bundled models go on with: the end of much entropy.

python -m tv_jax.main --config=configs/python_bundled.py

Beginnings of 24 functions of this repository, which no model was trained on,
as they are: no chat, no right answer. Tokens that each rule expects to gain a
cycle of the same drafts, by item, ± standard errors over 24 questions:

  tree      token_level  traversal    same drafts
  chain:5   1.91 ± 0.03  2.08 ± 0.04  +0.177 ± 0.018  +9.3 %
  kary:2x5  2.29 ± 0.03  2.49 ± 0.04  +0.196 ± 0.021  +8.5 %
  eagle     2.43 ± 0.03  2.63 ± 0.04  +0.203 ± 0.023  +8.4 %

Measured on 2026-11-22 by benchmarks.minibench --questions=python
--template=raw. With --config=configs/python_bundled.py:weak:

  chain:5   1.46 ± 0.01  1.54 ± 0.02  +0.083 ± 0.011  +5.7 %
"""

import ml_collections

from configs import common


def get_config(arg: str = "") -> ml_collections.ConfigDict:
  """The run; arg is a draft of `common.DRAFTS`."""
  return common.bundled(
    "python_bundled",
    arg,
    questions="python",
    exact_match=False,
    models={"template": "raw"},
    timing={"stages": ""},
  )
