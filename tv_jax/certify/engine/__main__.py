"""Audits the engine end to end: `python -m tv_jax.audit --help`.

Decodes many rows with tiny random models, and tests the law of their first
tokens against the target's, enumerated; by every rule, proposal, tree and
temperature. A certificate (`tv_jax.certify`) is about a rule; this is about all
that is around it: prompts, caches, catching up, commits, keys, the bonus token.

With --write and --samples it audits any engine, from what that engine gave.
"""

import datetime
import sys
import zlib

import jax
import rich.console
import rich.table
from absl import flags, logging

from tv_jax import tree as tree_lib
from tv_jax.certify.engine import cases, exact, report, statistics
from tv_jax.certify.samples import command
from tv_jax.drafting import KINDS
from tv_jax.edge import cli, disk
from tv_jax.edge.names import raised, split
from tv_jax.engine import contract
from tv_jax.proposals import PROPOSALS
from tv_jax.proposals import resolve as resolve_proposal
from tv_jax.verifiers import DEFAULT, resolve

_VERIFIERS = flags.DEFINE_string(
  "verifiers", " ".join(DEFAULT), "Rules, by name or package.module:function."
)
_PROPOSALS = flags.DEFINE_string(
  "proposals", " ".join(PROPOSALS), "How siblings are drawn."
)
_TREES = flags.DEFINE_string(
  "trees", "chain:2 kary:2x2 branching:3,1", "As tree.parse reads them."
)
_KINDS = flags.DEFINE_string(
  "draft_kinds", "independent eagle", "Kinds of draft."
)
_TEMPERATURES = flags.DEFINE_string("temperatures", "0.5 1", "Above 0.")
_TOP_P = flags.DEFINE_string("top_p", "1 0.8", "Truncations of both laws.")
_ROWS = flags.DEFINE_integer("rows", 200_000, "Rows decoded in each case.", 1)
_BATCH = flags.DEFINE_integer("batch", 4_000, "Rows decoded together.", 1)
_SEED = flags.DEFINE_integer("seed", 0, "Of all draws.", 0)
_OUT = flags.DEFINE_string("out", None, "A file for the result, an .md.")
flags.adopt_module_key_flags(command)


def main(arguments) -> int:
  """Prints a line for each case; 1 if one fails."""
  cli.no_arguments(arguments)
  logging.set_verbosity(logging.WARNING)
  if command.asked():
    for flag in (_VERIFIERS, _PROPOSALS, _TREES, _KINDS, _ROWS, _BATCH, _OUT):
      if flags.FLAGS[flag.name].present:
        raise ValueError(f"--{flag.name}: is of our own engine's audit alone")
    return command.run(
      temperature=_own(_TEMPERATURES), top_p=_own(_TOP_P), seed=_SEED.value
    )
  plan = _plan()
  console = rich.console.Console(
    width=None if sys.stdout.isatty() else 200, highlight=False
  )
  rows, drifts = [], []
  for names, case in plan:
    kind = names[:2]
    # Draws of its own for each case: the p-values are then independent.
    seed = zlib.crc32(f"{_SEED.value} {' '.join(names)}".encode())
    try:
      if kind not in [drift.names for drift in drifts]:
        drifts.append(report.Drift(kind, exact.drift(case)))
      counts, cycles, faults = cases.count(
        case, _ROWS.value, min(_BATCH.value, _ROWS.value), seed
      )
    except Exception as error:  # whatever a stranger's rule raises
      raise ValueError(f"{' '.join(names)}: {raised(error)}") from error
    p_value = statistics.chi_square(counts, exact.law(case))
    rows.append(report.Row(names, cycles, p_value, faults))
    console.print(
      f"{len(rows)}/{len(plan)}",
      *names,
      f"cycles {cycles:.2f}",
      f"p {p_value:.3g}",
    )
    if _OUT.value:
      page = report.markdown(rows, drifts, _ROWS.value, _heading())
      disk.write_atomic(_OUT.value, page)
  table = rich.table.Table(*report.COLUMNS)
  for cells in report.cells(rows):
    table.add_row(*cells)
  console.print(table)
  for line in report.summary(rows, drifts, _ROWS.value):
    print(line)
  failed = report.failures(rows, drifts)
  for line in failed:
    print(line)
  return 1 if failed else 0


def _own(flag) -> float:
  """Returns another engine's setting: 1 unless a single other one is given."""
  if not flags.FLAGS[flag.name].present:
    return 1.0
  return float(flag.value)


def _plan():
  """Returns the cases by name; those that share a program stand together."""
  rules, trees, drafts, drawn = (
    split(flag.value) for flag in (_VERIFIERS, _TREES, _KINDS, _PROPOSALS)
  )
  for name in drafts:
    if name not in KINDS:
      raise ValueError(f"draft {name!r}: not one of {', '.join(KINDS)}")
  temperatures = [float(x) for x in split(_TEMPERATURES.value)]
  top_ps = [float(x) for x in split(_TOP_P.value)]
  if min(temperatures) <= 0:
    raise ValueError(f"--temperatures={_TEMPERATURES.value}: give above 0")
  if not 0 < min(top_ps) <= max(top_ps) <= 1:
    raise ValueError(f"--top_p={_TOP_P.value}: give numbers in (0, 1]")
  cli.check_place(_OUT, ".md")
  plan = cases.grid(
    drafts=drafts,
    trees={text: tree_lib.parse(text) for text in trees},
    verifiers={name: resolve(name) for name in rules},
    proposals={name: resolve_proposal(name) for name in drawn},
    temperatures=temperatures,
    top_ps=top_ps,
  )
  if not plan:
    raise ValueError("nothing to audit: no rule is defined on these trees")
  for _, case in plan:  # before the first is worked on
    contract.check(case.verifier, case.proposal, case.tree, cases.VOCABULARY)
  return plan


def _heading():
  command = " ".join(["python -m tv_jax.audit", *sys.argv[1:]])
  return [
    "# The engine's law against the target's",
    "",
    f"`{command}`, {datetime.date.today().isoformat()}, jax"
    f" {jax.__version__}, {jax.default_backend()}.",
    "",
    f"Prompts of {' and '.join(str(len(p)) for p in cases.PROMPTS)} tokens,"
    f" {cases.VOCABULARY} tokens in the vocabulary; chi-square of the first"
    f" {cases.LENGTH} new tokens, cells that expect fewer than"
    f" {statistics.FEWEST} hits pooled.",
  ]


if __name__ == "__main__":
  cli.run("tv_jax.audit", main)
