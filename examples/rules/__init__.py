"""Verification rules outside the package, as a user would add them.

    python -m tv_jax.certify --verifiers=examples.rules.gbv:rule

From the repository's root, every command takes them by such a name. `gbv` and
`k_seq` are from other papers, and docs/beyond.md describes `ot_traversal`. With
a real pair, none of them gains over the traversal.
"""
