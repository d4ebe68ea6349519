"""What the certificate prints: the table, and a failing case spelled out."""

import io
import re
from collections.abc import Iterable

import numpy as np
import rich.box
import rich.console
import rich.table

from tv_jax.certify import words
from tv_jax.certify.cases import below, num_contexts
from tv_jax.certify.draws import ALARM
from tv_jax.certify.findings import Check, Failure
from tv_jax.certify.proposal import ProposalCheck
from tv_jax.edge import disk
from tv_jax.tree import ROOT, Tree

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
# Beside the length, where it was asked for.
_POSSIBLE = "of what is possible"

_PROPOSAL_COLUMNS = (
  "proposal",
  "siblings",
  "tuples",
  "error of laws",
  "allowed",
  "draws",
  "chance",
  "alarm below",
  "verdict",
)

PROPOSAL_LEGEND = """\
error of laws  of `laws` against `following`, relative, the largest over all
               tuples of siblings that `following` can draw
chance         that right draws would be as far from `following` as these are,
               at most; all that was counted taken together"""

LEGEND = """\
largest error  total variation between the law of the output's first depth + 1
               tokens and the target's, the largest over the cases; for sampled
               drafts the largest deviation of the first two tokens' law, and
               of random functions of the tokens at every depth
length         expected tokens gained in a cycle with the bonus, mean over cases
shorter in     cases in which it gains less than token_level on the same drafts,
               and by how many tokens at most
verdict        NOT LOSSLESS: the output's law is not the target's; CONTRACT
               BROKEN: the rule does not do what a rule must, as spelled out"""

SAMPLED_LEGEND = """\
sampled        coins were tossed, and thresholds not looked at: what is off by
               less than the sample can tell passes, and --drafts and --cases
               make it larger. Without a stop law lengths are realised ones"""

BOUND_LEGEND = """\
of what is     length over the largest one of any lossless rule on the same
possible       drafts, by linear programme; known where these are enumerated"""


def table(rows: Iterable[tuple[str, str, str, Check]]) -> rich.table.Table:
  """The rows (verifier, proposal, tree, what was found) as a table."""
  rows = [*rows]
  asked = any(not np.isnan(row[-1].possible) for row in rows)
  result = rich.table.Table(box=rich.box.SIMPLE_HEAD, pad_edge=False)
  for column in _COLUMNS:
    result.add_column(column, overflow="fold")
    if asked and column == "length":
      result.add_column(_POSSIBLE, overflow="fold")
  for *names, check in rows:
    colour = "" if check.lossless else "[bold red]"
    numbers = _numbers(check)
    if asked:
      numbers.insert(4, _share(check))
    result.add_row(*names, *numbers, f"{colour}{check.verdict}")
  return result


def _numbers(check):
  """The columns between the names and the verdict."""
  if not check.cases:
    return [check.method, *"-----"]
  sampled = check.method != "exact"
  return [
    f"{check.method}, {check.cases} cases",
    f"{check.distance:.1f} sigma" if sampled else f"{check.distance:.1e}",
    check.bound,
    f"{check.expected:.4f}",
    f"{round(check.gain, 4) + 0.0:+.2%}",
    "-"  # of what is realised a case is shorter by chance
    if check.sampled
    else f"{check.shorter}/{check.cases}"
    + (f", {check.shortfall:.1e}" if check.shorter else ""),
  ]


def _share(check):
  """Of what any lossless rule could gain; of another rule it says nothing."""
  broken = check.failure is not None
  if broken or np.isnan(check.possible):
    return "-"
  return f"{check.expected / check.possible:.2%}"


def proposal_table(
  rows: Iterable[tuple[str, ProposalCheck]],
) -> rich.table.Table:
  """The proposals by name, and what was found, as a table."""
  result = rich.table.Table(box=rich.box.SIMPLE_HEAD, pad_edge=False)
  for column in _PROPOSAL_COLUMNS:
    result.add_column(column, overflow="fold")
  for name, check in rows:
    result.add_row(
      name,
      " ".join(map(str, check.sizes)) or "-",
      str(check.tuples),
      f"{check.error:.1e}",
      f"{check.bound:g}",
      str(check.draws),
      f"{check.chance:.0e}" if check.chance < 1 else "1",
      f"{ALARM:g}",
      "SOUND" if check.sound else "[bold red]WRONG",
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
  disk.write_atomic(path, picture)


def spell_out(failure: Failure) -> str:
  """The case, its laws, what is broken, and where the law goes wrong."""
  tree, case = failure.tree, failure.case
  if case is None:
    known = isinstance(tree, Tree)
    lines = [f"tree {list(tree.parents)} (parents)" if known else repr(tree)]
    return "\n".join(lines + [f"  fault: {fault}" for fault in failure.faults])
  V = case.p.shape[1]
  lines = [
    f"tree {list(tree.parents)} (parents), vocabulary"
    f" {' '.join(words.name(token) for token in range(V))}, case of kind"
    f" {case.kind!r}",
  ]
  lines += [f"  fault: {fault}" for fault in failure.faults]
  lines.append(f"  the output's law is {_law(failure)}")
  length = round(np.log(len(failure.law)) / np.log(V))
  if len(case.p) == num_contexts(V, tree.max_depth):
    for path in _paths(V, tree.max_depth):
      context = ROOT
      for token in path:
        context = below(context, token, V)
      lines.append(
        f"  after {words.word(path):6} p = {words.row(case.p[context])}"
        f"   q = {words.row(case.q[context])}"
      )
  if failure.law_broken:
    lines += _where(failure, V, length)
  return "\n".join(lines)


def _law(failure):
  """What is known of the output's law."""
  how = ", with coins tossed: those thresholds can't be enumerated"
  how = how if failure.tossed else ""
  if not failure.law_broken:
    more = "; for noise that is no coin there is --sampled" if how else ""
    return f"the target's{how}{more}"
  return f"{failure.distance:.2g} from the target's (total variation){how}"


def _where(failure, V, length):
  """Where the law goes wrong."""
  worst = int(np.abs(failure.law - failure.target).argmax())
  path = np.unravel_index(worst, (V,) * length)
  lines = [
    f"  the output begins {words.word(path)} with probability"
    f" {failure.law[worst]:.9g}, under the target {failure.target[worst]:.9g}:"
    f" {failure.law[worst] - failure.target[worst]:+.2g}"
  ]
  if failure.tokens is not None:
    names = [".", *map(words.name, failure.tokens[1:])]
    lines.append(
      f"  a draft on the way there: tokens [{' '.join(names)}], accepted node"
      f" 0 to {len(names) - 1} with chances {words.numbers(failure.stop)}"
    )
  return lines


def _paths(V, depth):
  for length in range(depth + 1):
    yield from np.ndindex(*(V,) * length)
