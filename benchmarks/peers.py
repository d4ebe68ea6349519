"""Beside Hugging Face transformers: plain and assisted generation, one run.

  python -m benchmarks.peers --draft=DIR --target=DIR

The same weights, prompts, temperature and number of new tokens, in one process
on the same cores; needs PyTorch (the parity extra). Without checkpoints, random
weights of a small shape are timed, and acceptance means nothing.

What the peer gets: float32, sdpa attention, its key and value cache, inference
mode, a warm-up of every setting, as many threads as there are cores, and also a
single one, which is several times faster where other work is running. Its
assisted generation runs at its default number of assistant tokens and at 5 of
them always. Of all settings the best median counts. Ends are ignored on both
sides, so that all yield the same number of tokens.

Protocol. Everything is compiled and warm before a clock starts. Then all take
turns, in a new random order in each round, on the same prompts. Seconds are
those of the whole call, with the prompt's reading, on both sides. Tokens per
second are the median of the rounds, ratios are taken within each round. Only
ratios travel from one machine to another.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np
from absl import flags

import tv_jax
from benchmarks import common
from benchmarks.decode import parse_trees
from tv_jax import models
from tv_jax.pair import Pair

FLAGS = flags.FlagValues()
_string = functools.partial(flags.DEFINE_string, flag_values=FLAGS)
_list = functools.partial(flags.DEFINE_list, flag_values=FLAGS)
_integer = functools.partial(flags.DEFINE_integer, flag_values=FLAGS)
_DRAFT = _string("draft", None, "The draft, a Llama: a directory.")
_TARGET = _string("target", None, "The target: a directory.")
_TREES = _string("trees", "chain:5,kary:2x5,eagle", "As tree.parse reads them.")
_VERIFIER = _string("verifier", "traversal", "Our rule.")
_TEMPERATURES = _list("temperatures", ["1", "0"], "0 is greedy.")
_TOKENS = _integer("tokens", 128, "New tokens of each row.", 1)
_ROWS = _integer("rows", 16, "Rows of the batch that is set beside one row.", 2)
_ROUNDS = _integer("rounds", 7, "How often each has its turn.", 1)
_PROMPTS = _string(
  "prompts", None, "JSON lines as Spec-Bench's, or text lines."
)
_TEMPLATE = _string("template", "raw", "raw, chat or vicuna.")
_SEED = _integer("seed", 0, "Of the draws and the orders.", 0)
_MARKDOWN = _string("markdown", None, "A file to write the tables to.")

OURS, THEIRS = "tv_jax", "transformers"
# Assistant tokens a cycle: its own choice, or 5 always.
ASSISTED = {"default": None, "constant 5": 5}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Work:
  """What is to be measured."""

  pair: Pair
  prompts: list[list[int]]
  trees: list[str]
  verifier: str
  tokens: int
  rows: int
  rounds: int
  seed: int


class Peer:
  """The same models in transformers."""

  def __init__(self, target: str, draft: str, tokens: int):
    """Loads them from directories."""
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    logging.getLogger("transformers").setLevel(logging.ERROR)
    self.torch, self.tokens = torch, tokens

    def load(path):
      model = transformers.AutoModelForCausalLM.from_pretrained(
        path, dtype=torch.float32, attn_implementation="sdpa"
      ).eval()
      # Nothing ends an answer, and nothing but the temperature shapes a law.
      model.generation_config = transformers.GenerationConfig(
        pad_token_id=0, use_cache=True
      )
      return model

    self.target, self.draft = load(target), load(draft)

  def plain(self, threads: int, temperature: float, prompts) -> int:
    """Generates; how many tokens there were."""
    return self._run(threads, temperature, prompts, {})

  def assisted(
    self, fixed: int | None, threads: int, temperature: float, prompts
  ) -> int:
    """Generates with the draft: by default, or `fixed` tokens a cycle."""
    settings = self.draft.generation_config
    # None is its own default: 20, and less where the draft is unsure.
    settings.num_assistant_tokens = fixed
    settings.num_assistant_tokens_schedule = "constant"
    settings.assistant_confidence_threshold = None if fixed is None else 0.0
    more = {"assistant_model": self.draft}
    return self._run(threads, temperature, prompts, more)

  def _run(self, threads, temperature, prompts, more) -> int:
    torch = self.torch
    length = max(map(len, prompts))
    pads = [length - len(tokens) for tokens in prompts]
    rows = zip(pads, prompts, strict=True)
    ids = torch.tensor([[0] * pad + list(tokens) for pad, tokens in rows])
    seen = torch.tensor([[0] * pad + [1] * (length - pad) for pad in pads])
    law = {"do_sample": False}
    if temperature:
      law = {"do_sample": True, "temperature": temperature, "top_k": 0}
    torch.set_num_threads(threads)
    with torch.inference_mode():
      out = self.target.generate(
        ids, attention_mask=seen, max_new_tokens=self.tokens, **law, **more
      )
    return (out.shape[1] - length) * len(prompts)


def _cores() -> int:
  if hasattr(os, "sched_getaffinity"):
    return len(os.sched_getaffinity(0))
  return os.cpu_count() or 1


def contestants(work: Work, peer: Peer, temperature: float) -> dict:
  """Functions of a round's number that generate, by name; tokens come back."""

  def ours(rows, options, turn):
    prompts, items = common.rows_of(work.prompts, rows, turn)
    run = tv_jax.generate(
      work.pair,
      prompts,
      items=items,
      batch_size=rows,
      panel=None,
      temperature=temperature,
      max_new_tokens=work.tokens,
      seed=work.seed,
      ends=(),
      **options,
    )
    return sum(map(len, run.tokens))

  def theirs(rows, method, threads, turn):
    prompts, _ = common.rows_of(work.prompts, rows, turn)
    return method(threads, temperature, prompts)

  plain, rows = {"verifier": None}, work.rows
  found = {f"{OURS}, plain": functools.partial(ours, 1, plain)}
  for tree in work.trees:
    options = {"tree": tree, "verifier": work.verifier}
    found[f"{OURS}, {tree}"] = functools.partial(ours, 1, options)
  found[f"{OURS}, plain, {rows} rows"] = functools.partial(ours, rows, plain)
  for threads in sorted({_cores(), 1}):
    end = f"{threads} thread{'s' * (threads > 1)}"
    found[f"{THEIRS}, plain, {end}"] = functools.partial(
      theirs, 1, peer.plain, threads
    )
    for name, fixed in ASSISTED.items():
      method = functools.partial(peer.assisted, fixed)
      found[f"{THEIRS}, assisted, {name}, {end}"] = functools.partial(
        theirs, 1, method, threads
      )
    found[f"{THEIRS}, plain, {end}, {rows} rows"] = functools.partial(
      theirs, rows, peer.plain, threads
    )
  return found


