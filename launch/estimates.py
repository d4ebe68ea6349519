"""What a unit will take of memory and time, before anything is run.

Memory is what `tv_jax.extents` reckons for a run, on a GPU, where weights are
in the dtype that they are stored in; hours are of the paper's own speeds, where
it printed any. Nothing here imports jax: models are read from their config.json
alone, or from the table of those that configs/ names.
"""

from __future__ import annotations

import functools
import itertools
import os
import pathlib
from collections.abc import Callable
from typing import NamedTuple

import ml_collections

from experiments import paper
from launch import shapes
from tv_jax import extents, names, prompts, reading
from tv_jax.extents import PLAIN
from tv_jax.reading import brief

BUNDLED = "bundled/"
DTYPES = ("float32", "bfloat16", "float16")
# Numbers in a layer beside a Llama's, by model_type: norms of C channels.
NORMS = {"llama": 0, "qwen3": 2}
# Draft kinds: whether the draft is a head on the target's features.
HEADS = {"independent": False, "llama": False, "eagle": True}
# What the paper's speeds are of. Colder ones are faster.
PROPOSAL, HOTTEST = "without_replacement", 1
CHAINS_ALONE = ("block",)  # rules that never run on another tree


class Estimate(NamedTuple):
  """What a unit takes; None for what is not known.

  Attributes:
    memory: Bytes on each device at least, by what takes them.
    memory_rests_on: In words; why it is not known, if it is not.
    hours: To decode, at most.
    hours_rest_on: Likewise.
  """

  memory: dict[str, int] | None
  memory_rests_on: str
  hours: float | None
  hours_rest_on: str

  @property
  def line(self) -> str:
    """In a line."""
    return f"{self._memory}, {self._hours}"

  @property
  def _memory(self) -> str:
    if self.memory is None:
      return f"memory unknown ({self.memory_rests_on})"
    whole = sum(self.memory.values())
    unit, scale = ("GB", 1e9) if whole >= 1e9 else ("MB", 1e6)
    amounts = {k: f"{v / scale:.1f}" for k, v in self.memory.items()}
    parts = [f"{k} {v}" for k, v in amounts.items() if float(v)]
    if self.memory_rests_on:
      parts[-1] += f"; {self.memory_rests_on}"
    return f"at least {whole / scale:.1f} {unit} ({', '.join(parts)})"

  @property
  def _hours(self) -> str:
    if self.hours is None:
      return f"hours unknown ({self.hours_rest_on})"
    digits = 1 if self.hours >= 0.1 else 3
    return (
      f"at most {self.hours:.{digits}f} h of decoding ({self.hours_rest_on})"
    )


class Model(NamedTuple):
  """What config.json says of a model, as far as its size depends on it."""

  model_type: str
  vocab_size: int
  hidden_size: int
  intermediate_size: int
  num_hidden_layers: int
  num_attention_heads: int
  num_key_value_heads: int
  head_dim: int
  tie_word_embeddings: bool
  dtype: str

  @property
  def layer(self) -> int:
    """How many numbers a layer's parameters are."""
    E, C = self.hidden_size, self.head_dim
    projections = 2 * self.num_attention_heads + 2 * self.num_key_value_heads
    mlp = 3 * E * self.intermediate_size
    return projections * C * E + mlp + 2 * E + NORMS[self.model_type] * C

  @property
  def weights(self) -> int:
    """Bytes of all parameters."""
    embeddings = 1 if self.tie_word_embeddings else 2
    outside = embeddings * self.vocab_size * self.hidden_size + self.hidden_size
    count = outside + self.num_hidden_layers * self.layer
    return count * extents.itemsize(self.dtype)

  @property
  def head(self) -> int:
    """Bytes of the parameters that are an EAGLE head's own."""
    E = self.hidden_size
    fusing = 2 * E * E + E
    return (fusing + self.layer - E) * extents.itemsize(self.dtype)


