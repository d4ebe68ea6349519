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
from tv_jax import metrics
from tv_jax.records import Method
from tv_jax.report.tables import ALL, NOTHING, TASKS, Table

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
  return Artefact(
    told, made, {}, [*dict.fromkeys([*notes, *comparing.DEFINITIONS])]
  )


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
  rows += _speeds(group, tree, beside)
  return comparing.table(f"{group.name}, {tree}", ["task"], rows)


def _speeds(group, tree, beside) -> list[list[str]]:
  """Tokens a second, and times plain decoding's."""
  printed = beside.tokens_per_second[tree]
  theirs = [printed.token_level.mean, printed.traversal.mean]
  ups = [f"{value / beside.plain.mean:.2f}x" for value in theirs]
  speeds = speeds_of(group)
  own = [speeds.get((tree, rule)) for rule in paper.VERIFIERS]
  plain = speeds.get(("none", "plain"))
  ours = [NOTHING if value is None else f"{value:.1f}" for value in own]
  delta = f"{100 * (own[1] / own[0] - 1):+.1f}%" if all(own) else NOTHING
  speedups = [f"{x / plain:.2f}x" if x and plain else NOTHING for x in own]
  more = [NOTHING] * (len(comparing.HEADER) - 3)
  return [
    ["Avg. token/s", *ours, delta, *more, *comparing.printed(printed, 1)],
    ["Speed-up", *speedups, NOTHING, *more, *ups, NOTHING],
  ]


def speeds_of(group: Group) -> dict[tuple[str, str], float]:
  """Tokens a second by tree and rule, at temperature 1, where measured."""
  found = {}
  for unit in group.units:
    for one in (unit.timing or {"methods": []})["methods"]:
      method = Method.of(one)
      drawn = method.plain or method.proposal == AT_ONE.proposal
      if method.temperature == AT_ONE.temperature and drawn:
        speed = metrics.speeds(one["tokens"], one["seconds"])[0]
        found[method.tree, method.verifier] = speed
  return found


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
