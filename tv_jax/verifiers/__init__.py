"""Verification rules: which node of a drafted tree is accepted.

A rule is a pure function for ONE tree; `vmap` makes a batch. Its randomness is
one uniform for each node, given as an argument, so that rules can be enumerated
and replayed. A new rule is one file and one line in `VERIFIERS`.

In reading order:

- reference.py: the paper's algorithms as they are printed.
- decision.py, verifier.py: what a rule returns, and what a rule is.
- residual.py: one step at one node.
- family.py, levels.py: the steps of all nodes of a tree.
- offers.py: the walk over the nodes, and the stop law.
- traversal.py, token_level.py, block.py: the rules.
- verdict.py: coins and bonus tokens; `verify` for other engines.
"""

from tv_jax.verifiers.decision import NOT_OFFERED, Decision, settle
from tv_jax.verifiers.offers import DOWN, UP, Offers
from tv_jax.verifiers.residual import positive
from tv_jax.verifiers.verifier import Decide, Verifier, chains_only

# The table imports rules, and rules may import the names above from here.
# isort: split
from tv_jax.verifiers.table import DEFAULT, VERIFIERS, misfit, resolve
from tv_jax.verifiers.verdict import (
  Verdict,
  check_drafts,
  decide_checked,
  draw_bonus,
  toss,
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
  "check_drafts",
  "decide_checked",
  "draw_bonus",
  "misfit",
  "positive",
  "resolve",
  "settle",
  "toss",
  "verify",
]
