"""The bundled models continue Python code: a task of high entropy.

python -m tv_jax.main --config=configs/python_bundled.py

The prompts are the beginnings of 24 functions of this repository, on which no
model was trained, without a chat template or reference answers. Expected:
tokens gained per cycle in each rule's run, and the traversal's gain on the same
drafts, ± standard errors over 24 questions, measured on 2026-11-27
(docs/measurements/2026-11-27-python.md):

  tree      token_level  traversal    same drafts
  chain:5   1.85 ± 0.04  2.00 ± 0.04  +0.170 ± 0.014  +9.31 ± 0.74 %
  kary:2x5  2.29 ± 0.04  2.49 ± 0.06  +0.187 ± 0.027  +8.14 ± 1.11 %
  eagle     2.42 ± 0.03  2.60 ± 0.05  +0.174 ± 0.021  +7.25 ± 0.85 %

With --config=configs/python_bundled.py:weak:

  chain:5   1.46 ± 0.02  1.55 ± 0.03  +0.081 ± 0.011  +5.55 ± 0.75 %
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
  )
