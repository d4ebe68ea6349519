"""The certificate: is a verification rule lossless, and how long does it run?

`python -m tv_jax.certify --help` is the command line; `check` is its function
for one verifier, proposal and tree, `check_proposal` the one for a proposal
itself, `output_law` the exact law for given laws.
"""

import numpy as np

from tv_jax import proposals
from tv_jax import tree as tree_lib
from tv_jax.certify import exact
from tv_jax.certify.cases import Case, num_contexts
from tv_jax.certify.certificate import (
  check,
  enumerable,
  smallest_failure,
)
from tv_jax.certify.dice import ExploreError, Law, explore
from tv_jax.certify.exact import Outcome
from tv_jax.certify.findings import Check, Failure, Settings
from tv_jax.certify.programs import assert_lossless
from tv_jax.certify.proposal import ProposalCheck, check_proposal
from tv_jax.certify.report import spell_out, table, text
from tv_jax.engine import contract
from tv_jax.proposals import Proposal
from tv_jax.tree import Adaptive, Tree
from tv_jax.verifiers import Verifier, resolve


def output_law(
  verifier: Verifier | str,
  proposal: Proposal | str,
  tree: Tree | Adaptive | str,
  p: np.ndarray,
  q: np.ndarray,
) -> Outcome:
  """Finds the exact law of a rule's output for given laws.

  Args:
    verifier: A name, a `Verifier`, or a `decide` function.
    proposal: A name, or a `Proposal`.
    tree: Small enough to enumerate, or what `tree.parse` reads.
    p: [contexts, V] the target's law after each path of up to `depth` tokens,
      in the order of `num_contexts`: context c leads by token t to
      c * V + t + 1. Float32 or float64.
    q: [contexts, V] the draft's law.

  Returns:
    The law, the target's, the expected gain, and what else is wrong.
  """
  proposal, tree = proposals.resolve(proposal), tree_lib.resolve(tree)
  rule = resolve(verifier)
  p, q = np.asarray(p), np.asarray(q)
  contexts = num_contexts(p.shape[-1], tree.max_depth) if p.ndim == 2 else 0
  if p.shape != q.shape or p.dtype != q.dtype or len(p) != contexts:
    raise ValueError(
      f"laws are p {p.dtype}{list(p.shape)} and q {q.dtype}{list(q.shape)}; a"
      f" tree of depth {tree.max_depth} needs [{contexts or 'contexts'}, V]"
    )
  for name, laws in (("p", p), ("q", q)):
    wrong = ~(laws >= 0).all(axis=1) | ~(abs(laws.sum(axis=1) - 1) < 1e-3)
    if wrong.any():
      row = int(wrong.argmax())
      raise ValueError(f"{name}[{row}] = {laws[row]} is no law")
  dtype, V = p.dtype.type, p.shape[1]
  if faults := [*contract.faults(rule, proposal, tree, dtype, V)]:
    raise ValueError("; ".join(faults))
  run = exact.make_runner(rule, proposal, tree, dtype, V)
  return run(Case("given", p, q))


__all__ = [
  "Case",
  "Check",
  "ExploreError",
  "Failure",
  "Law",
  "Outcome",
  "ProposalCheck",
  "Settings",
  "assert_lossless",
  "check",
  "check_proposal",
  "enumerable",
  "explore",
  "num_contexts",
  "output_law",
  "smallest_failure",
  "spell_out",
  "table",
  "text",
]
