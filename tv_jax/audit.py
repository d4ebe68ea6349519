"""Audits the engine end to end: `python -m tv_jax.audit --help`.

Decodes many rows with tiny random models, and tests the law of their first
tokens against the target's, enumerated; by every rule, proposal, tree and
temperature. A certificate (`tv_jax.certify`) is about a rule; this is about all
that is around it: prompts, caches, catching up, commits, keys, the bonus token.

With --write and --samples it audits any engine, from what that engine gave.
"""

import itertools
import zlib

from absl import flags

from tv_jax import tree as tree_lib
from tv_jax import verifiers
from tv_jax.certify.engine import cases, exact, report
from tv_jax.certify.samples import command
from tv_jax.drafting import KINDS
from tv_jax.edge import cli
from tv_jax.edge.names import raised, split
from tv_jax.proposals import PROPOSALS
from tv_jax.proposals import resolve as resolve_proposal

_VERIFIERS = flags.DEFINE_string(
  "verifiers",
  " ".join(verifiers.DEFAULT),
  "Rules, by name or package.module:function.",
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
_SEED = flags.DEFINE_integer("seed", 0, "Of all draws.", 0)
flags.adopt_module_key_flags(command)
_BATCH = 4_000  # rows decoded together


def main() -> int:
  """Prints a line for each case; 1 if one fails."""
  if command.asked():
    for flag in (_VERIFIERS, _PROPOSALS, _TREES, _KINDS, _ROWS):
      if flags.FLAGS[flag.name].present:
        raise ValueError(f"--{flag.name}: is of our own engine's audit alone")
    temperature, top_p = (
      float(flag.value) if flags.FLAGS[flag.name].present else 1.0
      for flag in (_TEMPERATURES, _TOP_P)
    )
    return command.run(temperature=temperature, top_p=top_p, seed=_SEED.value)
  plan, rows, drifts = _plan(), [], {}
  for names, case in plan:
    # Draws of its own for each case: the p-values are then independent.
    seed = zlib.crc32(f"{_SEED.value} {' '.join(names)}".encode())
    size = min(_BATCH, _ROWS.value)
    try:
      if names[:2] not in drifts:
        drifts[names[:2]] = exact.drift(case)
      counts, cycles, faults = cases.count(case, _ROWS.value, size, seed)
    except Exception as error:  # whatever a stranger's rule raises
      raise ValueError(f"{' '.join(names)}: {raised(error)}") from error
    p_value = report.chi_square(counts, exact.law(case))
    row = " ".join(names), p_value, cycles, faults, drifts[names[:2]]
    rows.append(report.Row(*row))
    print(f"{len(rows)}/{len(plan)} {rows[-1]}", flush=True)
  failures = [x for row in rows for x in report.failures(row, len(rows))]
  least, uniform = min(row.p_value for row in rows), report.uniform(rows)
  if len(rows) >= 20 and uniform < report.LEVEL:
    failures.append(f"the p-values are not uniform: p = {uniform:.1e}")
  print(
    f"{len(rows)} cases of {_ROWS.value:,} rows: the least p-value is"
    f" {least:.2g}, or {min(1, least * len(rows)):.2g} for so many; p-values"
    f" against the uniform law: {uniform:.2g}"
  )
  for line in failures:
    print(line)
  return int(bool(failures))


def _plan() -> list[tuple[tuple[str, ...], cases.Case]]:
  """Returns the cases by name; those that share a program stand together."""
  rules, drawn, trees, drafts = (
    split(flag.value) for flag in (_VERIFIERS, _PROPOSALS, _TREES, _KINDS)
  )
  rules = {name: verifiers.resolve(name) for name in rules}
  drawn = {name: resolve_proposal(name) for name in drawn}
  trees = {text: tree_lib.parse(text) for text in trees}
  if unknown := {*drafts} - {*KINDS}:
    raise ValueError(f"draft {min(unknown)!r}: not one of {', '.join(KINDS)}")
  temperatures = [float(x) for x in split(_TEMPERATURES.value)]
  top_ps = [float(x) for x in split(_TOP_P.value)]
  if min(temperatures) <= 0:
    raise ValueError(f"--temperatures={_TEMPERATURES.value}: give above 0")
  if not 0 < min(top_ps) <= max(top_ps) <= 1:
    raise ValueError(f"--top_p={_TOP_P.value}: give numbers in (0, 1]")
  plan = []
  for shape, kind, rule, proposal, top_p, temperature in itertools.product(
    trees, drafts, rules, drawn, top_ps, temperatures
  ):
    if verifiers.misfit(rules[rule], trees[shape], drawn[proposal]):
      continue
    case = cases.case(
      kind,
      temperature,
      tree=trees[shape],
      proposal=drawn[proposal],
      verifier=rules[rule],
      top_p=top_p,
    )
    names = kind, shape, rule, proposal, f"{temperature:g}", f"{top_p:g}"
    plan.append((names, case))
  if not plan:
    raise ValueError("nothing to audit: no rule is defined on these trees")
  return plan


if __name__ == "__main__":
  cli.run("tv_jax.audit", main)
