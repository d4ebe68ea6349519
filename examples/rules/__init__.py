"""Rules that the package does not know, as a user would add them.

    python -m tv_jax.certify --verifiers=examples.rules.gbv:rule

From the repository's root every command takes them by this name. `gbv` and
`k_seq` are from other papers, and docs/beyond.md describes `ot_traversal`. None
of them gains over the traversal with a real pair.
"""
