"""The paper's Tables 2 and 3: both rules on its three trees, at temperature 1.

  python -m experiments.main_table
  python -m experiments.main_table --config=configs/llama3_1b_8b.py
  python -m experiments.main_table runs/llama3_1b_8b

The first runs `draft` and `draft_weak` with three seeds each; the third makes
the table of a finished run, which must have temperature 1 and draws without
replacement. What the run lacks is a dash. Beside it are the paper's numbers for
its closest pair; for other models they show a pattern, not a reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from experiments import command, comparing, experiment, paper
from experiments.experiment import Artefact, Group, Shard
from tv_jax.runs import metrics
from tv_jax.runs.metrics import Times
from tv_jax.runs.records import PLAIN, Method
from tv_jax.runs.report import tables
from tv_jax.runs.report.tables import ALL, NOTHING, TASKS, Table

DEFINITIONS = (
  "Token/s: one question at a time, prompts included. All methods take turns on"
  " the same few questions of the first seed; ± shows how much these questions"
  " differ. Delta compares separate runs, so it also depends on how long these"
  " few answers happened to be. Same drafts is the gain in tokens/s without"
  " that: the gain in length on the same drafts, over all questions, less the"
  " extra time of a cycle. Only the prompts' share of a cycle still depends on"
  " the answers' length.",
)

AT_ONE = Method(proposal=comparing.PROPOSAL, temperature=1.0)


def sweep(
  config, smoke: bool, seeds: Sequence[int] = experiment.SEEDS
) -> Iterator[Shard]:
  """Makes a shard for each seed, as `by_seed` does; the first is timed."""
  count = 1 if smoke else None
  for i, shard in enumerate(experiment.by_seed(config, count, seeds)):
    untimed = {"timing.per_task": 0, "plain": False} if i else {}
    yield Shard(shard.name, shard.overrides | untimed)


def render(groups: Sequence[Group]) -> Artefact:
  """Makes a table for each tree of each group."""
  made = Artefact()
  for group in groups:
    beside = closest(group)
    if not any(a.method.tree in paper.TREES for a in group.answers):
      raise ValueError(
        f"{group.name}: the run has none of the paper's trees:"
        f" {', '.join(paper.TREES)}"
      )
    made.tables += [_table(group, tree, beside) for tree in paper.TREES]
    made.reading += reading(group)
    made.notes += [*comparing.notes(group), _source(beside)]
  made.notes += [*comparing.DEFINITIONS, *DEFINITIONS]
  made.notes = [*dict.fromkeys(made.notes)]
  return made


def closest(group: Group) -> paper.MainTable:
  """Returns the paper's table of the pair that is closest to the group's."""
  models = group.config["models"]
  small = "llama-2" in models["target"].lower() or "weak" in models["draft"]
  return paper.LLAMA2 if small else paper.LLAMA3


def _source(beside: paper.MainTable) -> str:
  return (
    f"The paper (arXiv 2505.12398, {beside.label}): {beside.target} with"
    f" {beside.draft}, averages of three runs with their standard errors; plain"
    f" decoding {beside.plain.mean} ± {beside.plain.error} tokens/s on an RTX"
    " A6000."
  )


def reading(group: Group) -> Iterator[str]:
  """Says how large the gain is, and how sure."""
  gains = {
    tree: comparing.compare(group.answers, comparing.on(AT_ONE, tree)).gain
    for tree in paper.TREES
  }
  if told := comparing.gains_by_tree(gains):
    yield f"{group.models}: on the same drafts the traversal gains {told}."


def _table(group, tree, beside) -> Table:
  rows, gain = [], None
  for task in (*paper.TASKS, ALL):
    answers = [a for a in group.answers if task in (a.task, ALL)]
    own = comparing.compare(answers, comparing.on(AT_ONE, tree))
    theirs = beside.acceptance.get(task, beside.average_acceptance)[tree]
    name = TASKS.get(task, "Avg. accept.")
    rows.append([name, *own.row, *comparing.printed(theirs)])
    gain = own.gain  # the last is of all tasks
  rows += _speeds(group, tree, gain, beside)
  return comparing.table(f"{group.name}, {tree}", ["task"], rows)


def _speeds(group, tree, gain, beside) -> list[list[str]]:
  """Makes the rows of tokens a second, and of speed-ups over plain decoding."""
  printed = beside.tokens_per_second[tree]
  theirs = [printed.token_level.mean, printed.traversal.mean]
  ups = [f"{value / beside.plain.mean:.2f}x" for value in theirs]
  times = times_of(group, tree)
  base, best = own = [times.get(rule) for rule in paper.VERIFIERS]
  delta, net = NOTHING, None
  if base and best:
    delta = f"{100 * (best.speedup(base).mean - 1):+.1f}%"
    net = gain and metrics.net(gain, best.slower(base))
  speeds = [tables.estimate(one and one.speed, ".1f") for one in own]
  ours = [speedup(one, times.get(PLAIN)) for one in own]
  missing = [NOTHING] * (len(comparing.HEADER) - len(own))
  return [
    [
      "Avg. token/s",
      *speeds,
      delta,
      comparing.percent(net),
      NOTHING,
      *comparing.printed(printed, 1),
    ],
    ["Speed-up", *ours, *missing, *ups, NOTHING],
  ]


def speedup(times: Times | None, plain: Times | None) -> str:
  """Returns a cell's text, as 1.44 ± 0.05x; a dash if it was not timed."""
  return f"{times.speedup(plain):.2f}x" if times and plain else NOTHING


def times_of(group: Group, tree: str) -> dict[str, Times]:
  """Returns the times of each rule on a tree, and of plain decoding.

  They are the first run's that has timed it at temperature 1: times of several
  runs are not compared.
  """
  for unit in group.units:
    found = {}
    for one in (unit.timing or {"methods": []})["methods"]:
      method = Method.of(one)
      own = method.plain or (method.tree, method.proposal) == (
        tree,
        AT_ONE.proposal,
      )
      if own and method.temperature == AT_ONE.temperature:
        found[str(method.verifier)] = Times.of(one)
    if {*found} - {PLAIN}:
      return found
  return {}


EXPERIMENT = experiment.Experiment(
  name="main_table",
  title="The paper's main table: three trees, both rules, temperature 1",
  sweep=sweep,
  render=render,
  configs=("quickstart", "quickstart:weak"),
  base={"temperatures": (1.0,), "timing.stages": "", "explorer.per_task": 0},
)


if __name__ == "__main__":
  command.run(EXPERIMENT)
