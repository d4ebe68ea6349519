"""Audits an engine end to end: `python -m tv_jax.audit --help`.

Decodes many rows with tiny random models and tests the distribution of their
first tokens against the target's, which is enumerated, for every kind of draft,
rule and proposal, with quantised weights, and in slots that are refilled. A
certificate (`tv_jax.certify`) covers a rule alone. This test covers the engine
as well: prompts, caches, commits, random keys and the bonus token.

With --samples it tests the samples of any other engine (docs/samplers.md).
"""

import itertools
import math
import pathlib
import sys
import zlib

import numpy as np
from absl import flags

from tv_jax import models, verifiers
from tv_jax import tree as tree_lib
from tv_jax.certify.engine import expected, samples, statistics, tiny_pairs
from tv_jax.io import cli, reading
from tv_jax.io.errors import UserError
from tv_jax.io.names import raised, split
from tv_jax.models import native
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
  "kinds", " ".join(tiny_pairs.KINDS), "Kinds of draft."
)
_EVERY = flags.DEFINE_bool(
  "every",
  False,
  "Audit all combinations, as if trees, temperatures or top-p are given. By"
  " default each kind of draft, rule and proposal is audited on one of the"
  " trees, at one of the temperatures and truncations.",
)
_TEMPERATURES = flags.DEFINE_string(
  "temperatures", None, "Above 0. Default: 0.5 and 1; with --samples 1."
)
_TOP_P = flags.DEFINE_string(
  "top_p", None, "Truncations. Default: 1 and 0.8; with --samples 1."
)
_ROWS = flags.DEFINE_integer("rows", 200_000, "Rows decoded in each case.", 1)
_SEED = flags.DEFINE_integer("seed", 0, "Seed of all draws.", 0)
_SAMPLES = flags.DEFINE_string(
  "samples", None, "A file of another engine's samples, to test instead."
)
_MODEL = flags.DEFINE_string(
  "model", None, "With --samples: the folder with target/ and prompts.jsonl."
)
_TOKENS = flags.DEFINE_integer(
  "tokens", None, "With --samples: how many new tokens are tested.", 1
)
_WITHIN = flags.DEFINE_float(
  "within", 0.02, "With --samples: the TV that is lossless.", 1e-6, 0.5
)
_BATCH = 4_000  # rows decoded together
_CONFIDENCE = 0.99  # of each verdict about samples
_UNCLEAR = 3  # the exit status if samples are too few


