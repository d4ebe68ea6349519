"""Drafts compared: what the rule, the tree and both give.

`drafts` compares a chain of seven that is verified token by token, as drafts of
2026 are published, with the paper's trees. The traversal decodes each tree, and
the expected length of token-level verification is computed on the same drafts.
Several configs of the same target show its drafts one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from experiments import experiment, figures, paper, sweeps
from experiments.experiment import Experiment, Group
from tv_jax.runs import stats
from tv_jax.runs.tables import Report, Table, texts

BASE, RAN = RULES = "token_level", "traversal"
TREES = "chain:7", "eagle", "kary:2x5"
NOTE = (
  "Gain: over the first row, paired by question; other trees have other drafts."
  " Length: the tokens that a rule expects to"
  " gain in a cycle, computed without sampling, in each question first with its"
  " seeds pooled, then over questions; ± is the standard error over questions."
  " One rule runs, and the other's length is for the same drafts. The longest"
  " is the longest on these very questions. Check: realised minus expected"
  " length, which must be 0 within its error."
)


def render(groups: Sequence[Group]) -> Report:
  """Makes a table of each group, and draws lengths against nodes."""
  report, panels = Report(), {}
  for group in groups:
    drafted = group.drafted
    suits = (drafted["verifier"] == RAN) & drafted["tree"].isin(TREES)
    suits &= drafted["proposal"] == paper.PROPOSAL
    for hot, cycles in drafted[suits].groupby("temperature"):
      title = f"{group.name}, T = {hot:g}"
      lengths, gains, check = compared(cycles)
      nodes = lengths.index.get_level_values("tree").map(sweeps.nodes)
      cells = pd.DataFrame(
        {
          "gain": texts(gains, "+.1f", " %"),
          "length": texts(lengths, ".3f"),
          "check": texts(check, "+.3f"),
        }
      )
      names = lengths.index.to_frame(index=False)
      names.insert(0, "drafted", nodes.map("{:g}".format))
      cells.index = pd.MultiIndex.from_frame(names)
      report.tables.append(Table(title, cells))
      report.findings.append(f"{title}: {_longest(gains)}.")
      rules = lengths.index.get_level_values("rule")
      panels[title] = lengths.set_axis(
        pd.MultiIndex.from_arrays([rules, nodes], names=["rule", "nodes"])
      )
    report.notes += group.notes
  names = "-".join(group.name for group in groups)
  if panels:
    report.figures[f"drafts-{names}"] = figures.lines(
      panels, x="drafted nodes", y="tokens a cycle", height=4.0
    )
  report.notes.append(NOTE)
  return report


def compared(cycles: pd.DataFrame) -> tuple[pd.DataFrame, ...]:
  """Returns lengths, gains and checks of both rules, by tree and rule.

  The gains are over the first row, paired by question: NaN there, and where no
  question was asked of both trees. The checks are of the rule that ran.
  """
  each = {
    rule: stats.questions(cycles, "tree", f"expected_{rule}").rename("length")
    for rule in RULES
  }
  table = pd.concat(each, names=["rule"]).reset_index()
  for name, order in (("tree", TREES), ("rule", RULES)):
    table[name] = pd.Categorical(table[name], order)
  by = ["tree", "rule"]
  first = (table["tree"] == TREES[0]) & (table["rule"] == BASE)
  base = table.loc[first, ["question", "length"]]
  both = table[~first].merge(base, on="question", suffixes=("", "_first"))
  lengths = stats.independent(table, by, "length")
  gains = stats.ratio(both, by, ["length"], ["length_first"])
  check = stats.check(cycles, ["tree", "verifier"]).rename_axis(by)
  check = check.reindex(lengths.index)
  return lengths, stats.percent(gains).reindex(lengths.index), check


def _longest(gains: pd.DataFrame) -> str:
  """Says which rule and tree are longest."""
  known = gains.dropna(subset="mean")
  if known.empty:
    return "no question was asked of both"
  longest: Any = known["mean"].idxmax()
  tree, rule = longest
  than = f"longer than {BASE} on {TREES[0]}"
  if known["mean"].max() <= 0:
    return f"nothing is {than}"
  gain = texts(known, "+.1f", " %")[longest]
  sure = sweeps.sigmas(known.loc[longest])
  return f"{rule} on {tree} is {gain} {than} ({sure})"


DRAFTS = Experiment(
  name="drafts",
  title="Which draft: what the rule, the tree and both give",
  # The config's own seeds.
  sweep=lambda config, smoke: experiment.by_seed(config, smoke, config.seeds),
  render=render,
  configs=(
    "quickstart",
    *(f"quickstart:{kind}" for kind in ("eagle", "eagle3", "dspark")),
  ),
  base={
    "trees": " ".join(TREES),
    "verifiers": RAN,
    "baseline": BASE,
    "proposals": paper.PROPOSAL,
    "plain": False,
    **experiment.LENGTHS_ALONE,
  },
)
