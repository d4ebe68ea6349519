"""Makes what tv_jax/assets/bundled holds: `python -m bundled --help`."""
