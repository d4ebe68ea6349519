"""Python that the bundled models go on with: the end of much entropy.

python -m tv_jax.main --config=configs/python_bundled.py

Beginnings of 24 functions of this repository, which no model was trained on,
as they are: no chat, no right answer. Expected: tokens gained a cycle by item,
± standard errors over 24 questions, and the traversal's gain in what is
expected of the same drafts:

TABLE
"""

import ml_collections

from configs import common


def get_config(arg: str = "") -> ml_collections.ConfigDict:
  """The run; no argument is known."""
  return common.bundled(
    "python_bundled",
    arg,
    questions="python",
    exact_match=False,
    models={"template": "raw"},
    timing={"stages": ""},
  )
