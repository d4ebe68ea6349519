r"""Llama-3.1-8B and its EAGLE-3 head, as SafeAILab publishes it.

python -m tv_jax.main --config=configs/llama3_eagle3.py \
  --config.models.target=/path/8B --config.models.draft=/path/eagle3

and with configs/llama3_eagle3.py:smoke for twelve questions and short answers.
The real pair has not been run yet, so no expected numbers are known. With
random checkpoints in the same layout it runs to the end
(tests/test_real_pairs.py).

The head (yuhuili/EAGLE3-LLaMA3.1-Instruct-8B) is a PyTorch .bin file, which
needs the parity extra.

The head knows 32,000 of the 128,256 tokens and never drafts the others; the
target's distribution is preserved nevertheless. The head has one layer, and
reads the outputs of three of the target's layers (docs/decode.md).

The questions are Spec-Bench's; configs/llama3_1b_8b.py says where to get them.
With little memory: --config.batch_size=4.
"""

import ml_collections

from configs import common


def get_config(arg: str = "") -> ml_collections.ConfigDict:
  """The run, or with arg `smoke` a short one."""
  return common.spec_bench(
    "llama3_eagle3",
    arg,
    models={
      "target": "meta-llama/Llama-3.1-8B-Instruct",
      "draft": "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B",
    },
  )