def _llama(V, E, F, layers, heads, groups, dtype, tied=False) -> Model:
  """A Llama whose heads are as wide together as it is."""
  shape = (V, E, F, layers, heads, groups, E // heads)
  return Model("llama", *shape, tied, dtype)


# Of each repository that configs/ names, its own config.json
# (huggingface.co/NAME/blob/main/config.json); tests count the parameters.
PUBLISHED = {
  "meta-llama/Llama-3.1-8B-Instruct": _llama(
    128256, 4096, 14336, 32, 32, 8, "bfloat16"
  ),
  "meta-llama/Llama-3.2-1B-Instruct": _llama(
    128256, 2048, 8192, 16, 32, 8, "bfloat16", tied=True
  ),
  "meta-llama/Llama-2-7b-hf": _llama(32000, 4096, 11008, 32, 32, 32, "float16"),
  "JackFram/llama-68m": _llama(32000, 768, 3072, 2, 12, 12, "float32"),
  "lmsys/vicuna-7b-v1.3": _llama(32000, 4096, 11008, 32, 32, 32, "float16"),
  "yuhuili/EAGLE-Vicuna-7B-v1.3": _llama(
    32000, 4096, 11008, 1, 32, 32, "float16"
  ),
}
# The pairs that the paper timed. A copy in a folder is known by its shape.
TIMED = (
  (
    "meta-llama/Llama-3.1-8B-Instruct",
    "meta-llama/Llama-3.2-1B-Instruct",
    paper.LLAMA3,
  ),
  ("meta-llama/Llama-2-7b-hf", "JackFram/llama-68m", paper.LLAMA2),
)


def of(config: ml_collections.ConfigDict) -> Estimate:
  """Of a unit's config, with everything that is set in it.

  What is wrong with a config is for the run to say: here it is a reason.
  """
  try:
    return _of(config)
  except (AttributeError, KeyError, TypeError) as error:
    reason = f"no config of a run: {' '.join(str(error).split())}"
    return Estimate(None, reason, None, reason)


def _of(config) -> Estimate:
  """Of a config with the fields of a run."""
  pair, memory, hours = _asked(config)
  rest = [] if config.padded_to else ["where prompts are short"]
  if config.models.devices > 1:
    rest.append(f"on each of {config.models.devices} devices")
  try:
    known = ({**_memory(*pair, **memory)}, ", ".join(rest))
  except ValueError as error:
    known = (None, str(error))
  try:
    timed = _hours(*pair, **hours)
  except ValueError as error:
    timed = (None, str(error))
  return Estimate(*known, *timed)


def _asked(config) -> tuple[tuple, dict, dict]:
  """The pair, and what else memory and hours depend on."""
  own, timing, explorer = config.models, config.timing, config.explorer
  trees, verifiers, proposals, tasks = (
    _names(config[name])
    for name in ("trees", "verifiers", "proposals", "tasks")
  )
  pair = (own.target, own.draft, own.draft_kind, own.dtype)
  memory = {
    "trees": trees,
    "rows": config.batch_size,
    "prompt": max(config.padded_to, 1),
    "limit": config.max_new_tokens,
    "panel": len({*verifiers, config.baseline}),
    "trace": explorer.cycles if explorer.per_task else 0,
    "devices": own.devices,
    "shard_draft": own.shard_draft,
  }
  hours = {
    "cells": (trees, proposals, verifiers, config.plain),
    "points": (tuple(config.temperatures), len(config.seeds)),
    "asked": (config.questions, tasks, config.per_task),
    "timed": (timing.per_task, timing.rounds),
    "limit": config.max_new_tokens,
  }
  return pair, memory, hours


def _names(value) -> tuple[str, ...]:
  """Names of which several may be in one text."""
  texts = [value] if isinstance(value, str) else value
  return tuple(name for text in texts for name in names.split(text))


def _once(function: Callable) -> Callable:
  """Remembers what came of each argument, an error too."""

  @functools.cache
  def tried(*arguments, **options):
    try:
      return function(*arguments, **options), None
    except ValueError as error:
      return None, str(error)

  @functools.wraps(function)
  def remembered(*arguments, **options):
    found, reason = tried(*arguments, **options)
    if reason is not None:
      raise ValueError(reason)
    return found

  return remembered


@_once
def _memory(
  target: str,
  draft: str,
  kind: str,
  dtype: str,
  *,
  trees: tuple[str, ...],
  rows: int,
  prompt: int,
  limit: int,
  panel: int,
  trace: int,
  devices: int,
  shard_draft: bool,
) -> dict[str, int]:
  """Of the batches that take the most, as a run refuses those too large."""
  pair = _pair(target, draft, kind, dtype)
  shared = {
    "rows": rows,
    "prompt": extents.prompt_slots(prompt),
    "new": extents.new_slots(limit),
    "devices": devices,
  }
  weights = pair[0].weights
  found = [
    extents.estimate(pair[0], None, PLAIN, weights=(weights, 0), **shared)
  ]
  for tree in trees:
    parts = extents.estimate(
      *pair,
      shapes.of(tree),
      weights=(weights, pair[1].head if HEADS[kind] else pair[1].weights),
      panel=panel,
      trace=min(trace, limit),
      split_draft=HEADS[kind] or shard_draft,
      **shared,
    )
    found.append(parts)
  return max(found, key=lambda parts: sum(parts.values()))


@_once
def _pair(target: str, draft: str, kind: str, dtype: str) -> tuple:
  """Both models, in the dtypes that they are loaded in."""
  if kind not in HEADS:
    raise ValueError(f"what a draft of kind {kind!r} takes is not known")
  first, second = _model(target), _model(draft)
  if HEADS[kind] and {first.model_type, second.model_type} != {"llama"}:
    raise ValueError("EAGLE heads are known on Llamas alone")
  first = first._replace(dtype=dtype or first.dtype)
  if HEADS[kind]:  # it has its target's
    return first, second._replace(dtype=first.dtype)
  return first, second._replace(dtype=dtype or second.dtype)


def _model(name: str) -> Model:
  """A model in a folder, or one that is published."""
  place = os.path.expanduser(name)
  if name.startswith(BUNDLED):
    place = prompts.BUNDLED / name.removeprefix(BUNDLED)
  if os.path.isdir(place):
    return read(pathlib.Path(place, "config.json"))
  if name not in PUBLISHED:
    raise ValueError(
      f"the shape of {brief(name)} is not known: it is no folder here, and none"
      " of the models that configs/ names"
    )
  return PUBLISHED[name]


def read(path: pathlib.Path) -> Model:
  """What a config.json says; what is missing means what it always does."""
  raw = reading.json_object(path)
  if raw.get("model_type") not in [*NORMS]:
    kind = brief(raw.get("model_type"))
    raise ValueError(f"{path}: the size of a model_type={kind} is not known")

  def count(name, default=None):
    value = raw.get(name)
    value = default if value is None else value
    if type(value) is not int or value < 1:
      raise ValueError(f"{path}: {name}={brief(value)} is no size")
    return value

  width, heads = count("hidden_size"), count("num_attention_heads")
  dtypes = (raw.get("dtype"), raw.get("torch_dtype"), "float32")
  dtype = next(one for one in dtypes if one is not None)
  if dtype not in DTYPES:
    raise ValueError(f"{path}: dtype={brief(dtype)} is not known")
  return Model(
    model_type=raw["model_type"],
    vocab_size=count("vocab_size"),
    hidden_size=width,
    intermediate_size=count("intermediate_size"),
    num_hidden_layers=count("num_hidden_layers"),
    num_attention_heads=heads,
    num_key_value_heads=count("num_key_value_heads", heads),
    head_dim=count("head_dim", width // heads),
    tie_word_embeddings=bool(raw.get("tie_word_embeddings")),
    dtype=dtype,
  )


@_once
def _hours(
  target: str,
  draft: str,
  kind: str,
  dtype: str,
  *,
  cells: tuple,
  points: tuple[tuple[float, ...], int],
  asked: tuple,
  timed: tuple[int, int],
  limit: int,
) -> tuple[float, str]:
  """At most, and what that rests on.

  Args:
    target: A model.
    draft: Another one.
    kind: Of the draft.
    dtype: Of both.
    cells: Trees, proposals, verifiers, and whether to decode plainly, too.
    points: Temperatures, and how many seeds.
    asked: Questions, tasks, and how many questions of each.
    timed: Questions of each task that are timed, and how often.
    limit: New tokens at most.
  """
  table = _timed(target, draft, kind, dtype)
  speeds, other = _speeds(table, *cells)
  turns, published = _turns(*asked)
  temperatures, seeds = points
  if max(temperatures, default=0) > HOTTEST:
    raise _no_speed(f"temperatures above {HOTTEST}")
  answers = sum(turns) * seeds
  if timed[0]:
    source, tasks, per_task = asked
    least = min(timed[0], per_task or timed[0])
    # Speed is measured on first turns, and once more while it is compiled.
    answers += len(_turns(source, tasks, least)[0]) * timed[1] + 1
  tokens = answers * len(temperatures) * limit
  seconds = tokens * sum(1 / speed for speed in speeds)
  low, high = min(speeds), max(speeds)
  between = f"{low:g}" if low == high else f"{low:g} to {high:g}"
  rest = f"at the paper's {between} tokens/s, batch 1, one RTX A6000;"
  rest += " batches are faster"
  if not {target, draft} <= {*PUBLISHED}:
    rest += f"; models of the shapes of {table.target} and {table.draft}"
  if other:
    rest += f"; {', '.join(other)} as its slower rule"
  if published:
    rest += f"; of {len(turns)} questions, as published"
  return seconds / 3600, rest


def _timed(target: str, draft: str, kind: str, dtype: str) -> paper.MainTable:
  """The paper's table of a pair of these shapes."""
  try:
    pair = _pair(target, draft, kind, dtype)
  except ValueError:
    raise _no_speed("this pair") from None
  shape = [one._replace(dtype="") for one in pair]
  for *known, table in TIMED:
    theirs = [PUBLISHED[name]._replace(dtype="") for name in known]
    if shape == theirs and not HEADS[kind]:
      return table
  raise _no_speed("this pair")


def _no_speed(what: str) -> ValueError:
  return ValueError(f"no speed is known: the paper prints none for {what}")


def _speeds(table, trees, proposals, verifiers, plain) -> tuple[list, list]:
  """Tokens a second in each cell; the rules of which the paper has none."""
  found, other = [table.plain.mean] if plain else [], {}
  for tree, proposal, rule in itertools.product(trees, proposals, verifiers):
    if rule in CHAINS_ALONE and not shapes.is_chain(tree):
      continue
    if tree not in table.tokens_per_second or proposal != PROPOSAL:
      raise _no_speed(tree if proposal == PROPOSAL else proposal)
    printed = table.tokens_per_second[tree]
    own = {one: getattr(printed, one).mean for one in paper.VERIFIERS}
    if rule not in own:
      other[rule] = None
    found.append(own.get(rule, min(own.values())))
  if not found:
    raise ValueError("there is nothing to decode")
  return found, [*other]


@_once
def _turns(
  source: str, tasks: tuple[str, ...], per_task: int
) -> tuple[list[int], bool]:
  """How many turns each question has, and whether that is as published."""
  found, published = _questions(source)
  found = [one for one in found if not tasks or one.task in tasks]
  found = prompts.limit(found, per_task=per_task or None)
  if not found:
    raise ValueError(f"{brief(source)} has no questions of {' '.join(tasks)}")
  return [len(one.turns) for one in found], published


@_once
def _questions(source: str) -> tuple:
  """The questions, or those of Spec-Bench as they are published."""
  kind, colon, path = source.partition(":")
  if kind != "spec_bench" or not colon:
    return prompts.load_questions(source), False
  if os.path.exists(os.path.expanduser(path)):
    return prompts.load_spec_bench(path), False
  found = []
  for category, count in prompts.SPEC_BENCH.items():
    turns = ("", "") if category in prompts.MT_BENCH else ("",)
    one = {"category": category, "turns": turns, "references": ()}
    found += [prompts.Question(question_id=0, **one)] * count
  return found, True
