"""What flags are called in all commands, and what they hold."""

import math
import os
import pathlib
import re
from collections.abc import Sequence

from absl import flags

from tv_jax.edge import names

_FLAG = re.compile(r"--?([a-z][\w-]*)(=.*)?", re.DOTALL)


def own_names(
  argv: Sequence[str], values: flags.FlagValues = flags.FLAGS
) -> list[str]:
  """A command line, with each flag under the name that it has here.

  Nobody has to know where a word is set off by a dash, and what takes one thing
  where: --verifier is --verifiers, --gpus-per-unit is --gpus_per_unit.
  """
  program, *rest = argv
  rest = values.read_flags_from_files(rest, force_gnu=False)
  return [program, *(_own_name(one, values) for one in rest)]


def _own_name(argument, values):
  if found := _FLAG.fullmatch(argument):
    name, value = found.groups("")
    name = name.replace("-", "_")
    for known in (name, f"{name}s", name.removesuffix("s")):
      if known in values:
        return f"--{known}{value}"
  return argument


def define_folder(
  name: str, default: str | None, told: str
) -> flags.FlagHolder:
  """A flag that holds a folder: an empty one would be the current one."""
  flags.disclaim_key_flags()
  found = flags.DEFINE_string(name, default, told)
  flags.register_validator(name, lambda text: text != "", "give a folder")
  return found


def define_names(
  name: str,
  default: str | None,
  told: str,
  values: flags.FlagValues = flags.FLAGS,
) -> flags.FlagHolder:
  """A flag that holds names or numbers; given again, it holds those as well."""
  flags.disclaim_key_flags()  # --help shows those of the module that calls
  return flags.DEFINE_multi_string(name, default, told, flag_values=values)


def split(texts: list[str] | None) -> list[str] | None:
  """The names in such a flag's value; None: none was given."""
  return texts if texts is None else names.split(" ".join(texts))


def only(flag: flags.FlagHolder | flags.Flag) -> str | None:
  """The name in such a flag's value, where there can be but one."""
  found = split(flag.value)
  if found is not None and len(found) != 1:
    raise ValueError(f"--{flag.name}={' '.join(found)}: give one")
  return found and found[0]


def numbers(
  flag: flags.FlagHolder | flags.Flag,
  kind: type,
  *,
  least: float = -math.inf,
  above: float = -math.inf,
) -> list:
  """The numbers in such a flag's value.

  Args:
    flag: It.
    kind: int or float.
    least: None is less.
    above: All are more.
  """
  try:
    found = [
      kind(text) for text in " ".join(flag.value).replace(",", " ").split()
    ]
  except ValueError:
    found = []
  if not found or not all(
    least <= one < math.inf and one > above for one in found
  ):
    what = "whole numbers" if kind is int else "numbers"
    limit = f"{least} or more" if least > above else f"more than {above}"
    raise ValueError(
      f"--{flag.name}={','.join(flag.value)}: give {what} of {limit}"
    )
  return found


def check_place(
  flag: flags.FlagHolder | flags.Flag, end: str, reads: Sequence[str] = ()
) -> None:
  """Refuses a file that could not be written, before hours of work.

  Args:
    flag: Whose value is its path; None: none is asked for.
    end: Of its name, so that what is read here is not written over.
    reads: What is read, of any name.
  """
  if flag.value is None:
    return
  path = pathlib.Path(flag.value)
  if path.suffix != end:
    reason = f"give a name that ends in {end}"
  elif path.is_dir():
    reason = "it is a folder"
  elif not path.parent.is_dir():
    reason = f"there is no folder {path.parent}"
  elif not os.access(path.parent, os.W_OK):
    reason = f"no permission to write in {path.parent}"
  elif path.exists() and any(map(path.samefile, filter(os.path.exists, reads))):
    reason = "it is read here: give another name"
  else:
    return
  raise ValueError(f"--{flag.name}={flag.value}: {reason}")
