r"""Qwen3-8B and its drafts, as deepseek-ai publishes them with DeepSpec (MIT).

python -m tv_jax.main --config=configs/qwen3_8b.py          # the DSpark draft
python -m tv_jax.main --config=configs/qwen3_8b.py:dflash
python -m tv_jax.main --config=configs/qwen3_8b.py:eagle3

:smoke, :dflash_smoke and :eagle3_smoke run twelve questions with at most 64
tokens. The real pairs have not been run yet, so no expected numbers are known.
With random checkpoints in the same layouts it runs to the end
(tests/test_real_pairs.py). The target needs 16 GB in bfloat16; the draft and
the caches need more.

DSpark and DFlash draft a whole tree of at most seven levels in a single pass.
With --config.draft_stop=0.4 a DSpark draft expands only nodes of at least this
confidence (docs/decode.md). As in its authors' evaluation, Qwen3's template
turns thinking off; --config.models.template=chat turns it on.

The questions are Spec-Bench's; configs/llama3_1b_8b.py says where to get them.
With directories instead of the hub's names:

  --config.models.target=/path/8B --config.models.draft=/path

With little memory: --config.batch_size=4.
"""

import ml_collections

from configs import common

# By argument: the repository of deepseek-ai.
DRAFTS = {
  "": "dspark_qwen3_8b_block7",
  "dflash": "dflash_qwen3_8b_block7",
  "eagle3": "eagle3_qwen3_8b_ttt7",
}


def get_config(arg: str = "") -> ml_collections.ConfigDict:
  """The run of a draft; its argument may end in `smoke`: a short run."""
  name = arg.removesuffix("smoke").removesuffix("_")
  short = "smoke" if arg.endswith("smoke") else ""
  known = [*DRAFTS, "smoke", *(f"{draft}_smoke" for draft in DRAFTS if draft)]
  common.named("qwen3_8b", arg, known)
  return common.spec_bench(
    common.named("qwen3_8b", name, DRAFTS),
    short,
    models={
      "target": "Qwen/Qwen3-8B",
      "draft": f"deepseek-ai/{DRAFTS[name]}",
      "template": "without_thinking",
    },
  )
