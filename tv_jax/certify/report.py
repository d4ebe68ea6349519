"""What the certificate prints: tables, and a failing case spelled out."""

import functools
from collections.abc import Iterable

import numpy as np

from tv_jax.certify import words
from tv_jax.certify.cases import below, num_contexts
from tv_jax.certify.findings import Check, Failure
from tv_jax.certify.proposal import ALARM, ProposalCheck
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


def table(rows: Iterable[tuple[str, str, str, Check]]) -> str:
  """Makes a table of rows (verifier, proposal, tree, what was found)."""
  rows = [*rows]
  asked = any(not np.isnan(row[-1].possible) for row in rows)
  heading = (
    *("verifier", "proposal", "tree", "tokens", "check", "largest error"),
    *("allowed", "length", *["of what is possible"] * asked),
    *("over token_level", "shorter in", "verdict"),
  )
  cells = (
    (*names, str(check.vocabulary), *_numbers(check, asked), check.verdict)
    for *names, check in rows
  )
  return words.table([heading, *cells])


def _numbers(check, asked):
  """Returns the columns between the names and the verdict."""
  if not check.cases:
    return [check.method, *["-"] * (5 + asked)]
  form = "{:.1f} sigma" if check.sampled else "{:.1e}"
  shorter = "-"
  if check.shorter is not None:
    shorter = f"{check.shorter}/{check.cases}"
    shorter += f", {check.shortfall:.1e}" * bool(check.shorter)
  # Of a rule that is not lossless, the share says nothing.
  known = check.lossless and not np.isnan(check.possible)
  share = f"{check.expected / check.possible:.2%}" if known else "-"
  return [
    f"{check.method}, {check.cases} cases",
    form.format(check.distance),
    f"{check.allowed:g}{' sigma' * bool(check.sampled)}",
    f"{check.expected:.4f}",
    *[share] * asked,
    f"{round(check.gain, 4) + 0.0:+.2%}",
    shorter,
  ]


def proposal_table(rows: Iterable[tuple[str, ProposalCheck]]) -> str:
  """Makes a table of proposals by name, and what was found."""
  heading = (
    *("proposal", "siblings", "tuples", "error of laws", "allowed"),
    *("draws", "chance", "alarm below", "verdict"),
  )
  cells = (
    (
      name,
      " ".join(map(str, check.sizes)) or "-",
      str(check.tuples),
      f"{check.error:.1e}",
      f"{check.bound:g}",
      str(check.draws),
      f"{check.chance:.0e}" if check.chance < 1 else "1",
      f"{ALARM:g}",
      "SOUND" if check.sound else "WRONG",
    )
    for name, check in rows
  )
  return words.table([heading, *cells])


def spell_out(failure: Failure) -> str:
  """Tells the case, its laws, what is broken, and where the law goes wrong."""
  tree, case = failure.tree, failure.case
  where = repr(tree)
  if isinstance(tree, Tree):
    where = f"tree {list(tree.parents)} (parents)"
  faults = [f"  fault: {fault}" for fault in failure.faults]
  if case is None or failure.law is None or failure.target is None:
    return "\n".join([where, *faults])
  V, law = case.p.shape[1], "the target's"
  if failure.law_broken:
    law = f"{failure.distance:.2g} from the target's (total variation)"
  elif failure.sigmas is not None:
    law = (
      f"{failure.sigmas:.1f} sigma from the target's by tossed coins; for noise"
      " that is no coin there is --sampled"
    )
  lines = [
    f"{where}, vocabulary {' '.join(map(words.name, range(V)))}, case of kind"
    f" {case.kind!r}",
    *faults,
    f"  the output's law is {law}",
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
        lines.append(words.laws(path, case.p[context], case.q[context]))
  if failure.law_broken:
    chances = failure.law[worst], failure.target[worst]
    lines.append(words.begins(worst_path, *chances))
  return "\n".join(lines)
