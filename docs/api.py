"""Makes pages of the docstrings: `make docs`, then open site/tv_jax.html."""

import pathlib
import sys

import pdoc

import tv_jax

PACKAGES = (
  tv_jax,
  tv_jax.tree,
  tv_jax.proposals,
  tv_jax.verifiers,
  tv_jax.models,
  tv_jax.engine,
  tv_jax.certify,
  tv_jax.replay,
  tv_jax.tune,
  tv_jax.runs,
)

if __name__ == "__main__":
  for package in PACKAGES:
    for name in getattr(package, "__all__", ()):
      getattr(package, name)  # some are imported when they are asked for
  pdoc.render.configure(docformat="google")
  names = [package.__name__ for package in PACKAGES]
  pdoc.pdoc(*names, output_directory=pathlib.Path(sys.argv[1]))
