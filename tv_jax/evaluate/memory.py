"""Whether a run's batches fit, before a weight is read."""

from __future__ import annotations

import os

import jax

from tv_jax import drafting, memory, models
from tv_jax import tree as tree_lib
from tv_jax.evaluate.settings import Run
from tv_jax.generation import batches, sizes


def check(settings: Run, target: str, draft: str) -> None:
  """Refuses a run of which some batch cannot fit.

  Checkpoints on the hub are no files here yet: what they take is checked once
  they are loaded, for each batch before it is compiled.

  Args:
    settings: The run's.
    target: Where the target is.
    draft: Where the draft is.

  Raises:
    ValueError: In one line, the estimate and the remedy, or what is wrong with
      a config.json.
  """
  if not (os.path.isdir(target) and os.path.isdir(draft)):
    return
  kind = settings.models.draft_kind
  dtype = settings.models.dtype or None
  if dtype is None and jax.default_backend() == "cpu":
    dtype = "float32"
  target_config = models.read_config(target, dtype)
  way = drafting.KINDS[kind]
  draft_config = way.read_config(draft, target_config, dtype)
  count = settings.models.devices
  prompt = batches.prompt_slots(max(settings.padded_to, 1))
  new = batches.new_slots(settings.max_new_tokens)
  traced = settings.explorer.cycles if settings.explorer.per_task else 0
  for tree in (None, *map(tree_lib.parse, settings.trees)):
    parts = sizes.estimate(
      target_config,
      draft_config if tree else None,
      kind,
      tree,
      rows=settings.batch_size,
      prompt=prompt,
      new=new,
      panel=len({*settings.verifiers, settings.baseline}) if tree else 0,
      trace=min(traced, settings.max_new_tokens) if tree else 0,
      devices=count,
      split_draft=way.follows_target or settings.models.shard_draft,
    )
    what = sizes.describe(settings.batch_size, prompt, new, tree)
    memory.check(parts, jax.devices()[:count], what)