def measure(work: Work, peer: Peer, temperature: float) -> dict:
  """Tokens per second [rounds] by name."""

  def timed(run: Callable, turn: int) -> float:
    begin = time.perf_counter()
    tokens = run(turn)
    seconds = time.perf_counter() - begin
    if tokens % work.tokens:
      raise RuntimeError(f"{tokens} tokens, not {work.tokens} of each row")
    return tokens / seconds

  runs = contestants(work, peer, temperature)
  for name, run in runs.items():
    common.say(f"warming {name}, temperature {temperature:g}")
    run(0)
  methods = {name: functools.partial(timed, run) for name, run in runs.items()}
  speeds = common.race(methods, work.rounds, work.seed, common.say)
  return {name: np.array(values) for name, values in speeds.items()}


def best(speeds: dict, prefix: str, suffix: str = "") -> str:
  """The name of the fastest of those that begin and end so."""
  names = [
    name
    for name in speeds
    if name.startswith(prefix)
    and name.endswith(suffix)
    and (name.endswith("rows") == bool(suffix))
  ]
  return max(names, key=lambda name: np.median(speeds[name]))


def table(speeds: dict, temperature: float) -> common.Table:
  """All of them, beside the peer's plain generation."""
  base = best(speeds, f"{THEIRS}, plain")
  return common.Table(
    title=f"Temperature {temperature:g}",
    header=["", "tokens/s", f"over {base} (quartiles)"],
    rows=[
      [name, f"{np.median(own):.0f}", common.spread(own / speeds[base])]
      for name, own in speeds.items()
    ],
  )


