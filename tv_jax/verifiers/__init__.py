"""Verification rules: which node of a drafted tree is accepted.

A rule is a pure function for ONE tree; `vmap` makes a batch. Its randomness is
one uniform for each node, given as an argument, so that rules can be enumerated
and replayed. A new rule is one file and one line in `VERIFIERS`.

In reading order:

- reference.py: the paper's algorithms as they are printed.
- base.py: a draft, a rule, and what a rule returns.
- walk.py: from offers to a decision and to a stopping distribution.
- residual.py: the residual of a node, and the children that change it.
- traversal.py, token_level.py, block.py: the rules.
- verdict.py: coins and bonus tokens; `verify` for other engines.
- checking.py, contract.py: checks of drafts and of rules from outside.
"""

from tv_jax.verifiers.base import (
  NOT_OFFERED,
  Decide,
  Decision,
  Draft,
  Offers,
  Verifier,
  chains_only,
)
from tv_jax.verifiers.checking import check_drafts
from tv_jax.verifiers.residual import positive
from tv_jax.verifiers.walk import DOWN, UP, settle

# The table imports rules, and rules may import the names above from here.
# isort: split
from tv_jax.verifiers.table import (
  DEFAULT,
  VERIFIERS,
  resolve,
  unsupported_reason,
)
from tv_jax.verifiers.verdict import (
  Verdict,
  decide_checked,
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
  "Draft",
  "Offers",
  "Verdict",
  "Verifier",
  "chains_only",
  "check_drafts",
  "decide_checked",
  "positive",
  "resolve",
  "settle",
  "toss",
  "unsupported_reason",
  "verify",
]
