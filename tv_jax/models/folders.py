"""Where a checkpoint is, and which files its index names."""

import os
import pathlib
import re

from tv_jax.edge import reading
from tv_jax.edge.reading import brief, shown

REPOSITORY = re.compile(r"\w[\w.-]*/\w[\w.-]*")


def resolve(path_or_repo, revision: str | None, patterns=()) -> pathlib.Path:
  """A directory that holds the checkpoint.

  Args:
    path_or_repo: A directory, or a repository's name on the Hugging Face hub.
    revision: Of the repository: a commit, tag or branch.
    patterns: More files that are wanted from a repository.

  Returns:
    The directory itself, or the hub cache's directory of that revision.
  """
  if not isinstance(path_or_repo, str | os.PathLike):
    raise ValueError(
      f"{brief(path_or_repo)} is no path: give a directory, or the name of a"
      " hub repository (owner/name)"
    )
  directory = os.path.expanduser(path_or_repo)
  if os.path.isdir(directory):
    if revision is not None:
      raise ValueError(
        f"{directory} is a directory and has no revision {revision!r}: a "
        "revision goes with a hub repository"
      )
    return pathlib.Path(directory)
  if not REPOSITORY.fullmatch(str(path_or_repo)) or os.path.exists(directory):
    raise ValueError(
      f"{shown(path_or_repo)} is neither a directory nor the name of a hub "
      "repository (owner/name)"
    )
  import huggingface_hub

  try:
    return pathlib.Path(
      huggingface_hub.snapshot_download(
        str(path_or_repo),
        revision=revision,
        allow_patterns=["*.json", "*.safetensors", "tokenizer*", *patterns],
      )
    )
  except (OSError, ValueError) as error:
    reason = " ".join(str(error).split())
    raise ValueError(
      f"{path_or_repo} is not a directory, and could not be had from the hub "
      f"at revision {revision or 'main'}: {reason}"
    ) from None


def indexed(path: pathlib.Path, suffix: str) -> list[str]:
  """The files that an index names, all of them beside it.

  A name with a folder in it would be read, or written, somewhere else.
  """
  places = reading.json_object(path).get("weight_map")
  if not isinstance(places, dict) or not places:
    raise ValueError(f"{path} has no weight_map from tensors to files")
  for name in places.values():
    if not isinstance(name, str) or not name.endswith(suffix):
      raise ValueError(f"{path} names {brief(name)}, which is no {suffix} file")
    if name != os.path.basename(name) or "\\" in name or "\0" in name:
      raise ValueError(
        f"{path} names {brief(name)}: only files beside it are read"
      )
  return sorted(set(places.values()))
