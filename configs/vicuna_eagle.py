r"""Spec-Bench's own pair: Vicuna-7B-v1.3 and its EAGLE-1 head.

python -m tv_jax.main --config=configs/vicuna_eagle.py

and with configs/vicuna_eagle.py:smoke for twelve questions and short answers.
Both (lmsys/vicuna-7b-v1.3 and yuhuili/EAGLE-Vicuna-7B-v1.3) are published in
PyTorch's format, which needs the parity extra. Local copies are named with
--config.models.target and --config.models.draft.

Expected: NOT RUN BY THIS PROJECT. The paper's numbers (arXiv 2505.12398, its
table of statistical methods): tokens gained a cycle by item (in brackets by
token, Spec-Bench's way), and the speed-up over plain decoding.

  tree      token_level         traversal
  chain:5   2.51 (2.57)  1.77x  2.57 (2.63)  1.81x
  kary:2x5  3.04 (3.11)  1.87x  3.12 (3.22)  1.92x
  eagle     3.10 (3.18)  2.00x  3.16 (3.26)  2.04x

The paper gives neither the temperature nor the depths of this table; this
config has the values of its main table. The template is Vicuna's, as in
Spec-Bench.

The questions are Spec-Bench's; configs/llama3_1b_8b.py says where to get them.
With little memory: --config.batch_size=4.
"""

import ml_collections

from configs import common


def get_config(arg: str = "") -> ml_collections.ConfigDict:
  """The run, or with arg `smoke` a short one."""
  return common.spec_bench(
    "vicuna_eagle",
    arg,
    models={
      "target": "lmsys/vicuna-7b-v1.3",
      "draft": "yuhuili/EAGLE-Vicuna-7B-v1.3",
      "template": "vicuna",
    },
  )
