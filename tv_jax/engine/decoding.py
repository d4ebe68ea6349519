"""The decoding engine: prefill, and cycles of draft, score, verify, commit."""

from tv_jax.engine.plan import (
  Caches,
  Params,
  Plan,
  Records,
  Request,
  Seat,
  Speculation,
  State,
)
from tv_jax.engine.program import (
  CAPTURE,
  COMPILING,
  advance,
  compile,
  generate,
  prefill,
  seat,
  shapes_of,
  vacant,
)
from tv_jax.engine.stages import (
  commit,
  cycle,
  draft,
  observe,
  plain,
  score,
  verify,
)
from tv_jax.engine.trace import Trace

__all__ = [
  "CAPTURE",
  "COMPILING",
  "Caches",
  "Params",
  "Plan",
  "Records",
  "Request",
  "Seat",
  "Speculation",
  "State",
  "Trace",
  "advance",
  "commit",
  "compile",
  "cycle",
  "draft",
  "generate",
  "observe",
  "plain",
  "prefill",
  "score",
  "seat",
  "shapes_of",
  "vacant",
  "verify",
]
