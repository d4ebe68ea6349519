"""What the certificate prints: tables, and a failing case spelled out."""

import functools
from collections.abc import Iterable, Mapping

import numpy as np

from tv_jax.certify import words
from tv_jax.certify.cases import below, num_contexts
from tv_jax.certify.findings import Check, Failure
from tv_jax.certify.proposal import ALARM, ProposalCheck
from tv_jax.proposals import Proposal
from tv_jax.tree import ROOT, Tree

PROPOSAL_LEGEND = f"""\
error of laws  of `laws` against `following`, relative, the largest over all
               tuples of siblings that `following` can draw; up to 1e-12 is
               rounding, and in float32 up to 2e-6
chance         that right draws would be as far from `following` as these are,
               at most, all that was counted taken together; below {ALARM:g}
               they are wrong"""

LEGEND = """\
tokens         in the vocabulary
largest error  total variation between the law of the output's first depth + 1
               tokens and the target's, the largest over the cases; for sampled
               drafts the largest deviation of the first two tokens' law, and
               of random functions of the tokens at every depth
length         expected tokens gained in a cycle with the bonus, mean over cases
verdict        NOT LOSSLESS: the output's law is not the target's; CONTRACT
               BROKEN: the rule does not do what a rule must, as spelled out"""


def table(rows: Iterable[tuple[str, str, str, Check]]) -> str:
  """Makes a table of rows (verifier, proposal, tree, what was found)."""
  heading = (
    *("verifier", "proposal", "tree", "tokens", "check", "largest error"),
    *("allowed", "length", "verdict"),
  )
  cells = (
    (*names, str(check.vocabulary), *_numbers(check), check.verdict)
    for *names, check in rows
  )
  return words.table([heading, *cells])


def _numbers(check):
  """Returns the columns between the names and the verdict."""
  if not check.cases:
    return [check.method, *["-"] * 3]
  form = "{:.1f} sigma" if check.sampled else "{:.1e}"
  return [
    f"{check.method}, {check.cases} cases",
    form.format(check.distance),
    f"{check.allowed:g}{' sigma' * bool(check.sampled)}",
    f"{check.length:.4f}",
  ]


def proposal_table(checks: Mapping[Proposal, ProposalCheck]) -> str:
  """Makes a table of proposals."""
  heading = (
    *("proposal", "siblings", "tuples", "error of laws"),
    *("draws", "chance", "verdict"),
  )
  cells = (
    (
      proposal.name,
      " ".join(map(str, check.sizes)) or "-",
      str(check.tuples),
      f"{check.error:.1e}",
      str(check.draws),
      f"{check.chance:.0e}" if check.chance < 1 else "1",
      "SOUND" if check.sound else "WRONG",
    )
    for proposal, check in checks.items()
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
    law = f"{failure.sigmas:.1f} sigma from the target's by tossed coins"
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
    for path in words.paths(V, tree.max_depth + 1, worst_path):
      context = functools.reduce(lambda c, t: below(c, t, V), path, ROOT)
      lines.append(words.laws(path, case.p[context], case.q[context]))
  if failure.law_broken:
    chances = failure.law[worst], failure.target[worst]
    lines.append(words.begins(worst_path, *chances))
  return "\n".join(lines)
