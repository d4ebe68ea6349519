"""Settings that several configs of this folder share."""

from collections.abc import Iterable

import ml_collections

from tv_jax import runs
from tv_jax.io.errors import UserError

# Spec-Bench's limits and the paper's three runs. Prompts are padded to their
# maximum length, so that a single program serves both turns.
SPEC_BENCH = {
  "questions": "spec_bench:data/spec_bench/question.jsonl",
  "seeds": (0, 1, 2),
  "max_new_tokens": 1024,
  "max_tokens": 1960,
  "padded_to": 1960,
  "timing": {"per_task": 5},
}
# The changes for `smoke`: everything happens, and nothing takes long.
SMOKE = {
  "per_task": 2,
  "seeds": (0,),
  "max_new_tokens": 64,
  "timing": {"per_task": 1},
}

# The paper's main table of a pair that a laptop decodes, lengths alone: hours
# on two cores. The traversal runs; token-level verification is evaluated on its
# drafts.
PAPER = {
  "questions": "spec_bench:data/spec_bench/question.jsonl",
  "per_task": 10,
  "seeds": (0, 1, 2),
  "trees": "chain:5 kary:2x5 eagle",
  "verifiers": "traversal",
  "plain": False,
  "batch_size": 8,
  "timing.per_task": 0,
  "explorer.per_task": 0,
}
# All rules agree at temperature 0: one runs, on chains.
GREEDY = {
  "temperatures": (0.0,),
  "trees": "chain:5",
  "verifiers": "traversal",
  "per_task": 2,
}

# The bundled target's drafts, by a config's argument.
DRAFTS = {
  "": "bundled/draft",
  "weak": "bundled/draft_weak",
  "eagle": "bundled/eagle",
  "eagle3": "bundled/eagle3",
  "dspark": "bundled/dspark",
}


def config(experiment: str, **fields) -> ml_collections.ConfigDict:
  """A run of the paper's main table: `tv_jax.runs.Run` explains each field.

  Args:
    experiment: The run's name.
    **fields: Values to set; of a group, the values to change.
  """
  defaults = runs.to_dict(runs.Run(experiment=experiment))
  for name in runs.NAMES:  # in one text, with spaces between
    defaults[name] = " ".join(defaults[name])
  result = ml_collections.ConfigDict(defaults)
  result.update(fields)
  return result


def named(experiment: str, arg: str, known: Iterable[str]) -> str:
  """Returns a run's name, its argument included, which has to be known."""
  if arg not in known:
    names = ", ".join(filter(None, known))
    raise UserError(
      f"config argument {arg!r}: {experiment} takes {names}, or none"
    )
  return f"{experiment}_{arg}" if arg else experiment


def bundled(experiment: str, arg: str, **fields) -> ml_collections.ConfigDict:
  """A run of the bundled target on MiniBench, with the draft `DRAFTS[arg]`."""
  name = named(experiment, arg, DRAFTS)
  result = config(
    name,
    models={"target": "bundled/target", "draft": DRAFTS[arg]},
    exact_match=True,
    padded_to=128,
    # Rows wait for the longest of their batch, and a CPU computes them all.
    batch_size=8,
  )
  result.update(fields)
  return result


def laptop(
  experiment: str, arg: str, variants: dict, models: dict
) -> ml_collections.ConfigDict:
  """A run of a real pair on two cores: three everyday questions of each task.

  Args:
    experiment: The run's name.
    arg: A key of `variants`, `paper`, `greedy`, or none.
    variants: The fields to change, by argument.
    models: The target and the draft.
  """
  variants = {"": {}, "paper": PAPER, "greedy": GREEDY} | variants
  result = config(
    named(experiment, arg, variants),
    models=models,
    questions="everyday",
    per_task=3,
    trees="chain:5 eagle",
    # Enough to see lengths; a whole answer takes several times as long.
    max_new_tokens=64,
    # Room for every prompt: second turns use the same program.
    padded_to=512,
    # As many as second turns: rows without a prompt take as long as others.
    batch_size=3,
  )
  result.update_from_flattened_dict(variants[arg])
  return result


def spec_bench(
  experiment: str, arg: str, **fields
) -> ml_collections.ConfigDict:
  """A run on Spec-Bench's questions, or with arg `smoke` on a few of them."""
  result = config(named(experiment, arg, ("", "smoke")), **SPEC_BENCH)
  result.update(fields)
  if arg:
    result.update(SMOKE)
  return result
