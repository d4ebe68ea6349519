"""Converts PyTorch .bin checkpoints to safetensors.

  python -m tv_jax.models.checkpoint convert SRC DST [--revision COMMIT]

SRC is a directory or a repository on the hub. The command needs PyTorch, which
the parity extra installs.
"""

import argparse
import json
import pathlib
import shutil
import sys

from tv_jax.edge import disk
from tv_jax.models import storage

SINGLE = "pytorch_model.bin"


def convert(source, destination, revision: str | None = None) -> None:
  """Writes `source`'s tensors as safetensors, and copies its other files.

  Args:
    source: A directory or repository with .bin files.
    destination: The directory to write; it may exist.
    revision: The repository's commit.
  """
  source = storage.resolve(source, revision, ["*.bin", "*.model"])
  paths = storage.shards(source, SINGLE)
  if not paths:
    raise ValueError(f"{source} has no {SINGLE} and no shards of it")
  try:
    import torch
    from safetensors.torch import save_file
  except ImportError:
    raise ValueError(
      "converting needs PyTorch: pip install 'tv-jax[parity]'"
    ) from None

  destination = pathlib.Path(destination)
  destination.mkdir(parents=True, exist_ok=True)
  size, files = 0, {}
  for path in paths:
    tensors = torch.load(path, map_location="cpu", weights_only=True)
    name = path.name.replace("pytorch_", "").replace(".bin", ".safetensors")
    # Cloned, because safetensors refuses tensors that share memory (tied).
    save_file(
      {key: value.clone().contiguous() for key, value in tensors.items()},
      destination / name,
      metadata={"format": "pt"},
    )
    disk.readable(destination / name)
    size += sum(value.nbytes for value in tensors.values())
    files |= dict.fromkeys(tensors, name)
  if len(paths) > 1:  # transformers finds shards only by their index
    index = {"metadata": {"total_size": size}, "weight_map": files}
    text = json.dumps(index, indent=2, sort_keys=True) + "\n"
    (destination / f"{storage.SINGLE}.index.json").write_text(text)
  for path in source.iterdir():
    index = path.name.endswith(".index.json")
    if path.suffix in (".json", ".model", ".txt", ".jinja") and not index:
      shutil.copyfile(path, destination / path.name)


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
