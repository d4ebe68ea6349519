"""The audit of any engine: `python -m tv_jax.audit --write` and `--samples`."""

from __future__ import annotations

import math
import pathlib

import numpy as np
from absl import flags

from tv_jax import models
from tv_jax.certify.samples import checkpoint, evidence, law, power
from tv_jax.edge import disk

_WRITE = flags.DEFINE_string(
  "write", None, "A new folder, for models and prompts to try an engine with."
)
_SAMPLES = flags.DEFINE_string(
  "samples", None, "A file of what any engine gave: tests that, not ours."
)
_MODEL = flags.DEFINE_string("model", None, "The folder that --write wrote.")
_VOCABULARY = flags.DEFINE_integer("vocabulary", 4, "Tokens of --write.", 3)
_TOKENS = flags.DEFINE_integer(
  "tokens", None, "New tokens that are looked at: as many as are few cases.", 1
)
_CONFIDENCE = flags.DEFINE_float("confidence", 0.99, "Of each verdict.")
_WITHIN = flags.DEFINE_float("within", 0.02, "The TV that counts as lossless.")

# What samples are to have at the least, whatever --tokens is to be.
_NEW = 8
_UNCLEAR = 3

_README = """# Is an engine lossless?

`target/` is a random language model of Llama's kind ({V} tokens, float32), and
`draft/` another one. A line of `prompts.jsonl` has a prompt's token ids, and
its text.

1. Let the engine continue each prompt, drafting with `draft/`: temperature 1,
   no top-k, no top-p, no penalties, no end tokens, {new} new tokens, no seed
   (or another for each sample). Give it token ids, the prompts in turn, as
   often as the table says. Let it compute in float32: bfloat16 moves a law of
   our own by TV {half:.1e}.
2. Write a line for each sample, in the order in which they came, with the new
   tokens alone. "prompt" is the number of the prompt's line, from 0:

       {{"prompt": 0, "tokens": [2, 0, 3, 3, 1, 0, 2, 1]}}

3. Look as often as you like: a lossless engine is ever found not to be with a
   probability of {alpha:g} at most.

       python -m tv_jax.audit --samples=FILE --model=FOLDER

So many samples make it clear in {promised:.0%} of cases, with confidence
{confidence:g}. The table's engine that is off is, in chi-square, the nearest to
right that one at its TV can be: faults of real engines show sooner.

| `--tokens` | off by TV {within:g} | right: within TV {within:g} |
|---|---|---|
{table}
"""


def asked() -> bool:
  """Returns whether it is to write, or to look at samples."""
  return _WRITE.value is not None or _SAMPLES.value is not None


def run(*, temperature: float, top_p: float, seed: int) -> int:
  """Writes, or prints what samples say; 0 lossless, 1 not, 3 not clear yet."""
  if not 0.5 <= _CONFIDENCE.value < 1:
    raise ValueError(f"--confidence={_CONFIDENCE.value}: give 0.5 to 1")
  if not 0 < _WITHIN.value < 0.5:
    raise ValueError(f"--within={_WITHIN.value}: give a TV between 0 and 0.5")
  if _WRITE.value is None:
    return _audit(temperature, top_p, seed)
  if _SAMPLES.value is not None:
    raise ValueError("--write and --samples: give one; an engine is between")
  _write(pathlib.Path(_WRITE.value).expanduser(), seed)
  return 0


def _write(folder, seed):
  if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
    raise ValueError(
      f"--write={folder}: it is there already: give a new folder"
    )
  V = _VOCABULARY.value
  prompts = checkpoint.write(folder, V, seed)
  target = folder / "target"
  most = _TOKENS.value or law.usual_tokens(V)
  exact, half = (
    law.law(models.load(target, dtype), prompts, most)
    for dtype in ("float32", "bfloat16")
  )
  table = []
  for k in range(1, most + 1):
    enough = power.needed(
      evidence.begun(exact, V, k), V, _WITHIN.value, _CONFIDENCE.value
    )
    table.append(f"| {k} | {_many(enough.convict)} | {_many(enough.acquit)} |")
  text = _README.format(
    V=V,
    new=max(_NEW, most),
    half=np.abs(exact - half).sum(axis=1).mean() / 2,
    alpha=1 - _CONFIDENCE.value,
    promised=power.PROMISED,
    confidence=_CONFIDENCE.value,
    within=_WITHIN.value,
    table="\n".join(table),
  )
  disk.write_atomic(folder / "README.md", text)
  print(text)
  print(f"{folder} has the models, the prompts, and this as README.md.")


