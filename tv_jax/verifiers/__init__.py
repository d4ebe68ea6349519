"""Verification rules: what of a drafted tree is kept, and what comes next.

Each rule is a pure function for ONE tree; `vmap` makes a batch. Randomness
comes in as uniforms, one a node, so that a rule can be enumerated and replayed.
A new rule is one file and one line in `VERIFIERS`.
"""

from tv_jax.verifiers.decision import NOT_OFFERED, Decision, settle
from tv_jax.verifiers.offers import DOWN, UP, Offers
from tv_jax.verifiers.residual import positive
from tv_jax.verifiers.table import (
  DEFAULT,
  VERIFIERS,
  misfit,
  resolve,
)
from tv_jax.verifiers.verdict import (
  Verdict,
  check_draft,
  checked,
  draw_bonus,
  draw_verdict,
  toss,
  verify,
)
from tv_jax.verifiers.verifier import Decide, Shape, Verifier, chains_only

__all__ = [
  "DEFAULT",
  "DOWN",
  "NOT_OFFERED",
  "UP",
  "VERIFIERS",
  "Decide",
  "Decision",
  "Offers",
  "Shape",
  "Verdict",
  "Verifier",
  "chains_only",
  "check_draft",
  "checked",
  "draw_bonus",
  "draw_verdict",
  "misfit",
  "positive",
  "resolve",
  "settle",
  "toss",
  "verify",
]
