"""Times tv_jax, transformers and llama.cpp in turn, plain and with a draft.

  python -m benchmarks.peers --draft=bundled/draft --target=bundled/target

All use the same weights, prompts, temperature and number of new tokens, in one
process on the same cores. --peers names those that tv_jax is compared with.
"transformers" needs PyTorch (the extra [parity]). "llama.cpp" needs GGUF files
and `pip install xllamacpp`, which brings llama.cpp's server.

transformers runs in float32, with sdpa attention, its key-value cache and
inference mode. Every setting is warmed up. It gets as many threads as there are
cores, and also a single thread, which is several times faster if other work is
running. Assisted generation needs an independent draft. It runs with the
default number of assistant tokens, and with 5 in every cycle. (A draft that
uses its target's embedding gets a copy, and then knows all tokens.) llama.cpp
computes with the weights of the files, quantises activations, and drafts at
most 1, 3 or 5 tokens in a cycle. The setting with the best median counts. All
ignore end tokens, so that all methods yield the same number of tokens.

All methods take turns on the same prompts, in a new random order in each round.
The clock runs for the whole call, prefill included. "Without prompts" are
llama.cpp's own timings, and for tv_jax the time beyond an answer of one token.
Tokens per second are medians over rounds; ratios are taken within each round.
Only ratios carry over to another machine. The peak of memory is that of the
process before the others are loaded.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import resource
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from importlib import metadata
from typing import NamedTuple

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

OURS, TRANSFORMERS, LLAMA_CPP = "tv_jax", "transformers", "llama.cpp"
PACKAGES = {TRANSFORMERS: "torch", LLAMA_CPP: "xllamacpp"}
# Assistant tokens per cycle: the default schedule, or always 5.
ASSISTED = {"default": None, "constant 5": 5}
DRAFTED = 1, 3, 5  # tokens that llama.cpp drafts in a cycle, at most


class Sample(NamedTuple):
  """A method's run on the prompts of a round."""

  tokens: int
  seconds: float
  decoding: float = float("nan")  # seconds without the prompt


def timed(run: Callable[[], int]) -> Sample:
  """Times a function that returns the number of its tokens."""
  begin = time.perf_counter()
  tokens = run()
  return Sample(tokens, time.perf_counter() - begin)


