"""The command of certify/engine/: `python -m tv_jax.audit --help`."""

import runpy

if __name__ == "__main__":
  runpy.run_module("tv_jax.certify.engine", run_name="__main__", alter_sys=True)
