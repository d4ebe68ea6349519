"""Rules that the package does not know, as a user would add them.

    python -m tv_jax.certify --verifiers=examples.rules.gbv:rule

From the repository's root every command takes them by this name. `gbv` is of
another paper, `ot_traversal` is described in docs/beyond.md. With a real pair
neither gains over the traversal.
"""
