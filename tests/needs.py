"""What some tests need beyond what make installs, by their mark."""

import importlib.util
import os
import sys

import pytest

from benchmarks import gpu_program
from tests import browser, slurm


def missing(mark):
  """Why a test that is marked so can't run here, or None."""
  if mark == "judge" and importlib.util.find_spec("openai") is None:
    return "openai is not installed: it is the extra [judge]"
  if mark == "parity" and importlib.util.find_spec("torch") is None:
    return "PyTorch is not installed: it is the extra [parity]"
  if mark == "gpu_program" and not gpu_program.available():
    return "the CUDA plugin is not installed"
  if mark == "browser" and browser.missing():
    return f"{browser.missing()} is not installed"
  if mark == "ray" and importlib.util.find_spec("ray") is None:
    return "Ray is not installed: it is the extra [ray]"
  if mark == "slurm" and not slurm.there():
    return "SLURM is not installed: slurm-wlm and munge"
  if mark == "spec_bench" and "SPEC_BENCH_QUESTIONS" not in os.environ:
    return "SPEC_BENCH_QUESTIONS names no file"
  return None


def check(marks, needed):
  """Skips a test that can't run here; fails it if what it needs must be there.

  Args:
    marks: Its marks' names.
    needed: The marks whose tests are to run.
  """
  for mark in sorted(marks):
    if reason := missing(mark):
      (pytest.fail if mark in needed else pytest.skip)(reason)


if __name__ == "__main__":  # newcomers have none of it, nor has make test
  extras = "parity", "gpu_program", "judge", "ray"
  there = [mark for mark in extras if not missing(mark)]
  sys.exit(f"what {' and '.join(there)} needs is here" if there else 0)
