"""tv_jax: lossless verification in speculative tree decoding, in JAX.

- `load` and `generate`: prompts in, tokens out; `stream` for one prompt.
- `certify`: is a rule, a proposal or any sampler lossless?
- `record`: a run that keeps every cycle, for `replay` under any rule. It and
  `tune` take the options of `generate` as `Options`.
- `frame`: a run as a DataFrame, with a row for each cycle.
- `tune`: the best tree for a pair and a machine.
- `distill`: a draft for a target; `distill.score` says how good it is.
- `tree`, `proposals` and `verifiers`: what `generate` takes by name.
"""

from tv_jax import (
  certify,
  distill,
  drafting,
  engine,
  models,
  proposals,
  replay,
  runs,
  tree,
  tune,
  verifiers,
)
from tv_jax.engine.config import Options
from tv_jax.engine.generate import generate, stream
from tv_jax.engine.pair import load
from tv_jax.replay.recording import record
from tv_jax.runs.frame import frame

__version__ = "0.1.0.dev0"

__all__ = [
  "Options",
  "certify",
  "distill",
  "drafting",
  "engine",
  "frame",
  "generate",
  "load",
  "models",
  "proposals",
  "record",
  "replay",
  "runs",
  "stream",
  "tree",
  "tune",
  "verifiers",
]