def main() -> int:
  """Prints a line for each case; returns 1 if one fails."""
  if _SAMPLES.value:
    return _audit_samples(_SAMPLES.value)
  plan, rows, drifts, total = _plan(), [], {}, 0
  for names, case in plan:
    # Each case has its own draws, so that the p-values are independent.
    seed = zlib.crc32(f"{_SEED.value} {' '.join(names)}".encode())
    # Refilling slots one by one is slow, and the same programs run.
    asked = max(1, _ROWS.value // (5 if case.refills else 1))
    size = min(_BATCH, asked)
    try:
      if names[:2] not in drifts:
        drifts[names[:2]] = expected.drift(case)
      counts, cycles, faults = tiny_pairs.count(case, asked, size, seed)
    except Exception as error:  # a user's rule may raise anything
      raise UserError(f"{' '.join(names)}: {raised(error)}") from error
    total += counts.sum()
    p_value = statistics.chi_square(counts, expected.law(case))
    row = " ".join(names), p_value, cycles, faults, drifts[names[:2]]
    rows.append(statistics.CaseResult(*row))
    print(f"{len(rows)}/{len(plan)} {rows[-1]}", flush=True)
  failures = [x for row in rows for x in statistics.failures(row, len(rows))]
  least, uniform = min(row.p_value for row in rows), statistics.uniform(rows)
  if len(rows) >= 20 and uniform < statistics.LEVEL:
    failures.append(f"the p-values are not uniform: p = {uniform:.1e}")
  print(
    f"{len(rows)} cases, {total:,} rows in all: the least p-value is"
    f" {least:.2g}, or {min(1, least * len(rows)):.2g} for so many; p-values"
    f" against the uniform law: {uniform:.2g}"
  )
  for line in failures:
    print(line)
  return int(bool(failures))


def _plan() -> list[tuple[tuple[str, ...], tiny_pairs.EngineCase]]:
  """Returns the cases by name."""
  rules, drawn, trees, kinds = (
    split(flag.value) for flag in (_VERIFIERS, _PROPOSALS, _TREES, _KINDS)
  )
  rules = {name: verifiers.resolve(name) for name in rules}
  drawn = {name: resolve_proposal(name) for name in drawn}
  trees = {text: tree_lib.parse(text) for text in trees}
  known = tiny_pairs.KINDS
  if tiny_pairs.QUANTISED in kinds and not native.used():
    reason = "quantised weights need a CPU and a C++ compiler"
    if _KINDS.present:
      raise UserError(f"draft {tiny_pairs.QUANTISED!r}: {reason}")
    print(f"{reason}: their cases are left out", file=sys.stderr)
    kinds.remove(tiny_pairs.QUANTISED)
  if unknown := {*kinds} - {*known}:
    raise UserError(f"draft {min(unknown)!r}: not one of {', '.join(known)}")
  truncations = [*itertools.product(*_truncations("0.5 1", "1 0.8"))]
  # What is asked for is audited.
  asked = any(flag.present for flag in (_TREES, _TEMPERATURES, _TOP_P))
  plan, every = [], _EVERY.value or asked
  for kind, rule, proposal in itertools.product(kinds, rules, drawn):
    settings = [
      (shape, *truncation)
      for shape, truncation in itertools.product(trees, truncations)
      if not verifiers.unsupported_reason(
        rules[rule], trees[shape], drawn[proposal]
      )
    ]
    if settings and not every:
      # With these steps, all pairs of two options occur by default.
      number = [*rules].index(rule) + [*PROPOSALS, *drawn].index(proposal)
      place = known.index(kind) + 3 * number
      settings = [settings[place % len(settings)]]
    for shape, temperature, top_p in settings:
      case = tiny_pairs.case(
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
    raise UserError("nothing to audit: no rule is defined on these trees")
  return plan


def _truncations(temperatures: str, top_p: str) -> list[list[float]]:
  """Returns the temperatures and top-p values, with defaults."""
  temperatures = _TEMPERATURES.value or temperatures
  top_p = _TOP_P.value or top_p
  try:
    found = [[*map(float, split(text))] for text in (temperatures, top_p)]
  except ValueError as error:
    raise UserError(f"--temperatures, --top_p: {error}") from None
  if min(found[0]) <= 0:
    raise UserError(f"--temperatures={temperatures}: give above 0")
  if not 0 < min(found[1]) <= max(found[1]) <= 1:
    raise UserError(f"--top_p={top_p}: give numbers in (0, 1]")
  return found


def _audit_samples(path: str) -> int:
  """Prints what samples show; 0 lossless, 1 not lossless, 3 not clear yet."""
  if _MODEL.value is None:
    raise UserError("--samples: give --model, the folder of target/")
  folder = pathlib.Path(_MODEL.value).expanduser()
  prompts = [
    raw["prompt"] for _, _, raw in reading.json_lines(folder / "prompts.jsonl")
  ]
  target = models.load(folder / "target", "float32")
  (temperature, *_), (top_p, *_) = _truncations("1", "1")
  V, within = target.config.vocab_size, _WITHIN.value
  K = _TOKENS.value or samples.usual_tokens(V)
  law = samples.law(target, prompts, K, temperature=temperature, top_p=top_p)
  which, codes = samples.read(path, prompts, V, K)
  wealth = samples.wealth(law, which, codes) / math.log(10)
  used, bound = samples.upper_bound(law, which, codes, _CONFIDENCE)
  odd = samples.worst(law, samples.count(law, which, codes))
  print(
    f"samples  {len(codes):,}: {K} tokens after {len(prompts)} prompts,"
    f" {law.size:,} sequences; temperature {temperature:g}, top-p {top_p:g}\n"
    f"wealth   10^{wealth.max():.1f} after {wealth.argmax() + 1:,} samples,"
    f" 10^{wealth[-1]:.1f} at the end; 10^2 convicts\n"
    f"TV       {bound:.4f} or less (the first {used:,} samples)\n"
    f"worst    after prompt {odd.prompt}, {' '.join(map(str, odd.tokens))} came"
    f" {odd.seen:,} times of {odd.of:,}, expected {odd.of * odd.chance:,.1f}"
  )
  rejected = np.flatnonzero(wealth >= -math.log10(1 - _CONFIDENCE))
  clear = f"clear after {rejected[0] + 1:,} samples" if len(rejected) else ""
  if bound <= within:
    status, verdict = 0, f"LOSSLESS, within TV {within:g}"
    verdict += f"; it is not exact, {clear}" if clear else ""
  elif clear:
    status, verdict = 1, f"NOT LOSSLESS: {clear}"
  else:
    status, verdict = _UNCLEAR, "NOT CLEAR YET: give more samples"
  print(f"verdict  {verdict} (confidence {_CONFIDENCE:g})")
  return status


if __name__ == "__main__":
  cli.run("tv_jax.audit", main)
