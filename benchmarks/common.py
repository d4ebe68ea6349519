"""What benchmarks share: flags, models, prompts, tables, a setting."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import pathlib
import platform
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Sequence

import jax
import numpy as np
from absl import flags
from rich.console import Console
from rich.table import Table as RichTable

import tv_jax
from benchmarks import gpu_shapes
from tv_jax.edge import cli, disk, names
from tv_jax.engine import batches, extents
from tv_jax.engine import settings as settings_lib
from tv_jax.engine.pair import Pair
from tv_jax.runs import environment
from tv_jax.tree import Tree, parse

RANDOM = (
  "RANDOM WEIGHTS: times are those of this shape; acceptance means nothing."
)

# For a pair with a tokenizer, where no prompts are given.
TEXTS = (
  "Write a short story about a lighthouse keeper who finds a letter.",
  "Explain to a child why the sky is blue and the sunset is red.",
  "What is 17 times 24? Show each step of the calculation.",
  "Translate into French: the weather is fine, and we are going to the sea.",
  "Summarise the plot of Romeo and Juliet in four sentences.",
  "Give me a recipe for a simple vegetable soup for two people.",
  "List three advantages of riding a bicycle to work, with reasons.",
  "Write a Python function that returns the n-th Fibonacci number.",
)


# Flags. Those that are defined here are listed as the benchmark's own.

flags.disclaim_key_flags()


def flags_of_pairs() -> flags.FlagValues:
  """A set of flags, with those that every benchmark of decoding has."""
  values = flags.FlagValues()
  for name, default, text in (
    ("draft", None, "The draft: a directory or a repository."),
    ("target", None, "The target."),
    ("prompts", None, "JSON lines as Spec-Bench's, or text lines."),
    ("template", "raw", "raw, chat or vicuna."),
    ("out", None, "A file to write the tables to, an .md."),
  ):
    flags.DEFINE_string(name, default, text, values)
  flags.DEFINE_alias("markdown", "out", values)
  trees = "chain:5 kary:2x5 eagle"
  cli.define_names("trees", trees, "As tree.parse reads them.", values)
  for name, default, text, least in (
    ("tokens", 128, "New tokens of each row.", 1),
    ("rounds", 7, "How often each has its turn.", 1),
    ("seed", 0, "Of the draws and the orders.", 0),
  ):
    flags.DEFINE_integer(name, default, text, least, flag_values=values)
  return values


def read_flags(values: flags.FlagValues, arguments: Sequence[str], text: str):
  """Parses the command line; an error is one line, and status 1."""
  if {"--help", "-h", "--helpfull"} & set(arguments):
    print(text.strip(), values.get_help(), sep="\n")
    sys.exit()
  for name in values:  # a process may ask twice
    values[name].unparse()
  try:
    rest = values(cli.own_names(arguments, values))
    if len(rest) > 1:
      sys.exit(f"unexpected argument {rest[1]!r}; flags begin with --")
    cli.check_place(values["out"], ".md", [*filter(None, [values.prompts])])
  except (flags.Error, ValueError) as error:
    sys.exit(" ".join(str(error).split()))


def tree(text: str) -> Tree:
  """A tree that is known beforehand."""
  found = parse(text)
  if not isinstance(found, Tree):
    raise ValueError(f"tree {text!r}: give one that is known beforehand")
  return found


def parse_trees(text: str, read: Callable = parse) -> dict:
  """Trees by name."""
  try:
    return {name: read(name) for name in names.split(text)}
  except ValueError as error:
    raise ValueError(f"--trees: {error}") from error


# Models.


def read_pair(values: flags.FlagValues, kind: str) -> tuple[Pair, list]:
  """The pair of the flags, random if no path is given; and prompts."""
  if (values.target is None) != (values.draft is None):
    raise ValueError("give both --draft and --target, or neither")
  if values.target is None:
    pair = gpu_shapes.random_pair(kind)
  else:
    pair = tv_jax.load(values.draft, values.target, draft_kind=kind)
  return pair, read_prompts(values.prompts, pair, values.template)


# Prompts.


def read_prompts(path: str | None, pair: Pair, template: str) -> list:
  """Prompts as token ids, all of the padded size that is the commonest.

  So each method is compiled once for each number of rows.

  Args:
    path: JSON lines in Spec-Bench's format, of which each question's first turn
      is taken, or plain text, a prompt a line; None for a handful of ours.
    pair: Whose tokenizer encodes them.
    template: How.

  Returns:
    Token ids.
  """
  texts = TEXTS if path is None else _texts(path)
  if path is None and not _has_tokenizer(pair):
    rng = np.random.default_rng(0)
    return rng.integers(3, pair.target.config.vocab_size, (8, 40)).tolist()
  encoded = batches.encode(pair, texts, template, limit=1)
  size = [extents.prompt_slots(len(tokens)) for tokens in encoded]
  (common, _), *_ = Counter(size).most_common(1)
  kept = zip(encoded, size, strict=True)
  return [tokens for tokens, own in kept if own == common]


def _has_tokenizer(pair: Pair) -> bool:
  folder = pathlib.Path(pair.path or "").expanduser()
  if pair.path and folder.is_dir():
    return any(folder.glob("tokenizer*"))
  return pair.path is not None


def _texts(path: str) -> list[str]:
  try:
    lines = pathlib.Path(path).read_text().splitlines()
  except (OSError, UnicodeDecodeError) as error:
    reason = error.strerror if isinstance(error, OSError) else "not text"
    raise ValueError(f"--prompts={path}: {reason}") from None
  lines = [line for line in lines if line.strip()]
  if not lines:
    raise ValueError(f"--prompts={path}: there are no prompts in it")
  if not path.endswith(".jsonl"):
    return lines
  texts = []
  for i, line in enumerate(lines, 1):
    try:
      texts.append(json.loads(line)["turns"][0])
    except (json.JSONDecodeError, KeyError, IndexError, TypeError):
      raise ValueError(
        f"--prompts={path}: line {i} is no question with its turns"
      ) from None
  return texts


def check(pair: Pair, encoded: list, options: dict) -> None:
  """Refuses options and prompts that `generate` would refuse, in time."""
  settings = settings_lib.resolve(pair, **options)
  batches.encode(pair, encoded, "raw", settings.limit)


def describe(pair: Pair, random: bool) -> str:
  """The models' shapes."""

  def shape(config):
    return (
      f"{config.num_hidden_layers} x {config.hidden_size}, vocabulary"
      f" {config.vocab_size}"
    )

  text = (
    f"Target {shape(pair.target.config)}; draft ({pair.draft_kind})"
    f" {shape(pair.draft.config)}; {pair.target.config.kept}."
  )
  return f"{text} {RANDOM}" if random else text


