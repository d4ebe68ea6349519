"""Verification rules: what of a drafted tree is kept, and what comes next.

Each rule is a pure function for ONE tree; `vmap` makes a batch. Randomness
comes in as uniforms, one a node, so that a rule can be enumerated and replayed.
A new rule is one file and one line in `VERIFIERS`.
"""

from tv_jax.verifiers.decision import (
  DOWN,
  NOT_OFFERED,
  UP,
  Decide,
  Decision,
  Verifier,
  chains_only,
  settle,
)
from tv_jax.verifiers.offers import Offers, derived, from_offers
from tv_jax.verifiers.residual import positive
from tv_jax.verifiers.table import (
  DEFAULT,
  VERIFIERS,
  misfit,
  resolve,
  undefined,
)
from tv_jax.verifiers.verdict import (
  Verdict,
  check_draft,
  checked,
  is_built_in,
  toss,
  toss_and_draw,
  verify,
)

__all__ = [
  "DEFAULT",
  "DOWN",
  "NOT_OFFERED",
  "UP",
  "VERIFIERS",
  "Decide",
  "Decision",
  "Offers",
  "Verdict",
  "Verifier",
  "chains_only",
  "check_draft",
  "checked",
  "derived",
  "from_offers",
  "is_built_in",
  "misfit",
  "positive",
  "resolve",
  "settle",
  "toss",
  "toss_and_draw",
  "undefined",
  "verify",
]
