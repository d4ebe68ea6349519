"""The audit of any engine: `python -m tv_jax.audit --write` and `--samples`."""

from __future__ import annotations

import math
import pathlib

import numpy as np
from absl import flags

from tv_jax import models
from tv_jax.certify.samples import checkpoint, evidence, law
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
_CONFIDENCE = flags.DEFINE_float(
  "confidence", 0.99, "Of each verdict.", 0.5, 0.999999
)
_WITHIN = flags.DEFINE_float(
  "within", 0.02, "The TV that counts as lossless.", 1e-6, 0.5
)
_NEW = 8  # tokens of a sample at the least, whatever --tokens is to be
_UNCLEAR = 3  # the exit status

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

So many samples show in {promised:.0%} of cases, with confidence {confidence:g},
that a right engine is within TV {within:g}. Faults show sooner.

| `--tokens` | samples |
|---|---|
{table}
"""


def asked() -> bool:
  """Returns whether it is to write, or to look at samples."""
  return _WRITE.value is not None or _SAMPLES.value is not None


def run(*, temperature: float, top_p: float, seed: int) -> int:
  """Writes, or prints what samples say; 0 lossless, 1 not, 3 not clear yet."""
  if _WRITE.value is None:
    return _audit(temperature, top_p)
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
  most = _TOKENS.value or law.usual_tokens(V)
  exact, half = (
    law.law(models.load(folder / "target", dtype), prompts, most)
    for dtype in ("float32", "bfloat16")
  )
  table = (
    f"| {k} | {_enough(evidence.begun(exact, V, k)):,} |"
    for k in range(1, most + 1)
  )
  text = _README.format(
    V=V,
    new=max(_NEW, most),
    half=np.abs(exact - half).sum(axis=1).mean() / 2,
    alpha=1 - _CONFIDENCE.value,
    promised=evidence.PROMISED,
    confidence=_CONFIDENCE.value,
    within=_WITHIN.value,
    table="\n".join(table),
  )
  disk.write_atomic(folder / "README.md", text)
  print(text)
  print(f"{folder} has the models, the prompts, and this as README.md.")


def _audit(temperature, top_p) -> int:
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
  limit, enough = -math.log(1 - confidence), _enough(exact)
  grown = evidence.wealth(exact, V, which, codes)
  best, wrong = int(grown.argmax()), bool((grown >= limit).any())
  bound = evidence.upper_bound(exact, which, codes, confidence)
  odd = evidence.worst(exact, V, evidence.count(exact, which, codes))
  after = "tokens " + " ".join(map(str, odd.prefix)) if odd.prefix else "it"
  lines = {
    "samples": f"{len(codes):,}: {K} tokens after {P} prompts,"
    f" {exact.size:,} sequences; temperature {temperature:g}, top-p {top_p:g}",
    "wealth": f"{_number(grown[best])} after {best + 1:,} samples,"
    f" {_number(grown[-1])} at the end; {math.exp(limit):.4g} convicts",
    "TV": "no bound from so few samples"
    if bound is None
    else f"{bound[1]:.4f} or less (the first {bound[0]:,} samples)",
    "worst": f"prompt {odd.prompt}, after {after}: token {odd.token} came"
    f" {odd.seen:,} times of {odd.of:,} ({odd.seen / max(odd.of, 1):.2%}),"
    f" expected {odd.chance:.2%}",
    "enough": f"{enough:,} samples acquit a right engine"
    f" ({evidence.PROMISED:.0%} of cases)",
  }
  clear = f"clear after {int((grown >= limit).argmax()) + 1:,} samples"
  if bound is not None and bound[1] <= within:
    status, verdict = 0, f"LOSSLESS, within TV {within:g}"
    verdict += f"; it is not exact, {clear}" if wrong else ""
  elif wrong:
    status, verdict = 1, f"NOT LOSSLESS: {clear}"
  else:
    more = max(enough - len(codes), len(codes) // 4)
    status, verdict = _UNCLEAR, f"NOT CLEAR YET: about {more:,} more samples"
    verdict += " will show it, if it is lossless"
  lines["verdict"] = f"{verdict} (confidence {confidence:g})"
  for name, text in lines.items():
    print(f"{name:9}{text}")
  return status


def _enough(exact) -> int:
  return evidence.needed(exact, _WITHIN.value, _CONFIDENCE.value)


def _number(log: float) -> str:
  """Returns a number by its log, which may be beyond all floats."""
  if not math.isfinite(log) or abs(log) < 20:
    return f"{math.exp(log):.3g}"
  return f"10^{log / math.log(10):.0f}"
