"""Converts PyTorch .bin checkpoints to safetensors.

  python -m tv_jax.models.checkpoint convert SRC DST [--revision COMMIT]

SRC is a directory or a repository on the hub. Needs PyTorch: the parity
extra. What loads and saves is in loading.py; this is the command.
"""

import argparse
import json
import os
import pathlib
import shutil
import sys
import zipfile

from tv_jax.edge import reading
from tv_jax.edge.reading import listed, shown
from tv_jax.models import storage

SINGLE = "pytorch_model.bin"
INDEX = "pytorch_model.bin.index.json"


def convert(source, destination, revision: str | None = None) -> None:
  """Writes `source`'s tensors as safetensors, and copies its other files.

  Args:
    source: A directory or repository with .bin files.
    destination: A directory, made if need be.
    revision: Of a repository: a commit.
  """
  source = storage.resolve(source, revision, ["*.bin", "*.model"])
  destination = pathlib.Path(destination)
  if destination.exists() and destination.samefile(source):
    raise ValueError(f"{destination} is the source itself: name another")
  names = [SINGLE]
  if os.path.lexists(source / INDEX):
    names = storage.indexed(source / INDEX, ".bin")
  absent = [name for name in names if not (source / name).exists()]
  if absent:
    raise ValueError(f"{source} lacks {listed(map(shown, absent))}")
  files = [reading.regular(source / name) for name in names]
  try:
    import torch
    from safetensors.torch import save_file
  except ImportError:
    raise ValueError(
      "converting needs PyTorch: pip install 'tv-jax[parity]'"
    ) from None

  destination.mkdir(parents=True, exist_ok=True)
  where = {}
  for path in files:
    tensors = _tensors(torch, path)
    renamed = (
      storage.SINGLE
      if len(files) == 1
      else path.name.replace("pytorch_", "").replace(".bin", ".safetensors")
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
    if path.suffix in copied and path.name != INDEX and path.is_file():
      shutil.copyfile(path, destination / path.name)


def _tensors(torch, path: pathlib.Path) -> dict:
  """Returns a .bin file's tensors, by name; nothing in it is executed."""
  try:
    found = torch.load(
      path,
      map_location="cpu",
      weights_only=True,
      mmap=zipfile.is_zipfile(path),  # the older format has no other way
    )
  except Exception as error:  # a foreign file can fail anywhere
    reason = str(error).partition(".")[0]
    raise ValueError(
      f"{path} is truncated or holds no PyTorch tensors"
      f" ({type(error).__name__}: {shown(reason)}): download it again"
    ) from None
  if not isinstance(found, dict) or not all(
    isinstance(name, str)
    and isinstance(value, torch.Tensor)
    and value.layout == torch.strided
    and not value.is_quantized
    for name, value in found.items()
  ):
    raise ValueError(f"{path} does not hold plain tensors by name")
  return found


def main(arguments=None) -> None:
  """Runs the command."""
  parser = argparse.ArgumentParser(prog="python -m tv_jax.models.checkpoint")
  commands = parser.add_subparsers(required=True, metavar="convert")
  command = commands.add_parser("convert", help="from .bin to safetensors")
  command.add_argument("source", help="a directory, or a hub repository")
  command.add_argument("destination", help="the directory to write")
  command.add_argument("--revision", help="of a repository: a commit")
  try:
    convert(**vars(parser.parse_args(arguments)))
  except (ValueError, OSError) as error:
    sys.exit(" ".join(str(error).split()))


if __name__ == "__main__":
  main()
