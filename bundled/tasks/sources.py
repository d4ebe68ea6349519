"""Python to go on with: `python -m bundled.tasks.sources`.

Beginnings of functions of this repository's own, which no model was trained
on; what comes next is anyone's to say, and nothing scores it. Not one of the
six tasks. It is cut from files as they are: later ones give other questions.
"""

import json
import pathlib
import random
from collections.abc import Iterator

import tv_jax
from tv_jax.edge import reading

COUNT = 24
SEED = 20261122
CATEGORY = "python"
# Characters of a beginning, and lines that must be left after it.
SHORTEST, LONGEST, LEFT = 200, 330, 3


def beginnings(text: str) -> Iterator[str]:
  """Of each top-level function that is long enough, its first lines."""
  lines = text.split("\n")
  for start, line in enumerate(lines):
    if not line.startswith("def "):
      continue
    end = start + 1
    while end < len(lines) and (not lines[end] or lines[end][0] in " )"):
      end += 1
    for cut in range(start + 2, end - LEFT):
      piece = "\n".join(lines[start:cut])
      inside = lines[cut - 1].strip() and lines[cut].startswith("  ")
      if SHORTEST <= len(piece) <= LONGEST and inside:
        yield piece
        break


def lines(folder: pathlib.Path) -> str:
  """The contents of python.jsonl: from so many files, one beginning each."""
  found = {}
  for path in sorted(folder.rglob("*.py")):
    if pieces := [*beginnings(path.read_text(encoding="utf-8"))]:
      found[path] = pieces
  rng = random.Random(SEED)
  chosen = sorted(rng.sample([*found], COUNT))
  text = ""
  for i, path in enumerate(chosen):
    row = {
      "question_id": i + 1,
      "category": CATEGORY,
      "turns": [rng.choice(found[path])],
    }
    text += json.dumps(row, ensure_ascii=False) + "\n"
  return text


def main() -> None:
  """Writes the bundled file anew."""
  package = pathlib.Path(tv_jax.__file__).parent
  path = reading.BUNDLED / "python.jsonl"
  path.write_text(lines(package), encoding="utf-8")


if __name__ == "__main__":
  main()
