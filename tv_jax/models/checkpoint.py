"""Converts PyTorch .bin checkpoints to safetensors.

  python -m tv_jax.models.checkpoint convert SRC DST [--revision COMMIT]

SRC is a directory or a repository on the hub. Needs PyTorch: the parity
extra. What loads and saves is in loading.py; this is the command.
"""

import argparse
import json
import pathlib
import shutil
import sys

from tv_jax.models import storage
from tv_jax.models.config import read_json

SINGLE = "pytorch_model.bin"
INDEX = "pytorch_model.bin.index.json"


def convert(source, destination, revision: str | None = None) -> None:
  """Writes `source`'s tensors as safetensors, and copies its other files.

  Args:
    source: A directory or repository with .bin files.
    destination: A directory, made if need be.
    revision: Of a repository: a commit.
  """
  try:
    import torch
    from safetensors.torch import save_file
  except ImportError:
    raise ValueError(
      "converting needs PyTorch: pip install 'tv-jax[parity]'"
    ) from None

  source = storage.resolve(source, revision, ["*.bin", "*.model"])
  destination = pathlib.Path(destination)
  if destination.exists() and destination.samefile(source):
    raise ValueError(f"{destination} is the source itself: name another")
  if (source / INDEX).exists():
    files = sorted(set(read_json(source / INDEX)["weight_map"].values()))
  else:
    files = [SINGLE]
  absent = [name for name in files if not (source / name).exists()]
  if absent:
    raise ValueError(f"{source} lacks {', '.join(absent)}")

  destination.mkdir(parents=True, exist_ok=True)
  where = {}
  for name in files:
    tensors = torch.load(
      source / name, map_location="cpu", weights_only=True, mmap=True
    )
    renamed = (
      storage.SINGLE
      if len(files) == 1
      else name.replace("pytorch_", "").replace(".bin", ".safetensors")
    )
    # Cloned: tied tensors share memory, which safetensors refuses.
    save_file(
      {key: value.clone().contiguous() for key, value in tensors.items()},
      destination / renamed,
      metadata={"format": "pt"},
    )
    where |= dict.fromkeys(tensors, renamed)
  if len(files) > 1:
    (destination / storage.INDEX).write_text(
      json.dumps({"metadata": {}, "weight_map": where}, indent=2) + "\n"
    )
  copied = {".json", ".model", ".txt", ".jinja"}
  for path in source.iterdir():
    if path.suffix in copied and path.name != INDEX:
      shutil.copyfile(path, destination / path.name)


def main(arguments=None) -> None:
  """The command."""
  parser = argparse.ArgumentParser(prog="python -m tv_jax.models.checkpoint")
  commands = parser.add_subparsers(required=True, metavar="convert")
  command = commands.add_parser("convert", help="from .bin to safetensors")
  command.add_argument("source", help="a directory, or a hub repository")
  command.add_argument("destination", help="the directory to write")
  command.add_argument("--revision", help="of a repository: a commit")
  try:
    convert(**vars(parser.parse_args(arguments)))
  except ValueError as error:
    sys.exit(str(error))


if __name__ == "__main__":
  main()
