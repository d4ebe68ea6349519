"""Beside Hugging Face transformers: plain and assisted generation, one run.

  python -m benchmarks.peers --draft=DIR --target=DIR

The same weights, prompts, temperature and number of new tokens, in one process
on the same cores; needs PyTorch (the parity extra). Without checkpoints, random
weights of the shape in --shape are timed, and acceptance means nothing.

What the peer gets: float32, sdpa attention, its key and value cache, inference
mode, a warm-up of every setting, as many threads as there are cores, and also a
single one, which is several times faster where other work is running. Its
assisted generation runs with an independent draft, at its default number of
assistant tokens and at 5 of them always. (A draft that uses its target's
embedding gets a copy, and knows all tokens there.) Of all settings the best
median counts. Ends are ignored on both sides, so that all yield the same number
of tokens.

Protocol. Everything is compiled and warm before a clock starts. Then all take
turns, in a new random order in each round, on the same prompts. Seconds are
those of the whole call, with the prompt's reading, on both sides. Tokens per
second are the median of the rounds, ratios are taken within each round. Only
ratios travel from one machine to another.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import logging
import tempfile
import time
from collections import Counter
from collections.abc import Callable

import numpy as np

import tv_jax
from benchmarks import common
from tv_jax import models
from tv_jax import tree as tree_lib
from tv_jax.edge import names
from tv_jax.engine import batches, sizes
from tv_jax.engine.pair import Pair
from tv_jax.models import borrowed
from tv_jax.runs import environment
from tv_jax.runs import questions as questions_lib
from tv_jax.verifiers import VERIFIERS

OURS, THEIRS = "tv_jax", "transformers"
# Assistant tokens a cycle: its own choice, or 5 always.
ASSISTED = {"default": None, "constant 5": 5}


class Peer:
  """The same models in transformers."""

  def __init__(self, target: str, draft: str | None, tokens: int):
    """Loads them from directories; None: no draft."""
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

    self.target = load(target)
    self.draft = load(draft) if draft else None

  def plain(self, threads: int, temperature: float, prompts) -> int:
    """Generates; how many tokens there were."""
    return self._run(threads, temperature, prompts, {})

  def assisted(
    self, fixed: int | None, threads: int, temperature: float, prompts
  ) -> int:
    """Generates with the draft: by default, or `fixed` tokens a cycle."""
    assert self.draft
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


def complete(pair: Pair) -> models.Model:
  """Returns an independent draft with the target's embedding as its own."""
  draft = pair.draft
  assert isinstance(draft, models.Model)
  if not draft.config.shares_embedding:
    return draft
  own = draft.params.items()
  theirs = pair.target.params
  taken = {name: x for name, x in theirs.items() if name in borrowed.NAMES}
  params = {name: x for name, x in own if name not in borrowed.NAMES} | taken
  config = dataclasses.replace(
    draft.config, shares_embedding=False, draft_vocab_size=None
  )
  return dataclasses.replace(
    draft, module=draft.module.clone(config=config), params=params
  )


def read_prompts(pair: Pair, given: argparse.Namespace) -> list[list[int]]:
  """Reads prompts as tokens; random ones for random weights.

  Only those of the most common padded size are kept, so that each method is
  compiled once for each number of rows.
  """
  if given.target is None:
    rng = np.random.default_rng(0)
    return rng.integers(3, pair.target.config.vocab_size, (8, 40)).tolist()
  asked = questions_lib.load_questions(given.prompts or "minibench")
  texts = [question.turns[0] for question in asked]
  encoded = batches.encode(pair, texts, given.template, limit=1)
  padded = [sizes.prompt_slots(len(tokens)) for tokens in encoded]
  (common_size, _), *_ = Counter(padded).most_common(1)
  kept = zip(encoded, padded, strict=True)
  return [tokens for tokens, size in kept if size == common_size]


def rows_of(prompts: list, count: int, turn: int) -> tuple[list, list[int]]:
  """Chooses the `count` prompts of a round, and a number for each."""
  items = [turn * count + i for i in range(count)]
  return [prompts[item % len(prompts)] for item in items], items


