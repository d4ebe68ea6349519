"""Verification rules outside the package, as a user would add them.

    python -m tv_jax.certify --verifiers=examples.rules.k_seq:rule

From the repository's root, every command takes them by such a name. `k_seq` is
from another paper, and `first_level` is the tutorial's (docs/rules.md).
"""
