r"""The paper's main pair: Llama-3.2-1B-Instruct and Llama-3.1-8B-Instruct.

python -m tv_jax.main --config=configs/llama3_1b_8b.py
python -m tv_jax.main --config=configs/llama3_1b_8b.py:smoke

The second asks twelve questions with short answers. Expected: NOT RUN BY THIS
PROJECT. The paper's numbers (arXiv 2505.12398, its main table of this pair, at
temperature 1, on one RTX A6000): tokens gained a cycle by item, and tokens a
second at batch 1, where plain decoding has 34.5.

  tree      token_level  traversal    Delta   tokens/s
  chain:5   3.88 ± 0.02  3.99 ± 0.01  +2.8%   51.2  52.5
  kary:2x5  4.63 ± 0.03  4.73 ± 0.01  +2.2%   54.0  54.9
  eagle     4.49 ± 0.02  4.60 ± 0.02  +2.4%   57.3  58.5

The numbers of each task are in experiments/paper.csv. The paper does not name
its chat template; this config uses the models' template.

The questions are Spec-Bench's, expected below the current directory:

  curl -L --create-dirs -o data/spec_bench/question.jsonl \
    https://raw.githubusercontent.com/hemingkx/Spec-Bench/main/data/spec_bench/question.jsonl

or --config.questions=spec_bench:/path/question.jsonl. The checkpoints are
gated: ask for access on both pages at huggingface.co, then `hf auth login`. Or
give local directories:

  --config.models.target=/path/8B --config.models.draft=/path/1B

With little memory: --config.batch_size=4. The paper's other tables and its
figure are experiments of this config: docs/reproduce.md.
"""

import ml_collections

from configs import common


def get_config(arg: str = "") -> ml_collections.ConfigDict:
  """The run, or with arg `smoke` a short one."""
  return common.spec_bench(
    "llama3_1b_8b",
    arg,
    models={
      "target": "meta-llama/Llama-3.1-8B-Instruct",
      "draft": "meta-llama/Llama-3.2-1B-Instruct",
    },
  )
