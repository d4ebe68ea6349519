"""A checkpoint, opened once: a directory, a GGUF file, or a hub's commit."""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
import re

from tv_jax.io import digests, reading
from tv_jax.io.errors import UserError
from tv_jax.models import gguf, storage
from tv_jax.models.storage import StoredTensor

SINGLE = "model.safetensors"
_REPOSITORY = re.compile(r"\w[\w.-]*/\w[\w.-]*")
_PATTERNS = ("*.json", "*.safetensors", "tokenizer*", "*.jinja", "merges.txt")
_BINARY = "pytorch_model*.bin"
# The tokenizer's files. A draft uses its target's tokenizer.
_TOKENIZER = (
  *("generation_config.json", "tokenizer*", "chat_template*"),
  *("special_tokens_map.json", "added_tokens.json", "vocab.*", "merges.txt"),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Checkpoint:
  """The files of one model.

  Attributes:
    path: The directory, in Hugging Face's layout, or the GGUF file.
    commit: The commit of a hub's repository; None for local files.
    source: Name in messages: the path, or repository@commit.
  """

  path: pathlib.Path
  commit: str | None
  source: str

  @classmethod
  def open(
    cls, place: str | os.PathLike | Checkpoint, revision: str | None = None
  ) -> Checkpoint:
    """Finds a checkpoint; nothing is read yet.

    Args:
      place: A directory, a GGUF file, the name of a bundled or installed one,
        or of a repository on the Hugging Face hub (from the local cache when it
        is there, or HF_HUB_OFFLINE is set); or an open checkpoint.
      revision: The repository's commit, tag or branch.
    """
    if isinstance(place, Checkpoint):
      return place
    name = reading.path_of(place) if isinstance(place, str) else place
    path = pathlib.Path(os.path.expanduser(name))
    if gguf.is_file(path) and not path.exists():
      raise UserError(f"{path} does not exist")
    if path.is_dir() or gguf.is_file(path):
      if revision is not None:
        raise UserError(
          f"{path} is here and has no revision {revision!r}: a revision goes"
          " with a hub repository"
        )
      return cls(path=path, commit=None, source=str(path))
    if not _REPOSITORY.fullmatch(str(place)) or path.exists():
      raise UserError(
        f"{place} is neither a directory nor the name of a hub "
        "repository (owner/name)"
      )
    path = _download(str(place), revision)
    return cls(path=path, commit=path.name, source=f"{place}@{path.name}")

  @property
  def is_gguf(self) -> bool:
    """Whether it is a GGUF file."""
    return gguf.is_file(self.path)

  @property
  def config_path(self) -> pathlib.Path:
    """Returns the file that holds `config`."""
    return self.path if self.is_gguf else self.path / "config.json"

  @functools.cached_property
  def gguf_file(self) -> gguf.File:
    """The metadata of a GGUF file, and the positions of its tensors."""
    return gguf.read(self.path)

  @functools.cached_property
  def config(self) -> dict:
    """The content of config.json."""
    if self.is_gguf:
      return gguf.read_config(self.gguf_file)
    return reading.json_object(self.config_path)

  @functools.cached_property
  def tokenizer(self):
    """The tokenizer; code that comes with it is never run."""
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    import transformers

    try:
      if self.is_gguf:
        tokenizer = gguf.read_tokenizer(self.gguf_file)
      else:
        tokenizer = transformers.AutoTokenizer.from_pretrained(
          self.path, trust_remote_code=False
        )
    except Exception as error:  # a malformed file can raise any error
      reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
      raise UserError(
        f"no tokenizer could be loaded from {self.source} ({reason})"
      ) from None
    if tokenizer is None:
      raise UserError(f"{self.source} holds no tokenizer")
    return tokenizer

  @functools.cached_property
  def tensors(self) -> dict[str, StoredTensor]:
    """The tensors by name, which are read on use."""
    if self.is_gguf:
      return gguf.contents(self.gguf_file)
    if paths := _weights(self.path):
      return storage.contents(paths)
    if files := sorted(self.path.glob(f"*{gguf.SUFFIX}")):
      raise UserError(
        f"{self.source} holds GGUF files, which are given by their own path:"
        f" such as {files[0]}"
      )
    raise UserError(f"{self.source} has no {SINGLE} and no shards of it")

  def digests(self, name: str, *, tokenizer: bool) -> dict[str, str]:
    """Returns a digest of each file, or the commit.

    Args:
      name: Prefix of the files' names.
      tokenizer: Whether the tokenizer's files are included.
    """
    if self.commit:
      return {name: self.commit}
    paths = [self.path]
    if not self.is_gguf:
      paths = [self.config_path, *_weights(self.path)]
      if tokenizer:
        paths += [y for x in _TOKENIZER for y in sorted(self.path.glob(x))]
    return {f"{name}/{path.name}": digests.of_file(path) for path in paths}


def _download(repository: str, revision: str | None) -> pathlib.Path:
  """Returns the hub cache's directory of a revision, named by its commit."""
  import huggingface_hub

  def download(revision, *patterns):
    return pathlib.Path(
      huggingface_hub.snapshot_download(
        repository, revision=revision, allow_patterns=[*patterns]
      )
    )

  try:
    path = download(revision, *_PATTERNS)
    # path.name is the commit: the branch may have moved meanwhile.
    return path if _weights(path) else download(path.name, *_PATTERNS, _BINARY)
  except (OSError, ValueError) as error:
    reason = " ".join(str(error).split())
    raise UserError(
      f"{repository} is not a directory, and could not be had from the hub "
      f"at revision {revision or 'main'}: {reason}"
    ) from None


def _weights(directory: pathlib.Path) -> list[pathlib.Path]:
  """Returns a checkpoint's files with weights: safetensors, or else .bin."""
  for single in (SINGLE, "pytorch_model.bin"):
    if (directory / single).exists():
      return [directory / single]
    suffix = pathlib.Path(single).suffix
    paths = sorted(directory.glob(f"*model-*-of-*{suffix}"))
    if not paths:
      continue
    count = int(paths[0].stem.rpartition("-of-")[2])
    if count != len(paths):
      raise UserError(
        f"{directory} has {len(paths)} of {count} files like {paths[0].name}:"
        " download it again"
      )
    return paths
  return []
