"""The paper's Tables 2 and 3: both rules on its three trees, at temperature 1.

  python -m experiments.main_table
  python -m experiments.main_table --config=configs/llama3_1b_8b.py
  python -m experiments.main_table runs/llama3_1b_8b

The first asks both bundled drafts, three seeds each; the third makes the table
of a finished run. It must hold temperature 1, drawn without replacement; what
it lacks of the table is a dash. The paper's numbers stand beside, those of its
pair that is nearer; with other models they are there for their pattern alone.
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
  "Token/s: one row at a time, prompts included, all methods in turn on the"
  " same few questions of the first seed, ± as far as these differ; of separate"
  " runs, so that in Delta is how long these few answers happened to be. Under"
  " same drafts the gain in tokens a second without that, but for the prompts'"
  " share of a cycle: the gain in length on the same drafts, of all questions,"
  " less what a cycle takes longer.",
)

AT_ONE = Method(proposal=comparing.PROPOSAL, temperature=1.0)


def sweep(config, smoke: bool) -> Iterator[Shard]:
  """A shard for each seed; the first is timed."""
  for i, seed in enumerate(experiment.seeds(config)[: 1 if smoke else None]):
    own = {"seeds": (seed,)}
    if i:
      own |= {"timing.per_task": 0, "plain": False}
    yield Shard(f"seed-{seed}", own)


def render(groups: Sequence[Group]) -> Artefact:
  """A table for each tree of each group."""
  made, told, notes = [], [], []
  for group in groups:
    beside = closest(group)
    if not any(a.method.tree in paper.TREES for a in group.answers):
      raise ValueError(
        f"{group.name}: the run has none of the paper's trees:"
        f" {', '.join(paper.TREES)}"
      )
    for tree in paper.TREES:
      made.append(_table(group, tree, beside))
    told += reading(group)
    notes += [*comparing.notes(group), source(beside)]
  notes += [*comparing.DEFINITIONS, *DEFINITIONS]
  return Artefact(told, made, {}, [*dict.fromkeys(notes)])


def closest(group: Group) -> paper.MainTable:
  """The paper's table that is the nearest: by the target, or a weak draft."""
  models = group.config["models"]
  small = "llama-2" in models["target"].lower() or "weak" in models["draft"]
  return paper.LLAMA2 if small else paper.LLAMA3


def source(beside: paper.MainTable) -> str:
  """What the paper's numbers are of."""
  return (
    f"The paper (arXiv 2505.12398, {beside.label}): {beside.target} with"
    f" {beside.draft}, averages of three runs with their standard errors; plain"
    f" decoding {beside.plain.mean} ± {beside.plain.error} tokens/s on an RTX"
    " A6000."
  )


def reading(group) -> Iterator[str]:
  """How large the gain is, and how sure."""
  gains = {
    tree: comparing.compare(group.answers, comparing.on(AT_ONE, tree)).gain
    for tree in paper.TREES
  }
  told = [
    f"{comparing.percent(gain)} on {tree} ({comparing.word(gain)})"
    for tree, gain in gains.items()
    if gain
  ]
  if told:
    yield (
      f"{group.models}: on the same drafts the traversal gains"
      f" {', '.join(told)}."
    )


def _table(group, tree, beside) -> Table:
  rows = []
  for task in (*paper.TASKS, ALL):
    answers = [a for a in group.answers if task in (a.task, ALL)]
    own = comparing.compare(answers, comparing.on(AT_ONE, tree))
    theirs = beside.acceptance.get(task, beside.average_acceptance)[tree]
    name = TASKS.get(task, "Avg. accept.")
    rows.append([name, *own.row, *comparing.printed(theirs)])
  # The last is of all tasks.
  rows += _speeds(group, tree, own.gain, beside)
  return comparing.table(f"{group.name}, {tree}", ["task"], rows)


def _speeds(group, tree, gain, beside) -> list[list[str]]:
  """Tokens a second, and times plain decoding's."""
  printed = beside.tokens_per_second[tree]
  theirs = [printed.token_level.mean, printed.traversal.mean]
  ups = [f"{value / beside.plain.mean:.2f}x" for value in theirs]
  times = times_of(group, tree)
  own = [times.get(rule) for rule in paper.VERIFIERS]
  plain = times.get(PLAIN)
  delta = net = None
  if all(own):
    base, best = own
    delta = f"{100 * (best.speedup(base).mean - 1):+.1f}%"
    net = gain and metrics.net(gain, best.slower(base))
  return [
    [
      "Avg. token/s",
      *(tables.estimate(one and one.speed, ".1f") for one in own),
      delta or NOTHING,
      comparing.percent(net),
      NOTHING,
      *comparing.printed(printed, 1),
    ],
    [
      "Speed-up",
      *(speedup(one, plain) for one in own),
      *[NOTHING] * (len(comparing.HEADER) - len(own)),
      *ups,
      NOTHING,
    ],
  ]


def speedup(times: Times | None, plain: Times | None) -> str:
  """Over plain decoding, for example 1.44 ± 0.05x; a dash of what is not."""
  return f"{times.speedup(plain):.2f}x" if times and plain else NOTHING


def times_of(group: Group, tree: str) -> dict[str, Times]:
  """By rule, plain decoding among them, what was timed on a tree.

  Of the first run that has timed it, at temperature 1: times of several runs
  are not compared.
  """
  for unit in group.units:
    found = {}
    for one in (unit.timing or {"methods": []})["methods"]:
      method = Method.of(one)
      drawn = method.plain or method.proposal == AT_ONE.proposal
      known = method.plain or method.tree == tree
      if method.temperature == AT_ONE.temperature and drawn and known:
        found[method.verifier] = Times.of(one)
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
