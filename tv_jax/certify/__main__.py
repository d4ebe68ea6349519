"""Certifies verification rules: `python -m tv_jax.certify --help`."""

import pathlib
import sys
import time

import jax
import numpy as np
import rich.console
import rich.progress
from absl import app, flags, logging

from tv_jax import certify, endings, tree
from tv_jax.proposals import PROPOSALS
from tv_jax.proposals import resolve as resolve_proposal
from tv_jax.verifiers import VERIFIERS, misfit, resolve

_VERIFIER = flags.DEFINE_list(
  "verifier",
  None,
  f"Rules to certify: {', '.join(VERIFIERS)}, or package.module:function, a"
  " `decide` or a `Verifier`. Default: all.",
)
_PROPOSALS = flags.DEFINE_list(
  "proposals", list(PROPOSALS), "How siblings are drawn."
)
_TREES = flags.DEFINE_string(
  "trees",
  "chain:3 kary:2x2 eagle",
  "Trees, separated by spaces, in any form that tree.parse reads.",
)
_VOCAB = flags.DEFINE_integer("vocab", 3, "Tokens in the vocabulary.")
_CASES = flags.DEFINE_integer("cases", 27, "Random laws for each row.")
_DRAFTS = flags.DEFINE_integer(
  "drafts", 1000, "Drafts where there are too many to enumerate."
)
_SEED = flags.DEFINE_integer("seed", 0, "Seed of the laws and the drafts.")
_SVG = flags.DEFINE_string(
  "svg", None, "A file to save the table's picture in."
)
_F32 = flags.DEFINE_bool("f32", False, "In float32, not float64.")

# A progress bar appears when the work takes longer than this.
_PATIENCE = 2.0


def main(argv):
  """Prints the certificate; exits with 1 if a rule fails, 2 on a bad flag."""
  try:
    if argv[1:]:
      raise ValueError(f"unexpected argument {argv[1]!r}; flags start with --")
    plan, settings = _plan()
  except ValueError as error:
    sys.exit(_complain(error))
  logging.set_verbosity(logging.WARNING)
  jax.config.update("jax_enable_x64", not _F32.value)
  started = time.monotonic()
  rows = _run(plan, settings)
  console = rich.console.Console()
  result = certify.table(row[:4] for row in rows)
  # A table that would be broken over lines is easier to read and to pipe whole.
  if console.is_terminal:
    console.print(result)
  else:
    print(certify.text(result))
  print(certify.LEGEND)
  if _SVG.value:
    certify.save_picture(result, _SVG.value)
  failed = [row for row in rows if not row[3].lossless]
  for name, proposal, shape, check, rule in failed:
    failure = certify.smallest_failure(
      rule, PROPOSALS[proposal], check.failure, settings
    )
    print(
      f"\nNOT LOSSLESS: {name}, {proposal}, {shape}; smallest failing case:"
    )
    print(certify.spell_out(failure))
  print(
    f"\n{len(rows) - len(failed)} of {len(rows)} rows are lossless, in"
    f" {'float32' if _F32.value else 'float64'},"
    f" {time.monotonic() - started:.0f} s"
  )
  sys.exit(1 if failed or not rows else 0)


def _plan():
  """The rows to make, and how much to check; refuses what it can't do."""
  for flag in (_VOCAB, _DRAFTS):
    if flag.value < 2:
      raise ValueError(f"--{flag.name}={flag.value}: give 2 or more")
  if _SEED.value < 0:
    raise ValueError(f"--seed={_SEED.value}: give 0 or more")
  if _SVG.value and not pathlib.Path(_SVG.value).parent.is_dir():
    raise ValueError(f"--svg={_SVG.value}: there is no such folder")
  if _CASES.value < 1:
    raise ValueError(f"--cases={_CASES.value}: give 1 or more")
  names = _VERIFIER.value or list(VERIFIERS)
  rules = {name: resolve(name) for name in names}
  proposals = {name: resolve_proposal(name) for name in _PROPOSALS.value}
  trees = {text: _parse(text) for text in _TREES.value.split()}
  plan = [
    (name, proposal, shape, rules[name], proposals[proposal], trees[shape])
    for name in rules
    for proposal in proposals
    for shape in trees
    if not misfit(rules[name], trees[shape], proposals[proposal])
  ]
  if not plan:
    raise ValueError("nothing to certify: no rule is defined on these trees")
  settings = certify.Settings(
    vocabulary=_VOCAB.value,
    cases=_CASES.value,
    drafts=_DRAFTS.value,
    dtype=np.float32 if _F32.value else np.float64,
    seed=_SEED.value,
  )
  return plan, settings


def _parse(text):
  try:
    return tree.parse(text)
  except ValueError as error:
    raise ValueError(f"{error}; separate trees by spaces") from error


def _run(plan, settings):
  """The rows: names, what was found, and the rule."""
  rows = []
  progress = rich.progress.Progress(
    *rich.progress.Progress.get_default_columns(),
    console=rich.console.Console(stderr=True),
    transient=True,
  )
  task = progress.add_task("", total=len(plan) * settings.cases)
  started = time.monotonic()

  def tick():
    progress.advance(task)
    if time.monotonic() - started > _PATIENCE:
      progress.start()

  try:
    for name, proposal_name, shape, rule, proposal, parsed in plan:
      progress.update(task, description=f"{name}, {proposal_name}, {shape}")
      try:
        check = certify.check(rule, proposal, parsed, settings, tick)
      except (TypeError, ValueError) as error:
        progress.stop()
        sys.exit(_complain(f"{name} on {shape}: {error}"))
      rows.append((name, proposal_name, shape, check, rule))
  finally:
    progress.stop()
  return rows


def _complain(error) -> int:
  print(f"certify: {error}", file=sys.stderr)
  return 2


def _parse_flags(argv):
  try:
    return flags.FLAGS(argv)
  except flags.Error as error:
    return sys.exit(_complain(error))


if __name__ == "__main__":
  endings.run(lambda heard: app.run(main, flags_parser=_parse_flags))