def goals(speeds: dict, work: Work, temperature: float) -> common.Table:
  """What is wanted, beside what was measured."""
  many = f"{work.rows} rows"
  plain, rows = f"{OURS}, plain", f"{OURS}, plain, {many}"
  trees = {k: v for k, v in speeds.items() if k != plain}
  wanted = [
    (2.5, plain, best(speeds, f"{THEIRS}, plain")),
    (5.0, best(trees, f"{OURS}, "), best(speeds, f"{THEIRS}, assisted")),
    (4.0, rows, plain),
    (None, rows, best(speeds, f"{THEIRS}, plain", many)),
  ]
  lines = []
  for least, name, other in wanted:
    ratio = speeds[name] / speeds[other]
    row = [f"{name} over {other}", "-", common.spread(ratio), "-"]
    if least is not None:
      row[1] = f">= {least:g}"
      row[3] = "met" if np.median(ratio) >= least else "missed"
    lines.append(row)
  return common.Table(
    title=f"Goals, temperature {temperature:g}",
    header=["", "goal", "measured (quartiles)", ""],
    rows=lines,
  )


def _work() -> tuple[Work, list[float]]:
  """What the flags ask for; refuses what can't be done."""
  common.check_markdown(_MARKDOWN.value)
  temperatures = common.numbers("temperatures", _TEMPERATURES.value, float, 0)
  trees = parse_trees(_TREES.value)
  pair = common.load(_DRAFT.value, _TARGET.value, "llama")
  work = Work(
    pair=pair,
    prompts=common.read_prompts(_PROMPTS.value, pair, _TEMPLATE.value),
    trees=trees,
    verifier=_VERIFIER.value,
    tokens=_TOKENS.value,
    rows=_ROWS.value,
    rounds=_ROUNDS.value,
    seed=_SEED.value,
  )
  for tree in trees:
    options = {"tree": tree, "verifier": work.verifier}
    options["max_new_tokens"] = work.tokens
    common.check(pair, work.prompts, options)
  return work, temperatures


def main(arguments: list[str]) -> None:
  """Reads the flags and runs."""
  common.read_flags(FLAGS, arguments, __doc__)
  try:
    import torch
    import transformers
  except ImportError:
    sys.exit("the peer needs PyTorch: pip install -e '.[parity]'")
  try:
    work, temperatures = _work()
  except ValueError as error:
    sys.exit(f"{error}")
  versions = (
    f", torch {torch.__version__}, transformers {transformers.__version__}"
  )
  lines = common.setting("benchmarks.peers", arguments[1:], versions)
  lines.append(common.describe(work.pair, _TARGET.value is None))
  print("\n".join(lines))
  parts = []
  with tempfile.TemporaryDirectory() as folder:
    # As they are here, so that both sides have the same numbers.
    for name in ("target", "draft"):
      models.save(f"{folder}/{name}", getattr(work.pair, name))
    peer = Peer(f"{folder}/target", f"{folder}/draft", work.tokens)
  for temperature in temperatures:
    speeds = measure(work, peer, temperature)
    shown = table(speeds, temperature), goals(speeds, work, temperature)
    for found in shown:
      found.show()
      parts.append(found.markdown())
  common.write_markdown(_MARKDOWN.value, "Beside transformers", lines, parts)


if __name__ == "__main__":
  main(sys.argv)
