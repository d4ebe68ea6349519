"""Times tv_jax and transformers in turn: plain and assisted generation.

  python -m benchmarks.peers --draft=bundled/draft --target=bundled/target

Both use the same weights, prompts, temperature and number of new tokens, in one
process on the same cores. transformers needs PyTorch (the extra [parity]). With
--alone, only tv_jax is timed.

transformers runs in float32, with sdpa attention, its key-value cache and
inference mode. Every setting is warmed up. It gets as many threads as there are
cores, and also a single thread, which is several times faster if other work is
running. Assisted generation needs an independent draft. It runs with the
default number of assistant tokens, and with 5 in every cycle. (A draft that
uses its target's embedding gets a copy, and then knows all tokens.) The setting
with the best median counts. Both sides ignore end tokens, so that all methods
yield the same number of tokens.

All methods take turns on the same prompts, in a new random order in each round.
The clock runs for the whole call, prefill included. Tokens per second are
medians over rounds; ratios are taken within each round. Only ratios carry over
to another machine.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from importlib import metadata

import numpy as np

import tv_jax
from benchmarks import common
from tv_jax import models
from tv_jax.engine.cycle import CHUNK
from tv_jax.engine.decode import padded
from tv_jax.engine.generate import encode_prompts
from tv_jax.engine.pair import Pair
from tv_jax.io import machine
from tv_jax.models import decoder
from tv_jax.runs import questions as questions_lib

OURS, THEIRS = "tv_jax", "transformers"
# Assistant tokens per cycle: the default schedule, or always 5.
ASSISTED = {"default": None, "constant 5": 5}


class Peer:
  """The models in transformers."""

  def __init__(self, target: str, draft: str | None, tokens: int):
    """Loads the models from directories; `draft` may be None."""
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    self.torch, self.tokens = torch, tokens

    def load(path):
      model = transformers.AutoModelForCausalLM.from_pretrained(
        path, dtype=torch.float32, attn_implementation="sdpa"
      ).eval()
      # No end tokens, and no sampling option except the temperature.
      model.generation_config = transformers.GenerationConfig(
        pad_token_id=0, use_cache=True
      )
      return model

    self.target = load(target)
    self.draft = load(draft) if draft else None

  def plain(self, threads: int, temperature: float, prompts) -> int:
    """Generates without a draft; returns the number of tokens."""
    return self._run(threads, temperature, prompts, {})

  def assisted(
    self, fixed: int | None, threads: int, temperature: float, prompts
  ) -> int:
    """Generates with the draft, and `fixed` assistant tokens in each cycle."""
    assert self.draft
    settings = self.draft.generation_config
    # None is the default: 20, and fewer if the draft is not confident.
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


def load_peer(pair: Pair, tokens: int) -> Peer:
  """Loads the weights of a pair into transformers."""
  with tempfile.TemporaryDirectory() as folder:
    models.save(f"{folder}/target", pair.target)
    draft = pair.draft
    assert draft
    if pair.kind != "independent":
      return Peer(f"{folder}/target", None, tokens)
    if draft.config.shares_embedding:
      params = {
        k: x for k, x in draft.params.items() if k not in decoder.OF_TARGET
      }
      for name in {*decoder.OF_TARGET} & {*pair.target.params}:
        params[name] = pair.target.params[name]
      config = dataclasses.replace(
        draft.config, shares_embedding=False, draft_vocab_size=None
      )
      module = draft.module.clone(config=config)
      draft = dataclasses.replace(draft, module=module, params=params)
    models.save(f"{folder}/draft", draft)
    return Peer(f"{folder}/target", f"{folder}/draft", tokens)


def read_prompts(pair: Pair, source: str, template: str) -> list[list[int]]:
  """Reads questions as tokens, shuffled; keeps the most common padded size.

  So each method is compiled only once for each number of rows.
  """
  questions = questions_lib.load_questions(source)
  texts = [question.turns[0] for question in questions]
  encoded = encode_prompts(pair, texts, template, limit=1)
  sizes = [padded(len(tokens), CHUNK) for tokens in encoded]
  (common_size, _), *_ = Counter(sizes).most_common(1)
  kept = zip(encoded, sizes, strict=True)
  kept = [tokens for tokens, size in kept if size == common_size]
  return [kept[i] for i in np.random.default_rng(0).permutation(len(kept))]


def contestants(
  pair, prompts, peer: Peer | None, temperature: float, flags
) -> dict:
  """Returns the methods by name: functions from a round's number to tokens."""

  def chosen(rows, turn):
    items = [turn * rows + i for i in range(rows)]
    return [prompts[item % len(prompts)] for item in items], items

  def ours(rows, turn, **options):
    texts, items = chosen(rows, turn)
    run = tv_jax.generate(
      pair,
      texts,
      items=items,
      batch_size=rows,
      panel=None,
      temperature=temperature,
      max_new_tokens=flags.tokens,
      ends=(),
      **options,
    )
    return sum(map(len, run.tokens))

  def theirs(rows, method, threads, turn):
    return method(threads, temperature, chosen(rows, turn)[0])

  rows, bound = flags.rows, functools.partial
  runs = {f"{OURS}, plain": bound(ours, 1, verifier="plain")}
  for tree in flags.trees:
    runs[f"{OURS}, {tree}"] = bound(ours, 1, tree=tree)
  if rows > 1:
    runs[f"{OURS}, plain, {rows} rows"] = bound(ours, rows, verifier="plain")
  if peer is None:
    return runs
  for threads in flags.threads or sorted({machine.cores(), 1}):
    end = f"{threads} threads"
    run = bound(theirs, 1, peer.plain, threads)
    runs[f"{THEIRS}, plain, {end}"] = run
    for name, fixed in ASSISTED.items() if peer.draft else ():
      run = bound(theirs, 1, bound(peer.assisted, fixed), threads)
      runs[f"{THEIRS}, assisted, {name}, {end}"] = run
    if rows > 1:
      run = bound(theirs, rows, peer.plain, threads)
      runs[f"{THEIRS}, plain, {end}, {rows} rows"] = run
  return runs


