"""Trains the bundled models: `python -m tv_jax.train --help`."""
