"""Makes the content of tv_jax/assets/bundled: `python -m training --help`."""
