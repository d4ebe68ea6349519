"""A verification rule outside the package, as a user would add it.

    python -m tv_jax.certify --verifiers=examples.rules.k_seq:rule

From the repository's root, every command takes it by such a name.
"""