def measure(runs: dict[str, Callable], flags) -> dict[str, np.ndarray]:
  """Returns tokens per second [rounds] by name."""

  def timed(run: Callable, turn: int) -> float:
    begin = time.perf_counter()
    tokens = run(turn)
    seconds = time.perf_counter() - begin
    assert tokens % flags.tokens == 0, "an answer has ended early"
    return tokens / seconds

  for name, run in runs.items():
    common.say(f"warming {name}")
    run(0)
  methods = {name: functools.partial(timed, run) for name, run in runs.items()}
  speeds = common.race(methods, flags.rounds, seed=0)
  return {name: np.array(values) for name, values in speeds.items()}


def best(speeds: dict, prefix: str, suffix: str = "") -> str:
  """Returns the fastest method with this prefix and suffix."""
  names = [
    name
    for name in speeds
    if name.startswith(prefix)
    and name.endswith(suffix)
    and (name.endswith("rows") == bool(suffix))
  ]
  return max(names, key=lambda name: np.median(speeds[name]))


def show(speeds: dict, temperature: float, rows: int) -> None:
  """Prints each method's speed relative to the peer's plain generation.

  Without a peer, speeds are relative to our plain decoding.
  """
  alone = not any(name.startswith(THEIRS) for name in speeds)

  def spread(method, other):
    ratio = speeds[method] / speeds[other]
    low, middle, high = np.percentile(ratio, [25, 50, 75])
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"

  plain = f"{OURS}, plain"
  base = plain if alone else best(speeds, f"{THEIRS}, plain")
  ours = best({k: v for k, v in speeds.items() if k != plain}, f"{OURS}, ")
  many = f"{OURS}, plain, {rows} rows"
  pairs = [(ours, plain)] + [(many, plain)] * (rows > 1)
  if not alone:
    pairs.insert(0, (plain, base))
  if not alone and rows > 1:
    pairs.append((many, best(speeds, f"{THEIRS}, plain", f"{rows} rows")))
  if any(name.startswith(f"{THEIRS}, assisted") for name in speeds):
    pairs.append((ours, best(speeds, f"{THEIRS}, assisted")))
  common.show(
    f"Temperature {temperature:g}",
    ["", "tokens/s", f"over {base} (quartiles)"],
    [
      [name, f"{np.median(rounds):.3g}", spread(name, base)]
      for name, rounds in speeds.items()
    ],
  )
  common.show(
    f"Ratios, temperature {temperature:g}",
    ["", "measured (quartiles)"],
    [[" over ".join(names), spread(*names)] for names in pairs],
  )


def main() -> None:
  """Reads the flags and runs."""
  parser = argparse.ArgumentParser("benchmarks.peers")
  parser.add_argument("--draft", required=True, help="as tv_jax.load takes it")
  parser.add_argument("--target", required=True, help="likewise")
  parser.add_argument("--prompts", default="minibench", help="as in a config")
  parser.add_argument("--template", default="raw", help="raw, chat or vicuna")
  parser.add_argument("--trees", nargs="+", default=["chain:5", "eagle"])
  parser.add_argument("--temperatures", nargs="+", type=float, default=[1.0])
  parser.add_argument("--tokens", type=int, default=128)
  parser.add_argument("--rows", type=int, default=16)
  parser.add_argument("--threads", nargs="+", type=int, help="of the peer")
  parser.add_argument("--rounds", type=int, default=7)
  parser.add_argument("--alone", action="store_true", help="no transformers")
  flags = parser.parse_args()
  pair = tv_jax.load(flags.target, flags.draft)
  peer = None if flags.alone else load_peer(pair, flags.tokens)
  prompts = read_prompts(pair, flags.prompts, flags.template)
  torch = "" if flags.alone else f", torch {metadata.version('torch')}"
  common.setting("peers", torch)
  for temperature in flags.temperatures:
    runs = contestants(pair, prompts, peer, temperature, flags)
    show(measure(runs, flags), temperature, flags.rows)


if __name__ == "__main__":
  main()
