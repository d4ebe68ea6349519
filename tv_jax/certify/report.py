"""What the certificate prints: the table, and a failing case spelled out."""

import io
import pathlib
import re
from collections.abc import Iterable

import numpy as np
import rich.box
import rich.console
import rich.table

from tv_jax.certify.cases import below
from tv_jax.certify.check import Check, Failure
from tv_jax.tree import ROOT

_COLUMNS = (
  "verifier",
  "proposal",
  "tree",
  "check",
  "largest error",
  "allowed",
  "length",
  "over token_level",
  "shorter in",
  "verdict",
)

LEGEND = """\
largest error  total variation between the law of the output's first depth + 1
               tokens and the target's, the largest over the cases; for sampled
               drafts the largest deviation of the first two tokens' law, and
               of random functions of the tokens at every depth
length         expected tokens gained in a cycle with the bonus, mean over cases
shorter in     cases in which it gains less than token_level on the same drafts,
               and by how many tokens at most"""


def table(rows: Iterable[tuple[str, str, str, Check]]) -> rich.table.Table:
  """The rows (verifier, proposal, tree, what was found) as a table."""
  result = rich.table.Table(box=rich.box.SIMPLE_HEAD, pad_edge=False)
  for column in _COLUMNS:
    result.add_column(column, overflow="fold")
  for *names, check in rows:
    sampled = check.method != "exact"
    result.add_row(
      *names,
      f"{check.method}, {check.cases} cases",
      f"{check.distance:.1f} sigma" if sampled else f"{check.distance:.1e}",
      check.bound,
      f"{check.expected:.4f}",
      f"{round(check.gain, 4) + 0.0:+.2%}",
      f"{check.shorter}/{check.cases}"
      + (f", {check.shortfall:.1e}" if check.shorter else ""),
      "LOSSLESS" if check.lossless else "[bold red]NOT LOSSLESS[/]",
    )
  return result


def text(renderable) -> str:
  """What rich would print, as plain text of any width."""
  buffer = io.StringIO()
  rich.console.Console(file=buffer, width=400).print(renderable)
  return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines())


def save_picture(renderable, path: str) -> None:
  """The same as an SVG file."""
  console = rich.console.Console(file=io.StringIO(), record=True, width=150)
  console.print(renderable)
  picture = console.export_svg(title="python -m tv_jax.certify")
  # Rich names a font on a server; a picture should need none.
  picture = re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL)
  pathlib.Path(path).write_text(picture)


def spell_out(failure: Failure) -> str:
  """The case, its laws, and where the output's law goes wrong."""
  tree, case = failure.tree, failure.case
  V = case.p.shape[1]
  lines = [
    f"tree {list(tree.parents)} (parents), vocabulary"
    f" {' '.join(_name(token) for token in range(V))}, case of kind"
    f" {case.kind!r}",
  ]
  lines += [f"  fault: {fault}" for fault in failure.faults]
  length = round(np.log(len(failure.law)) / np.log(V))
  if length == tree.max_depth + 1:  # the laws are tables over all contexts
    for path in _paths(V, tree.max_depth):
      context = ROOT
      for token in path:
        context = below(context, token, V)
      lines.append(
        f"  after {_word(path):6} p = {_row(case.p[context])}"
        f"   q = {_row(case.q[context])}"
      )
  worst = int(np.abs(failure.law - failure.target).argmax())
  path = np.unravel_index(worst, (V,) * length)
  lines.append(
    f"  the output begins {_word(path)} with probability"
    f" {failure.law[worst]:.9g}, under the target {failure.target[worst]:.9g}:"
    f" {failure.law[worst] - failure.target[worst]:+.2g}"
  )
  if failure.tokens is not None:
    names = ["."] + [
      _name(token) if token >= 0 else "INVALID" for token in failure.tokens[1:]
    ]
    lines.append(
      f"  a draft on the way there: tokens [{' '.join(names)}], accepted node"
      f" 0 to {len(names) - 1} with chances {_row(failure.stop)}"
    )
  return "\n".join(lines)


def _paths(V, depth):
  for length in range(depth + 1):
    yield from np.ndindex(*(V,) * length)


def _name(token) -> str:
  return chr(ord("a") + token) if token < 26 else f"<{token}>"


def _word(path) -> str:
  return repr("".join(_name(int(token)) for token in path))


def _row(law) -> str:
  return "[" + " ".join(f"{x:.6g}" for x in law) + "]"
