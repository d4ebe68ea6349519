"""What the certificate prints: the table, and a failing case spelled out."""

import functools
import io
import re
from collections.abc import Iterable

import numpy as np
import rich.box
import rich.console
import rich.table

from tv_jax.certify import words
from tv_jax.certify.cases import below, num_contexts
from tv_jax.certify.findings import Check, Failure
from tv_jax.certify.proposal import ALARM, ProposalCheck
from tv_jax.edge import disk
from tv_jax.tree import ROOT, Tree

PROPOSAL_LEGEND = """\
error of laws  of `laws` against `following`, relative, the largest over all
               tuples of siblings that `following` can draw
chance         that right draws would be as far from `following` as these are,
               at most; all that was counted taken together"""

LEGEND = """\
tokens         in the vocabulary
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


# Tokens, above which only the laws on the way to the worst output are printed.
_FEW = 8


def table(rows: Iterable[tuple[str, str, str, Check]]) -> rich.table.Table:
  """Makes a table of rows (verifier, proposal, tree, what was found)."""
  rows = [*rows]
  asked = any(not np.isnan(row[-1].possible) for row in rows)
  heading = [
    *(
      "verifier",
      "proposal",
      "tree",
      "tokens",
      "check",
      "largest error",
      "allowed",
    ),
    *("length", *["of what is possible"] * asked),
    *("over token_level", "shorter in", "verdict"),
  ]
  return _table(
    heading,
    [
      (*names, str(check.vocabulary), *_numbers(check, asked))
      for *names, check in rows
    ],
    [(check.verdict, check.lossless) for *_, check in rows],
  )


def _numbers(check, asked):
  """Returns the columns between the names and the verdict."""
  if not check.cases:
    return [check.method, *["-"] * (5 + asked)]
  sampled = check.method != "exact"
  shorter = f"{check.shorter}/{check.cases}"
  if check.shorter:
    shorter += f", {check.shortfall:.1e}"
  # Of a rule that is not lossless, the share says nothing.
  known = check.lossless and not np.isnan(check.possible)
  share = f"{check.expected / check.possible:.2%}" if known else "-"
  return [
    f"{check.method}, {check.cases} cases",
    f"{check.distance:.1f} sigma" if sampled else f"{check.distance:.1e}",
    check.bound,
    f"{check.expected:.4f}",
    *[share] * asked,
    f"{round(check.gain, 4) + 0.0:+.2%}",
    # Of what is realised a case is shorter by chance.
    "-" if check.tossed else shorter,
  ]


def proposal_table(
  rows: Iterable[tuple[str, ProposalCheck]],
) -> rich.table.Table:
  """Makes a table of proposals by name, and what was found."""
  rows = [*rows]
  heading = [
    *("proposal", "siblings", "tuples", "error of laws", "allowed"),
    *("draws", "chance", "alarm below", "verdict"),
  ]
  cells = [
    (
      name,
      " ".join(map(str, check.sizes)) or "-",
      str(check.tuples),
      f"{check.error:.1e}",
      f"{check.bound:g}",
      str(check.draws),
      f"{check.chance:.0e}" if check.chance < 1 else "1",
      f"{ALARM:g}",
    )
    for name, check in rows
  ]
  sound = [(("WRONG", "SOUND")[check.sound], check.sound) for _, check in rows]
  return _table(heading, cells, sound)


def _table(heading, cells, verdicts):
  result = rich.table.Table(box=rich.box.SIMPLE_HEAD, pad_edge=False)
  for column in heading:
    result.add_column(column, overflow="fold")
  for row, (verdict, good) in zip(cells, verdicts, strict=True):
    result.add_row(*row, verdict if good else f"[bold red]{verdict}")
  return result


def text(renderable) -> str:
  """Returns what rich would print, as plain text of any width."""
  buffer = io.StringIO()
  rich.console.Console(file=buffer, width=400).print(renderable)
  return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines())


def save_picture(renderable, path: str) -> None:
  """Saves it as an SVG file."""
  console = rich.console.Console(file=io.StringIO(), record=True, width=150)
  console.print(renderable)
  picture = console.export_svg(title="python -m tv_jax.certify")
  # Rich names a font on a server; a picture should need none.
  picture = re.sub(r"@font-face \{.*?\}", "", picture, flags=re.DOTALL)
  disk.write_atomic(path, picture)


def spell_out(failure: Failure) -> str:
  """Tells the case, its laws, what is broken, and where the law goes wrong."""
  tree, case = failure.tree, failure.case
  where = repr(tree)
  if isinstance(tree, Tree):
    where = f"tree {list(tree.parents)} (parents)"
  faults = [f"  fault: {fault}" for fault in failure.faults]
  if case is None or failure.law is None or failure.target is None:
    return "\n".join([where, *faults])
  V = case.p.shape[1]
  lines = [
    f"{where}, vocabulary {' '.join(map(words.name, range(V)))}, case of kind"
    f" {case.kind!r}",
    *faults,
    f"  the output's law is {_law(failure)}",
  ]
  worst = int(np.abs(failure.law - failure.target).argmax())
  length = round(np.log(len(failure.law)) / np.log(V))
  worst_path = np.unravel_index(worst, (V,) * length)
  if len(case.p) == num_contexts(V, tree.max_depth):
    for length in range(tree.max_depth + 1):
      for path in np.ndindex(*(V,) * length):
        if V > _FEW and path != worst_path[:length]:
          continue
        context = functools.reduce(lambda c, t: below(c, t, V), path, ROOT)
        lines.append(
          f"  after {words.word(path):6} p = {words.row(case.p[context])}"
          f"   q = {words.row(case.q[context])}"
        )
  if not failure.law_broken:
    return "\n".join(lines)
  lines.append(
    f"  the output begins {words.word(worst_path)} with probability"
    f" {failure.law[worst]:.9g}, under the target {failure.target[worst]:.9g}:"
    f" {failure.law[worst] - failure.target[worst]:+.2g}"
  )
  if failure.tokens is not None:
    names = [".", *map(words.name, failure.tokens[1:])]
    lines.append(
      f"  a draft on the way there: tokens [{' '.join(names)}], accepted node"
      f" 0 to {len(names) - 1} with chances {words.numbers(failure.stop)}"
    )
  return "\n".join(lines)


def _law(failure):
  """Returns what is known of the output's law."""
  how = ", with coins tossed: those thresholds can't be enumerated"
  how = how if failure.tossed else ""
  if not failure.law_broken:
    more = "; for noise that is no coin there is --sampled" if how else ""
    near = "" if failure.sigmas is None else f"{failure.sigmas:.1f} sigma from "
    return f"{near}the target's{how}{more}"
  return f"{failure.distance:.2g} from the target's (total variation){how}"
