"""Small grids, and runs of them whose lines are written by hand."""

import csv
import json

import numpy as np

import tv_jax
from configs import quickstart
from experiments import experiment
from tv_jax import runs
from tv_jax.runs import sources, store
from tv_jax.runs.records import KEY


def config(**fields):
  """Returns a small grid: one tree and three tasks, one with second turns."""
  result = quickstart.get_config()
  result.update(
    {
      "tasks": "mt_bench qa rag",
      "per_task": 2,
      "trees": "kary:2x2",
      "max_new_tokens": 12,
      "batch_size": 4,
      "padded_to": 64,
    }
  )
  result.timing.per_task = 0
  for name, value in fields.items():
    group, _, leaf = name.rpartition("__")
    place = result[group] if group else result
    place[leaf] = value
  return result


def expected_length(cycle, rule):
  """Returns the expected length of a rule on a traced draft."""
  tree = tv_jax.tree.Tree(tuple(cycle["parents"]))
  return float(np.array(cycle["stop"][rule]) @ (tree.depth + 1))


def hashes(**fields):
  settings = runs.from_config(config(**fields))
  return sources.hashes(settings, runs.read_questions(settings))


RULES = ("token_level", "traversal")


def items(
  trees=("chain:5", "eagle"),
  questions=range(1, 13),
  tasks=("qa", "mt_bench"),
  rules=RULES,
  cycles=20,
  seed=0,
):
  """Makes lines of two tasks with random lengths."""
  rng = np.random.default_rng(seed)
  for question in questions:
    task = tasks[question % 2]
    made = [line("none", "plain", task, question, [1] * 5)]
    for tree in trees:
      for i, rule in enumerate(rules):
        own = rng.uniform(2, 4, cycles)
        accepted = 1 + rng.poisson(own - 1 + 0.1 * i)
        told = {"token_level": own.tolist(), "traversal": (own + 0.1).tolist()}
        drafted = rng.integers(3, 6, cycles).tolist()
        kept = line(tree, rule, task, question, accepted.tolist(), told)
        made.append(kept | {"drafted": drafted})
    for one in made:
      yield one | {"right": bool(rng.integers(2))}


def line(tree, verifier, task, question, accepted, expected=None, **fields):
  """A line of items.jsonl."""
  return {
    "task": task,
    "question": question,
    "turn": 0,
    "tree": tree,
    "proposal": "none" if tree == "none" else "without_replacement",
    "verifier": verifier,
    "temperature": 1.0,
    "seed": 0,
    "tokens": [1, 2],
    "text": "a <b>",
    "right": True,
    "stops": [1],
    "faults": 0,
    "accepted": accepted,
    "expected": expected or {},
  } | fields


def unit(folder, answers, finish=True, **fields):
  """Writes a run of these answers; its config has their trees."""
  trees = dict.fromkeys(answer["tree"] for answer in answers)
  named = " ".join(tree for tree in trees if tree != "none")
  settings = config(**{"trees": named or "chain:5"} | fields)
  kept = runs.to_dict(runs.from_config(settings))
  with store.Store(folder, kept, {"jax": "1"}) as results:
    results.begin(len(answers))
    for line in answers:
      results.append(line)
    if finish:
      results.finish()
  return folder


def failed(line, why):
  return {name: line[name] for name in KEY} | {"error": why}


def timed(tree, rule, tokens, seconds, cycles):
  proposal = "none" if tree == "none" else "without_replacement"
  return {
    **{"tree": tree, "proposal": proposal, "verifier": rule},
    **{"temperature": 1.0, "questions": [1, 2, 3], "tasks": ["qa"] * 3},
    **{"tokens": tokens, "seconds": seconds, "cycles": cycles},
    "compile_seconds": 1.0,
  }


def keep_times(folder, methods):
  told = {"environment": {"date": "2026-01-02"}, "methods": methods}
  (folder / "timing.json").write_text(json.dumps(told))


def rows_of(path):
  with path.open() as file:
    return list(csv.DictReader(file))


def render(name, folder):
  return experiment.find(name).render([experiment.read(folder)])
