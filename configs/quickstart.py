"""The paper's main table in minutes, with the bundled models, on any machine.

python -m tv_jax.main --config=configs/quickstart.py
"""

import ml_collections

from configs import common


def get_config(arg: str = "") -> ml_collections.ConfigDict:
  """The run; no argument is known."""
  if arg:
    raise ValueError(f"config argument {arg!r}: quickstart takes none")
  return common.config(
    "quickstart",
    models={"target": "bundled/target", "draft": "bundled/draft"},
    exact_match=True,
    padded_to=128,
  )