def contestants(pair, prompts, peer: Peer, temperature: float, given) -> dict:
  """Functions of a round's number that generate, by name; tokens come back."""

  def ours(rows, turn, **options):
    own, items = rows_of(prompts, rows, turn)
    run = tv_jax.generate(
      pair,
      own,
      items=items,
      batch_size=rows,
      panel=None,
      temperature=temperature,
      max_new_tokens=given.tokens,
      seed=given.seed,
      ends=(),
      **options,
    )
    return sum(map(len, run.tokens))

  def theirs(rows, method, threads, turn):
    own, _ = rows_of(prompts, rows, turn)
    return method(threads, temperature, own)

  rows, bound = given.rows, functools.partial
  found = {f"{OURS}, plain": bound(ours, 1, verifier=None)}
  for tree in common.parse_trees(given.trees, tree_lib.parse):
    run = bound(ours, 1, tree=tree, verifier=given.verifiers)
    found[f"{OURS}, {tree}"] = run
  found[f"{OURS}, plain, {rows} rows"] = bound(ours, rows, verifier=None)
  for threads in sorted({environment.cores(), 1}):
    end = f"{threads} thread{'s' * (threads > 1)}"
    run = bound(theirs, 1, peer.plain, threads)
    found[f"{THEIRS}, plain, {end}"] = run
    for name, fixed in ASSISTED.items() if peer.draft else ():
      run = bound(theirs, 1, bound(peer.assisted, fixed), threads)
      found[f"{THEIRS}, assisted, {name}, {end}"] = run
    run = bound(theirs, rows, peer.plain, threads)
    found[f"{THEIRS}, plain, {end}, {rows} rows"] = run
  return found


def measure(runs: dict[str, Callable], temperature: float, given) -> dict:
  """Tokens per second [rounds] by name."""

  def timed(run: Callable, turn: int) -> float:
    begin = time.perf_counter()
    tokens = run(turn)
    seconds = time.perf_counter() - begin
    if tokens % given.tokens:
      raise RuntimeError(f"{tokens} tokens, not {given.tokens} of each row")
    return tokens / seconds

  for name, run in runs.items():
    common.say(f"warming {name}, temperature {temperature:g}")
    run(0)
  methods = {name: functools.partial(timed, run) for name, run in runs.items()}
  speeds = common.race(methods, given.rounds, given.seed, common.say)
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


def ratios(speeds: dict, temperature: float, rows: int) -> common.Table:
  """Compares the best of each kind, round by round."""
  plain, many = f"{OURS}, plain", f"{OURS}, plain, {rows} rows"
  trees = {k: v for k, v in speeds.items() if k != plain}
  ours = best(trees, f"{OURS}, ")
  pairs = [(plain, best(speeds, f"{THEIRS}, plain"))]
  if any(name.startswith(f"{THEIRS}, assisted") for name in speeds):
    pairs.append((ours, best(speeds, f"{THEIRS}, assisted")))
  pairs += [
    (ours, plain),
    (many, plain),
    (many, best(speeds, f"{THEIRS}, plain", f"{rows} rows")),
  ]
  return common.Table(
    title=f"Ratios, temperature {temperature:g}",
    header=["", "measured (quartiles)"],
    rows=[
      [f"{one} over {other}", common.spread(speeds[one] / speeds[other])]
      for one, other in pairs
    ],
  )


def parse(arguments: list[str]) -> argparse.Namespace:
  """The command line."""
  parser = common.Parser("peers", __doc__)
  common.add_pair(parser)
  parser.add_argument("--kind", default="independent", help="of the draft")
  parser.add_argument("--prompts", help="JSON lines as Spec-Bench's")
  parser.add_argument("--template", default="raw", help="raw, chat or vicuna")
  parser.add_argument("--trees", default="chain:5 kary:2x5 eagle")
  parser.add_argument("--tokens", type=common.at_least(1), default=128)
  parser.add_argument("--seed", type=common.at_least(0), default=0)
  parser.add_argument("--verifiers", default="traversal", choices=VERIFIERS)
  parser.add_argument("--temperatures", default="1 0", help="0 is greedy")
  parser.add_argument("--rows", type=common.at_least(2), default=16)
  given = parser.parse_args(arguments)
  given.temperatures = [float(one) for one in names.split(given.temperatures)]
  return given


def main(arguments: list[str]) -> None:
  """Reads the flags and runs."""
  given = parse(arguments)
  try:
    import torch
    import transformers
  except ImportError:
    raise ValueError(
      "the peer needs PyTorch: pip install -e '.[parity]'"
    ) from None
  pair = common.read_pair(given, given.kind)
  prompts = read_prompts(pair, given)
  versions = (
    f", torch {torch.__version__}, transformers {transformers.__version__}"
  )
  parts = common.setting("peers", arguments, versions)
  parts += common.describe(pair, given)
  with tempfile.TemporaryDirectory() as folder:
    # As they are here, so that both sides have the same numbers.
    models.save(f"{folder}/target", pair.target)
    draft = None
    if pair.draft_kind == "independent":
      draft = f"{folder}/draft"
      models.save(draft, complete(pair))
    peer = Peer(f"{folder}/target", draft, given.tokens)
  for temperature in given.temperatures:
    runs = contestants(pair, prompts, peer, temperature, given)
    speeds = measure(runs, temperature, given)
    parts.append(table(speeds, temperature).show())
    parts.append(ratios(speeds, temperature, given.rows).show())
  common.write(given.out, parts)


if __name__ == "__main__":
  common.run("peers", main)
