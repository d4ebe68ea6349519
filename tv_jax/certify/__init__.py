"""The certificate: is a verification rule lossless, and how long does it run?

`python -m tv_jax.certify --help` describes the command line. In Python, `check`
certifies a verifier with a proposal on a tree, `check_program` any sampler,
`check_proposal` a proposal, and `explore` finds the exact law of any function.
"""

from tv_jax.certify.certificate import (
  assert_lossless,
  check,
  check_program,
  smallest_failure,
)
from tv_jax.certify.dice import ExploreError, Law, explore
from tv_jax.certify.proposal import check_proposal
from tv_jax.certify.report import Settings, Verdict

__all__ = [
  "ExploreError",
  "Law",
  "Settings",
  "Verdict",
  "assert_lossless",
  "check",
  "check_program",
  "check_proposal",
  "explore",
  "smallest_failure",
]
