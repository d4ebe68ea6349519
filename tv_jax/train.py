"""What `python -m tv_jax.train` is called now."""

import sys

MOVED = (
  "training is `python -m bundled` now, and its measurements `python -m"
  " bundled.measure`, in a copy of the repository"
)

if __name__ == "__main__":
  print(f"tv_jax.train: {MOVED}", file=sys.stderr)
  sys.exit(2)
raise ImportError(f"tv_jax.train: {MOVED}", name=__name__)
