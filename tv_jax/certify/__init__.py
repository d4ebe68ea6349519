"""The certificate: is a verification rule lossless, and how long does it run?

`python -m tv_jax.certify --help` describes the command line. In Python, `check`
certifies a verifier with a proposal on a tree, `check_proposal` certifies a
proposal, and `explore` finds the exact law of any function.
"""

from tv_jax.certify.certificate import check, smallest_failure
from tv_jax.certify.dice import ExploreError, Law, explore
from tv_jax.certify.findings import Settings
from tv_jax.certify.programs import assert_lossless
from tv_jax.certify.proposal import check_proposal

__all__ = [
  "ExploreError",
  "Law",
  "Settings",
  "assert_lossless",
  "check",
  "check_proposal",
  "explore",
  "smallest_failure",
]
