"""Certify published samplers as they stand, by adapters of a few lines.

    python -m examples.published
    python -m examples.published --checkouts=FOLDER

An adapter imports the published function and gives it the certificate's laws.
The function comes from an installed package, or from FOLDER/NAME, a checkout of
its repository. PUBLISHED_CHECKOUTS in the environment names the folder as well.
"""

import importlib
import importlib.util
import os
import pathlib
import sys
from types import ModuleType
from unittest import mock

CHECKOUTS = "PUBLISHED_CHECKOUTS"
# In the order of the table.
NAMES = (
  "hugging_face",
  "assisted",
  "eagle",
  "spec_bench",
  "samd",
  "rest",
  "medusa",
  "deepspec",
  "vllm_v0",
  "gpt_fast",
  "feifeibear",
  "tpu_inference",
  "sglang_jax",
)


def checkout(repository: str) -> pathlib.Path:
  """Return the path of a checkout, or raise FileNotFoundError."""
  folder, name = os.environ.get(CHECKOUTS), repository.split("/")[-1]
  path = pathlib.Path(folder or "", name)
  if not folder or not path.is_dir():
    raise FileNotFoundError(
      f"no checkout {name} of {repository}: give --checkouts=FOLDER, or set"
      f" {CHECKOUTS}"
    )
  return path


def load(path: pathlib.Path, name: str) -> ModuleType:
  """Import a file; packages that are not installed become empty mocks.

  Args:
    path: The file.
    name: The module's name, as other files of the repository import it.
  """
  spec = importlib.util.spec_from_file_location(name, path)
  if spec is None or spec.loader is None:
    raise ImportError(f"{path} is not a Python file")
  while True:
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
      spec.loader.exec_module(module)
      return module
    except ModuleNotFoundError as error:
      if not error.name or error.name == name:
        raise
      sys.modules[error.name] = mock.MagicMock()


def paths(tree) -> list[list[int]]:
  """List the nodes from the root to each leaf."""
  leaves = {*range(len(tree.parents))} - {*tree.parents}
  found = []
  for node in sorted(leaves):
    path = [node]
    while path[0]:
      path.insert(0, tree.parents[path[0]])
    found.append(path)
  return found


def padded(rows: list[list], fill) -> list[list]:
  """Fill rows to one length."""
  longest = max(map(len, rows))
  return [row + [fill] * (longest - len(row)) for row in rows]


def candidates(tree, tokens) -> tuple:
  """Return the paths, and PyTorch tensors of their nodes and their tokens."""
  import torch

  rows = paths(tree)
  texts = [[0, *(tokens[node] for node in row[1:])] for row in rows]
  nodes = torch.tensor(padded(rows, 0))
  return rows, nodes, torch.tensor(padded(texts, -1))
