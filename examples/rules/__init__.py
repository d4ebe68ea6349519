"""Rules of others, as anybody would add one: nothing of the core knows them.

    python -m tv_jax.certify --verifiers=examples.rules.gbv:rule

From the repository's root each is a verifier of every command, so named. `gbv`
and `coupled` are of other papers; docs/beyond.md has `ot_traversal`. None gains
over the traversal with a real pair.
"""
