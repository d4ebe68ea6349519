"""What some tests need beyond what make installs, by their mark."""

import importlib.util
import os
import shutil
import sys

import pytest

from benchmarks import gpu_program
from tests.lib import slurm

EXTRAS = {"judge": "openai", "parity": "torch", "ray": "ray"}


def missing(mark):
  """Why a test that is marked so can't run here, or None."""
  if mark in EXTRAS and importlib.util.find_spec(EXTRAS[mark]) is None:
    return f"{EXTRAS[mark]} is not installed: it is the extra [{mark}]"
  if mark == "gpu_program" and not gpu_program.available():
    return "the CUDA plugin is not installed"
  if mark == "browser" and shutil.which("chromium") is None:
    return "Chromium is not installed"
  if mark == "slurm" and not slurm.installed():
    return "SLURM is not installed: slurm-wlm and munge"
  if mark == "spec_bench" and "SPEC_BENCH_QUESTIONS" not in os.environ:
    return "SPEC_BENCH_QUESTIONS names no file"
  if mark == "published" and "PUBLISHED_CHECKOUTS" not in os.environ:
    return "PUBLISHED_CHECKOUTS names no folder"
  if mark == "smollm2" and "SMOLLM2_GGUF" not in os.environ:
    return "SMOLLM2_GGUF names no file"
  if mark == "qwen2_coder" and "QWEN2_CODER" not in os.environ:
    return "QWEN2_CODER names no folder with target.gguf and draft.gguf"
  return None


def check(marks, needed):
  """Skips a test that can't run here, or fails it if its mark is needed."""
  for mark in sorted(marks):
    if reason := missing(mark):
      (pytest.fail if mark in needed else pytest.skip)(reason)


if __name__ == "__main__":  # a new clone has no extras
  there = [mark for mark in (*EXTRAS, "gpu_program") if not missing(mark)]
  sys.exit(f"what {' and '.join(there)} needs is here" if there else 0)
