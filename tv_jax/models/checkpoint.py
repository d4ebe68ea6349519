"""Converts PyTorch .bin checkpoints and GGUF files to safetensors.

  python -m tv_jax.models.checkpoint convert SRC DST [--revision COMMIT]
    [--dtype DTYPE]

SRC is a GGUF file; or a directory or a repository on the hub with .bin files,
which needs PyTorch: the parity extra. What loads and saves is in loading.py;
this is the command.
"""

import argparse
import json
import os
import pathlib
import shutil
import sys
import zipfile

from tv_jax.edge import disk
from tv_jax.edge.reading import listed, shown
from tv_jax.models import gguf, loading, storage

SINGLE = "pytorch_model.bin"
INDEX = "pytorch_model.bin.index.json"


def convert(
  source, destination, revision: str | None = None, dtype: str | None = None
) -> None:
  """Writes `source`'s tensors as safetensors, and copies its other files.

  Args:
    source: A directory or repository with .bin files, or a GGUF file.
    destination: A directory, made if need be.
    revision: Of a repository: a commit.
    dtype: Of a GGUF file's weights: as of `loading.load`.
  """
  source = storage.resolve(source, revision, ["*.bin", "*.model"])
  if gguf.is_one(source):
    return _unpack(source, destination, dtype)
  if dtype is not None:
    raise ValueError(
      f"dtype={dtype!r} is for GGUF files: .bin files are converted as they are"
    )
  destination = pathlib.Path(destination)
  if destination.exists() and destination.samefile(source):
    raise ValueError(f"{destination} is the source itself: name another")
  names = [SINGLE]
  if os.path.lexists(source / INDEX):
    names = storage.indexed(source / INDEX)
  absent = [name for name in names if not (source / name).exists()]
  if absent:
    raise ValueError(f"{source} lacks {listed(map(shown, absent))}")
  try:
    import torch
    from safetensors.torch import save_file
  except ImportError:
    raise ValueError(
      "converting needs PyTorch: pip install 'tv-jax[parity]'"
    ) from None

  destination.mkdir(parents=True, exist_ok=True)
  where = {}
  for name in names:
    path = source / name
    try:
      # The older format cannot be mapped.
      tensors = torch.load(
        path,
        map_location="cpu",
        weights_only=True,
        mmap=zipfile.is_zipfile(path),
      )
    except Exception as error:  # of a damaged file it can be any
      reason = str(error).partition(".")[0]
      raise ValueError(
        f"{path} is truncated or holds no PyTorch tensors"
        f" ({type(error).__name__}: {shown(reason)}): download it again"
      ) from None
    renamed = storage.SINGLE
    if len(names) > 1:
      renamed = name.replace("pytorch_", "").replace(".bin", ".safetensors")
    # Cloned: tied tensors share memory, which safetensors refuses.
    save_file(
      {key: value.clone().contiguous() for key, value in tensors.items()},
      destination / renamed,
      metadata={"format": "pt"},
    )
    disk.readable(destination / renamed)
    where |= dict.fromkeys(tensors, renamed)
  if len(names) > 1:
    (destination / storage.INDEX).write_text(
      json.dumps({"metadata": {}, "weight_map": where}, indent=2) + "\n"
    )
  copied = {".json", ".model", ".txt", ".jinja"}
  for path in source.iterdir():
    if path.suffix in copied and path.name != INDEX and path.is_file():
      shutil.copyfile(path, destination / path.name)


def _unpack(path: pathlib.Path, destination, dtype: str | None) -> None:
  """Writes a GGUF file as a directory in Hugging Face's layout."""
  files = {name: gguf.json_object(path, name) for name in gguf.FILES}
  loading.save(destination, loading.load(path, dtype))
  del files["config.json"]  # written with the weights
  for name, raw in files.items():
    if raw:
      text = json.dumps(raw, indent=2, ensure_ascii=False)
      pathlib.Path(destination, name).write_text(text + "\n", "utf-8")


def main(arguments=None) -> None:
  """Runs the command."""
  parser = argparse.ArgumentParser(prog="python -m tv_jax.models.checkpoint")
  commands = parser.add_subparsers(required=True, metavar="convert")
  command = commands.add_parser(
    "convert", help="from .bin or GGUF to safetensors"
  )
  command.add_argument(
    "source", help="a directory, a hub repository, or a GGUF file"
  )
  command.add_argument("destination", help="the directory to write")
  command.add_argument("--revision", help="of a repository: a commit")
  command.add_argument(
    "--dtype", help="of a GGUF file's weights; float16 if they are quantised"
  )
  try:
    convert(**vars(parser.parse_args(arguments)))
  except (ValueError, OSError) as error:
    sys.exit(" ".join(str(error).split()))


if __name__ == "__main__":
  main()
