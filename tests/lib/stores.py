"""Small run folders, and processes that write them."""

import pathlib
import subprocess
import sys
import textwrap

from tv_jax.runs.records import KEY
from tv_jax.runs.store import Store

ROOT = pathlib.Path(__file__).parents[2]
CONFIG = {
  "experiment": "a",
  "models": {"target": "b", "draft": "c"},
  "questions": "minibench",
  "trees": ["eagle"],
  "verifiers": ["traversal"],
  "proposals": ["top_k"],
  "temperatures": [1.0],
  "seeds": [0],
  "baseline": "token_level",
}
ENVIRONMENT = {"jax": "0.10.2", "device": "cpu", "date": "2026-01-01"}
# Skips the packages' __init__ files, so jax is not imported, which is slow.
PREAMBLE = f"""
import os, pathlib, resource, sys, time, types
for name in ("tv_jax", "tv_jax.runs"):
  package = sys.modules[name] = types.ModuleType(name)
  package.__path__ = [os.path.join({str(ROOT)!r}, *name.split("."))]
sys.path.insert(0, {str(ROOT)!r})
from tests.lib.stores import enter, item
from tv_jax.runs import store
"""


def item(question, size=10, **fields):
  """Returns a line as it is read from a file: sequences are lists."""
  key = "qa", question, 0, "eagle", "top_k", "traversal", 1.0, 0
  own = {
    "text": f"{question}Ä" * size,
    **{name: [] for name in ("tokens", "accepted", "stops")},
  }
  return dict(zip(KEY, key, strict=True)) | own | fields


def enter(folder, config=CONFIG, environment=ENVIRONMENT):
  return Store(folder, config, environment)


def fill(folder):
  """Writes a folder of three items."""
  with enter(folder) as store:
    store.begin(3)
    for question in range(3):
      store.append(item(question))
  return folder


def program(body, *arguments):
  """Returns the command of a process that runs the body."""
  code = PREAMBLE + textwrap.dedent(body)
  return [sys.executable, "-I", "-c", code, *map(str, arguments)]


def run(body, *arguments):
  """Runs the body in a process that must not fail; returns its output."""
  done = subprocess.run(
    program(body, *arguments),
    capture_output=True,
    text=True,
    timeout=60,
  )
  assert done.returncode == 0, done.stderr
  return done.stdout
