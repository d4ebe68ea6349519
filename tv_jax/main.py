"""Runs a config's grid: `python -m tv_jax.main --config=configs/quickstart.py`.

The same command again continues where it was.
"""

import os

from absl import flags

from tv_jax import runs
from tv_jax.io import cli, config_flag, progress
from tv_jax.runs import report

_CONFIG = config_flag.define()
_WORKDIR = flags.DEFINE_string(
  "workdir",
  None,
  "For results and the report; by default runs/ and the experiment's name.",
)
_CACHE = flags.DEFINE_string(
  "compilation_cache",
  None,
  "Where compiled programs are kept for the next start; by default"
  " ~/.cache/tv_jax, or JAX_COMPILATION_CACHE_DIR. Empty: nowhere.",
)


def main() -> int:
  """Runs, and writes the report; 1 if every answer failed."""
  settings = runs.from_config(_CONFIG.value)
  workdir = _WORKDIR.value or os.path.join("runs", settings.experiment)
  runs.keep_programs(_CACHE.value)
  with progress.bar() as bar:
    answered = runs.run(settings, workdir, bar)
  report.write(workdir).print(f"report: {os.path.join(workdir, report.PAGE)}")
  return int(not answered)


if __name__ == "__main__":
  cli.run("tv_jax.main", main, lambda argv: config_flag.parse(argv, None))
