r"""The paper's second pair: Llama-68M and Llama-2-7B.

python -m tv_jax.main --config=configs/llama2_68m_7b.py
python -m tv_jax.main --config=configs/llama2_68m_7b.py:smoke

The second asks twelve questions with short answers. Expected: NOT RUN BY THIS
PROJECT. The paper's numbers (arXiv 2505.12398, its main table of this pair, at
temperature 1, on one RTX A6000): tokens gained a cycle by item, and tokens a
second at batch 1, where plain decoding has 37.3.

  tree      token_level  traversal    Delta   tokens/s
  chain:5   1.99 ± 0.01  2.10 ± 0.01  +5.7%   58.0  60.8
  kary:2x5  2.44 ± 0.03  2.56 ± 0.01  +4.9%   59.4  61.6
  eagle     2.52 ± 0.01  2.62 ± 0.01  +3.8%   69.1  71.2

The numbers of each task are in experiments/paper.csv. The target is a base
model without a chat template. Like Spec-Bench, this config uses Vicuna's.

The questions are Spec-Bench's; configs/llama3_1b_8b.py says where to get them.
The target is gated: ask for access on its page at huggingface.co, then `hf auth
login`. The draft's weights are in PyTorch's format, which needs the parity
extra. For a local copy of the target:

  --config.models.target=/path/7B

With little memory: --config.batch_size=4.
"""

import ml_collections

from configs import common


def get_config(arg: str = "") -> ml_collections.ConfigDict:
  """The run, or with arg `smoke` a short one."""
  return common.spec_bench(
    "llama2_68m_7b",
    arg,
    models={
      "target": "meta-llama/Llama-2-7b-hf",
      "draft": "JackFram/llama-68m",
      "template": "vicuna",
    },
  )