def _audit(temperature, top_p, seed) -> int:
  if _MODEL.value is None:
    raise ValueError("--samples: give --model, the folder that --write wrote")
  asked = law.read_asked(pathlib.Path(_MODEL.value).expanduser())
  V, P = asked.target.config.vocab_size, len(asked.prompts)
  K = _TOKENS.value or law.usual_tokens(V)
  exact = law.law(
    asked.target, asked.prompts, K, temperature=temperature, top_p=top_p
  )
  which, codes = law.read_samples(_SAMPLES.value, asked, K)
  within, confidence = _WITHIN.value, _CONFIDENCE.value
  enough = power.needed(exact, V, within, confidence)
  counts = evidence.count(exact, which, codes)
  grown = evidence.wealth(exact, V, which, codes)
  best, limit = int(np.argmax(grown)), -math.log(1 - confidence)
  found = evidence.bounds(exact, V, which, codes, confidence)
  p = evidence.p_value(exact, V, counts, seed)
  odd = evidence.worst(exact, V, counts)
  after = "tokens " + " ".join(map(str, odd.prefix)) if odd.prefix else "it"
  lines = {
    "samples": f"{len(codes):,}: {K} tokens after {P} prompts,"
    f" {exact.size:,} sequences; temperature {temperature:g}, top-p {top_p:g}",
    "p-value": f"{p:.2g}, if their number was set beforehand",
    "wealth": f"{_number(grown[best])} after {best + 1:,} samples,"
    f" {_number(grown[-1])} at the end; {math.exp(limit):.4g} convicts",
    "TV": "no bound from so few samples"
    if found is None
    else f"{found.lower:.4f} or more, {found.upper:.4f} or less, each at"
    f" {confidence:g} (the first {found.samples:,} samples)",
    "worst": f"prompt {odd.prompt}, after {after}: token {odd.token} came"
    f" {odd.seen:,} times of {odd.of:,} ({odd.seen / max(odd.of, 1):.2%}),"
    f" expected {odd.chance:.2%}",
    "enough": f"{_many(enough.convict)} samples convict an engine that is off"
    f" by TV {within:g}, {_many(enough.acquit)} acquit a right one"
    f" ({power.PROMISED:.0%} of cases)",
  }
  clear = f"clear after {int(np.argmax(grown >= limit)) + 1:,} samples"
  wrong = bool((grown >= limit).any())
  if found is not None and found.upper <= within:
    status, verdict = 0, f"LOSSLESS, within TV {within:g}"
    verdict += f"; it is not exact, {clear}" if wrong else ""
  elif wrong:
    status, verdict = 1, f"NOT LOSSLESS: {clear}"
  else:
    status = _UNCLEAR
    verdict = f"NOT CLEAR YET: {_more(enough.acquit, len(codes))}"
  lines["verdict"] = f"{verdict} (confidence {confidence:g})"
  for name, text in lines.items():
    print(f"{name:9}{text}")
  return status


def _many(samples: int | None) -> str:
  return "more than a billion" if samples is None else f"{samples:,}"


def _more(enough: int | None, samples: int) -> str:
  if enough is None:
    return "it would take more than a billion samples: give fewer --tokens"
  more = max(enough - samples, samples // 4)
  return f"about {more:,} more samples will show it, if it is lossless"


def _number(log: float) -> str:
  """Returns a number by its log, which may be beyond all floats."""
  if not math.isfinite(log) or abs(log) < 20:
    return f"{math.exp(log):.3g}"
  return f"10^{log / math.log(10):.0f}"
