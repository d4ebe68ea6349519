"""The commands, in a list; or one of them: `python -m tv_jax certify`."""

import importlib
import runpy
import sys

from tv_jax.edge import cli

COMMANDS = {
  "main": "runs a config's grid, and reports on it",
  "report": "writes a run's tables, plots and page again",
  "certify": "computes the exact law of a rule's output, or catches the rule",
  "replay": "gives any rule's expected length on recorded drafts",
  "tune": "finds the best tree for a pair and this machine",
  "audit": "tests the law of what this engine, or any, decodes",
  "distill": "makes a draft for a target",
  "score": "gives a draft's expected lengths from the target's text",
  "chat": "talks with a model, tokens as they are accepted",
  "models.checkpoint": "converts GGUF and PyTorch's .bin files",
}
# What takes long to import, during which signals wait; `main` and `chat` do
# so themselves.
STANDS_ON = {
  "report": ("runs.report",),
  "certify": ("certify",),
  "replay": ("replay",),
  "tune": ("tune", "runs.running"),
  "audit": ("certify", "engine.decode"),
  "distill": ("distill", "runs.questions"),
  "score": ("distill",),
  "models.checkpoint": ("models",),
}


def main(heard: cli.Heard) -> int | None:
  """Runs a command, or lists them; returns the exit status."""
  if not sys.argv[1:] or sys.argv[1] in ("-h", "--help"):
    width = max(map(len, COMMANDS))
    for name, what in COMMANDS.items():
      print(f"python -m tv_jax.{name:{width}}  {what}")
    print("\nEach has --help. In Python: tv_jax.load, .generate, .record.")
    return 0
  name = sys.argv.pop(1)
  if name not in COMMANDS:
    return cli.complain("tv_jax", f"{name!r} is none of {', '.join(COMMANDS)}")
  with heard.deaf():
    for room in STANDS_ON.get(name, ()):
      importlib.import_module(f"tv_jax.{room}")
  runpy.run_module(f"tv_jax.{name}", run_name="__main__", alter_sys=True)
  return 0


if __name__ == "__main__":
  cli.until_told(main)