class LlamaCpp:
  """The files in llama.cpp, with a server for each number of drafted tokens."""

  def __init__(self, target: str, draft: str | None, tokens: int):
    """Finds the GGUF files; `draft` may be None."""
    self.target, self.draft, self.tokens = target, draft, tokens

  @functools.cache  # noqa: B019  (there is one for the whole process)
  def _server(self, most: int):
    """Starts a server that drafts at most so many tokens in a cycle."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path, params.port, params.verbosity = self.target, 0, -1
    params.n_ctx, params.n_parallel = 2048, 1
    speculation = params.speculative
    for settings in (params, speculation.draft):
      settings.cpuparams.n_threads = machine.cores()
      settings.cpuparams_batch.n_threads = machine.cores()
    if most:
      kinds = xllamacpp.common_speculative_type
      speculation.types = [kinds.COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE]
      speculation.draft.mparams.path = self.draft
      speculation.draft.n_max = most
    return xllamacpp.Server(params)

  def __call__(self, most: int, temperature: float, prompts) -> Sample:
    """Generates with at most so many drafted tokens in a cycle."""
    (prompt,) = prompts
    request = {
      "prompt": [*map(int, prompt)],
      "n_predict": self.tokens,
      "temperature": temperature,
      "samplers": ["temperature"],
      "ignore_eos": True,
      "cache_prompt": False,
    }
    begin = time.perf_counter()
    told = self._server(most).handle_completions(request)["timings"]
    seconds = time.perf_counter() - begin
    return Sample(told["predicted_n"], seconds, told["predicted_ms"] / 1e3)


class Transformers:
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

  def plain(self, threads: int, temperature: float, prompts) -> Sample:
    """Generates without a draft."""
    return timed(lambda: self._run(threads, temperature, prompts, {}))

  def assisted(
    self, fixed: int | None, threads: int, temperature: float, prompts
  ) -> Sample:
    """Generates with the draft, and `fixed` assistant tokens in each cycle."""
    assert self.draft
    settings = self.draft.generation_config
    # None is the default: 20, and fewer if the draft is not confident.
    settings.num_assistant_tokens = fixed
    settings.num_assistant_tokens_schedule = "constant"
    settings.assistant_confidence_threshold = None if fixed is None else 0.0
    more = {"assistant_model": self.draft}
    return timed(lambda: self._run(threads, temperature, prompts, more))

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


def load_transformers(pair: Pair, tokens: int) -> Transformers:
  """Loads the weights of a pair into transformers."""
  with tempfile.TemporaryDirectory() as folder:
    models.save(f"{folder}/target", pair.target)
    draft = pair.draft
    assert draft
    if pair.kind != "independent":
      return Transformers(f"{folder}/target", None, tokens)
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
    return Transformers(f"{folder}/target", f"{folder}/draft", tokens)


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
  pair, prompts, temperature: float, flags
) -> dict[str, Callable]:
  """Returns our methods: functions from a round's number to a sample."""

  def ours(rows, turn, **options):
    texts, items = chosen(prompts, rows, turn)
    generate = functools.partial(
      tv_jax.generate,
      pair,
      texts,
      items=items,
      batch_size=rows,
      panel=None,
      temperature=temperature,
      ends=(),
      **options,
    )

    def run(tokens):
      return sum(map(len, generate(max_new_tokens=tokens).tokens))

    prompt = timed(lambda: run(1)).seconds if rows == 1 else float("nan")
    sample = timed(lambda: run(flags.tokens))
    return sample._replace(decoding=sample.seconds - prompt)

  rows, bound = flags.rows, functools.partial
  runs = {f"{OURS}, plain": bound(ours, 1, verifier="plain")}
  for tree in flags.trees:
    runs[f"{OURS}, {tree}"] = bound(ours, 1, tree=tree)
  if rows > 1:
    runs[f"{OURS}, plain, {rows} rows"] = bound(ours, rows, verifier="plain")
  return runs


def chosen(prompts, rows: int, turn: int) -> tuple[list, list[int]]:
  """Returns the prompts of a round, and their numbers."""
  items = [turn * rows + i for i in range(rows)]
  return [prompts[item % len(prompts)] for item in items], items


def others(
  pair: Pair, prompts, temperature: float, flags, loaded: dict
) -> dict[str, Callable]:
  """Returns the peers' methods, as `contestants` does; `loaded` keeps them."""

  def theirs(rows, method, turn):
    return method(temperature, chosen(prompts, rows, turn)[0])

  rows, bound, runs = flags.rows, functools.partial, {}
  if LLAMA_CPP in flags.peers:
    if LLAMA_CPP not in loaded:
      files = flags.target, flags.draft
      loaded[LLAMA_CPP] = LlamaCpp(*files, flags.tokens)
    for most in (0, *DRAFTED):
      name = f"assisted, {most}" if most else "plain"
      method = bound(loaded[LLAMA_CPP], most)
      runs[f"{LLAMA_CPP}, {name}"] = bound(theirs, 1, method)
  if TRANSFORMERS not in flags.peers:
    return runs
  if TRANSFORMERS not in loaded:
    loaded[TRANSFORMERS] = load_transformers(pair, flags.tokens)
  peer = loaded[TRANSFORMERS]
  for threads in flags.threads or sorted({machine.cores(), 1}):
    end, plain = f"{threads} threads", bound(peer.plain, threads)
    runs[f"{TRANSFORMERS}, plain, {end}"] = bound(theirs, 1, plain)
    for name, fixed in ASSISTED.items() if peer.draft else ():
      method = bound(peer.assisted, fixed, threads)
      runs[f"{TRANSFORMERS}, assisted, {name}, {end}"] = bound(
        theirs, 1, method
      )
    if rows > 1:
      name = f"{TRANSFORMERS}, plain, {end}, {rows} rows"
      runs[name] = bound(theirs, rows, plain)
  return runs


