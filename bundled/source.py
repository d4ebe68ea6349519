"""Python's own standard library, the text that every machine has."""

import pathlib
import sysconfig


def read(size: int) -> str:
  """The sources of the library's single-file modules, by name.

  Args:
    size: Bytes after which to stop.

  Returns:
    At most so many bytes of text. It differs between versions of Python.
  """
  folder = pathlib.Path(sysconfig.get_path("stdlib"))
  texts, left = [], size
  for path in sorted(folder.glob("*.py")):
    if left <= 0:
      break
    # Generated at installation, and different on each machine.
    if path.name.startswith("_sysconfigdata"):
      continue
    raw = path.read_bytes()[:left]
    texts.append(raw.decode("utf-8", errors="ignore"))
    left -= len(raw)
  return "\n".join(texts)