def rows_of(encoded: list, count: int, turn: int) -> tuple[list, list[int]]:
  """The `count` prompts of a round, and a number for each."""
  items = [turn * count + i for i in range(count)]
  return [encoded[item % len(encoded)] for item in items], items


# Measurement.


def race(methods: dict, rounds: int, seed, say: Callable = print) -> dict:
  """Results of the methods [rounds], each round in a new random order.

  Args:
    methods: Functions of the round's number; all are warm.
    rounds: How many.
    seed: Of the orders, or a generator.
    say: Told about progress.

  Returns:
    A list of results by method.
  """
  rng = np.random.default_rng(seed)
  names = list(methods)
  results = {name: [None] * rounds for name in names}
  for turn in range(rounds):
    say(f"round {turn + 1} of {rounds}")
    for place in rng.permutation(len(names)):
      results[names[place]][turn] = methods[names[place]](turn)
  return results


def spread(values) -> str:
  """The median, and the quartiles."""
  low, middle, high = np.percentile(values, [25, 50, 75])
  return f"{middle:.2f} ({low:.2f} to {high:.2f})"


# Tables.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Table:
  """Cells by row, the header first; the first column says what a row is."""

  title: str
  header: list[str]
  rows: list[list[str]]

  def show(self) -> None:
    """Prints it: with lines on a terminal, else as Markdown."""
    if not sys.stdout.isatty():
      print(f"\n{self.markdown()}", flush=True)
      return
    table = RichTable(*self.header, title=self.title)
    for row in self.rows:
      table.add_row(*row)
    Console().print(table)

  def markdown(self) -> str:
    """As Markdown."""
    cells = [self.header, *self.rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    cells.insert(1, ["-" * width for width in widths])
    lines = [
      f"| {' | '.join(map(str.ljust, row, widths))} |".rstrip() for row in cells
    ]
    return "\n".join([f"### {self.title}", "", *lines])


def versions() -> str:
  """When, with what, and on what, in short."""
  return (
    f"{datetime.date.today()}, jax {jax.__version__}, NumPy {np.__version__},"
    f" {jax.default_backend()}, {os.cpu_count()} CPU cores"
  )


def setting(module: str, arguments: Sequence[str], more: str = "") -> list[str]:
  """When, on what, with what, and the command."""
  device = jax.devices()[0].device_kind
  return [
    f"{datetime.date.today()}; {device}; {environment.cpu()},"
    f" {environment.cores()} cores",
    f"tv_jax {tv_jax.__version__}, jax {jax.__version__}, NumPy"
    f" {np.__version__}, Python {platform.python_version()}{more}",
    f"    python -m {module} {shlex.join(arguments)}".rstrip(),
  ]


def write_markdown(
  path: str | None, title: str, lines: list[str], parts: list[str]
) -> None:
  """Writes what was printed to a file, if one is wanted."""
  if path:
    text = "\n\n".join([f"# {title}", *lines, *parts])
    disk.write_atomic(path, text + "\n")


def say(text: str) -> None:
  """Tells about progress, apart from the results."""
  print(f"{text} ..", file=sys.stderr, flush=True)
