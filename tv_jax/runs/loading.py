"""The pair of a run, which is refused if its batches cannot fit."""

import os

import jax

import tv_jax.engine.pair
from tv_jax import drafting, models
from tv_jax import tree as tree_lib
from tv_jax.edge.reading import place_of
from tv_jax.engine import sizes
from tv_jax.engine.pair import Pair
from tv_jax.models import memory, sharding
from tv_jax.runs.settings import Run


def load(settings: Run) -> Pair:
  """The pair of a run's settings."""
  own, mesh = settings.models, None
  there, processes = jax.device_count(), jax.process_count()
  if processes > 1 and own.devices != there:
    raise ValueError(
      f"models.devices={own.devices}: the {processes} processes have {there}"
      f" devices, of which each must be used: give models.devices={there}"
    )
  if own.devices > 1:
    if there < own.devices:
      raise ValueError(
        f"models.devices={own.devices}: there are only {there} devices"
      )
    mesh = sharding.mesh(jax.devices()[: own.devices])
  draft, target = map(place_of, (own.draft, own.target))
  check(settings, target, draft)
  return tv_jax.engine.pair.load(
    draft,
    target,
    draft_kind=own.draft_kind,
    dtype=own.dtype or None,
    mesh=mesh,
    shard_draft=own.shard_draft,
    draft_revision=own.draft_revision or None,
    revision=own.revision or None,
  )


def check(settings: Run, target: str, draft: str) -> None:
  """Refuses a run of which some batch cannot fit, before a weight is read.

  Checkpoints on the hub are no files here yet: what they take is checked once
  they are loaded, for each batch before it is compiled.

  Raises:
    ValueError: In one line, the estimate and the remedy, or what is wrong with
      a config.json.
  """
  if not (os.path.isdir(target) and os.path.isdir(draft)):
    return
  own = settings.models
  way, dtype = drafting.KINDS[own.draft_kind], own.dtype or None
  if dtype is None and jax.default_backend() == "cpu":
    dtype = "float32"
  target_config = models.read_config(target, dtype)
  draft_config = way.read_config(draft, target_config, dtype)
  prompt = sizes.prompt_slots(max(settings.padded_to, 1))
  new = sizes.new_slots(settings.max_new_tokens)
  traced = settings.explorer.cycles if settings.explorer.per_task else 0
  for tree in (None, *map(tree_lib.parse, settings.trees)):
    batch = sizes.Batch(
      rows=settings.batch_size,
      prompt=prompt,
      new=new,
      panel=len({*settings.verifiers, settings.baseline}) if tree else 0,
      trace=min(traced, settings.max_new_tokens) if tree else 0,
      devices=own.devices,
      split_draft=way.follows_target or own.shard_draft,
    )
    drafted = draft_config if tree else None
    parts = sizes.estimate(target_config, drafted, own.draft_kind, tree, batch)
    what = sizes.describe(settings.batch_size, prompt, new, tree)
    memory.check(parts, jax.devices()[: own.devices], what)
