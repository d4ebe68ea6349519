"""A strong real pair on a laptop: Qwen2.5-Coder, 0.5B drafting for 1.5B.

python -m tv_jax.main --config=configs/qwen2_coder.py

reads Qwen/Qwen2.5-Coder-1.5B-Instruct and Qwen/Qwen2.5-Coder-0.5B-Instruct from
the hub (4 GB; they have the same tokens). For two GGUF files of four bits
(1.6 GB), as in docs/measurements:

hf download Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF \
  qwen2.5-coder-1.5b-instruct-q4_k_m.gguf --local-dir models/qwen2_coder
hf download Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF \
  qwen2.5-coder-0.5b-instruct-q4_k_m.gguf --local-dir models/qwen2_coder

name the first target.gguf and the second draft.gguf, then run

python -m tv_jax.main --config=configs/qwen2_coder.py:gguf
python -m tv_jax.main --config=configs/qwen2_coder.py:paper
python -m tv_jax.main --config=configs/qwen2_coder.py:greedy

`paper` is the paper's main table on Spec-Bench (where to get its questions:
configs/smollm2.py), `greedy` is temperature 0; both read the two files. These
need 3 GB of memory with a C++ compiler; the hub's models need 10 GB.
"""

import ml_collections

from configs import common

FILES = {
  "models.target": "models/qwen2_coder/target.gguf",
  "models.draft": "models/qwen2_coder/draft.gguf",
}
VARIANTS = {
  "gguf": FILES,
  "paper": common.PAPER | FILES,
  "greedy": common.GREEDY | FILES,
}


def get_config(arg: str = "") -> ml_collections.ConfigDict:
  """The run, or with an argument one that differs as `VARIANTS` says."""
  models = {
    "target": "Qwen/Qwen2.5-Coder-1.5B-Instruct",
    "draft": "Qwen/Qwen2.5-Coder-0.5B-Instruct",
  }
  return common.laptop("qwen2_coder", arg, VARIANTS, models)
