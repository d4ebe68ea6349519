"""The paper's main table in minutes, with the bundled models, on any machine.

python -m tv_jax.main --config=configs/quickstart.py
"""

import ml_collections

from configs import common


def get_config(arg: str = "") -> ml_collections.ConfigDict:
  """The run; no argument is known."""
  return common.bundled("quickstart", arg, timing={"stages": "chain:5"})