def measure(runs: dict[str, Callable], flags) -> tuple[dict, dict]:
  """Returns tokens per second [rounds] by name, with and without prompts."""
  samples = common.race(runs, flags.rounds, seed=0)
  for name, found in samples.items():
    whole = all(x.tokens % flags.tokens == 0 for x in found)
    assert whole, f"{name}: an answer has ended early"
  prompted, decoding = (
    {
      name: np.array([x.tokens / getattr(x, seconds) for x in found])
      for name, found in samples.items()
    }
    for seconds in ("seconds", "decoding")
  )
  return prompted, decoding


def warm(runs: dict[str, Callable]) -> None:
  """Calls each method once."""
  for name, run in runs.items():
    common.say(f"warming {name}")
    run(0)


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


def show(
  speeds: dict, decoding: dict, temperature: float, rows: int, peers: list[str]
) -> None:
  """Prints each method's speed, relative to the first peer's plain generation.

  Without a peer, speeds are relative to our plain decoding.
  """

  def spread(method, other):
    ratio = speeds[method] / speeds[other]
    low, middle, high = np.percentile(ratio, [25, 50, 75])
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"

  def number(values):
    middle = np.median(values)
    return "" if np.isnan(middle) else f"{middle:.3g}"

  plain = f"{OURS}, plain"
  base = best(speeds, f"{peers[0]}, plain") if peers else plain
  ours = best({k: v for k, v in speeds.items() if k != plain}, f"{OURS}, ")
  many = f"{OURS}, plain, {rows} rows"
  pairs = [(ours, plain)] + [(many, plain)] * (rows > 1)
  for peer in peers:
    pairs.append((plain, best(speeds, f"{peer}, plain")))
    if any(name.startswith(f"{peer}, assisted") for name in speeds):
      pairs.append((ours, best(speeds, f"{peer}, assisted")))
  if rows > 1 and TRANSFORMERS in peers:
    theirs = best(speeds, f"{TRANSFORMERS}, plain", f"{rows} rows")
    pairs.append((many, theirs))
  common.show(
    f"Temperature {temperature:g}",
    ["", "tokens/s", "without prompts", f"over {base} (quartiles)"],
    [
      [name, number(rounds), number(decoding[name]), spread(name, base)]
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
  parser.add_argument("--threads", nargs="+", type=int, help="of transformers")
  parser.add_argument("--rounds", type=int, default=7)
  parser.add_argument(
    "--peers", nargs="*", choices=[*PACKAGES], default=[TRANSFORMERS]
  )
  flags = parser.parse_args()
  packages = (PACKAGES[name] for name in flags.peers)
  versions = (f", {name} {metadata.version(name)}" for name in packages)
  common.setting("peers", "".join(versions))
  begin = time.perf_counter()
  pair = tv_jax.load(flags.target, flags.draft)
  seconds, peak = time.perf_counter() - begin, peak_memory()
  prompts = read_prompts(pair, flags.prompts, flags.template)
  loaded: dict = {}
  for temperature in flags.temperatures:
    runs = contestants(pair, prompts, temperature, flags)
    warm(runs)
    if not loaded:
      print(
        f"loaded in {seconds:.1f} s; peak memory {peak:.2f} GB then, and"
        f" {peak_memory():.2f} GB after a question to each method"
      )
    theirs = others(pair, prompts, temperature, flags, loaded)
    warm(theirs)
    speeds, decoding = measure(runs | theirs, flags)
    show(speeds, decoding, temperature, flags.rows, flags.peers)


def peak_memory() -> float:
  """Returns the peak memory of this process in GB."""
  return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


if __name__ == "__main__":
  main()
