"""The command of runs/report/: `python -m tv_jax.report FOLDER`."""

import runpy

if __name__ == "__main__":
  runpy.run_module("tv_jax.runs.report", run_name="__main__", alter_sys=True)
