"""The audit of any engine: `python -m tv_jax.audit --write` and `--samples`."""

from __future__ import annotations

import math
import pathlib

import numpy as np
from absl import flags

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
_WITHIN = flags.DEFINE_float(
  "within", 0.02, "The TV that counts as lossless.", 1e-6, 0.5
)
_CONFIDENCE = 0.99  # of each verdict
_NEW = 8  # tokens of a sample at the least, whatever --tokens is to be
_UNCLEAR = 3  # the exit status

_README = """# Is an engine lossless?

`target/` is a random language model of Llama's kind ({V} tokens, float32), and
`draft/` another one. A line of `prompts.jsonl` has a prompt's token ids, and
its text.

1. Let the engine continue each prompt, drafting with `draft/`: temperature 1,
   no top-k, no top-p, no penalties, no end tokens, {new} new tokens, no seed
   (or another for each sample). Give it token ids, the prompts in turn, again
   and again. Let it compute in float32.
2. Write a line for each sample, in the order in which they came, with the new
   tokens alone. "prompt" is the number of the prompt's line, from 0:

       {{"prompt": 0, "tokens": [2, 0, 3, 3, 1, 0, 2, 1]}}

3. Look as often as you like:

       python -m tv_jax.audit --samples=FILE --model=FOLDER
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
  checkpoint.write(folder, _VOCABULARY.value, seed)
  text = _README.format(V=_VOCABULARY.value, new=max(_NEW, _TOKENS.value or 1))
  disk.write_atomic(folder / "README.md", text)
  print(text)
  print(f"{folder} has the models, the prompts, and this as README.md.")


def _audit(temperature, top_p) -> int:
  if _MODEL.value is None:
    raise ValueError("--samples: give --model, the folder that --write wrote")
  asked = law.read_asked(pathlib.Path(_MODEL.value).expanduser())
  V, within = asked.target.config.vocab_size, _WITHIN.value
  K = _TOKENS.value or law.usual_tokens(V)
  exact = law.law(
    asked.target, asked.prompts, K, temperature=temperature, top_p=top_p
  )
  which, codes = law.read_samples(_SAMPLES.value, asked, K)
  grown = evidence.wealth(exact, V, which, codes) / math.log(10)
  looked, bound = evidence.upper_bound(exact, which, codes, _CONFIDENCE)
  odd = evidence.worst(exact, V, evidence.count(exact, which, codes))
  print(
    f"samples  {len(codes):,}: {K} tokens after {len(exact)} prompts,"
    f" {exact.size:,} sequences; temperature {temperature:g}, top-p {top_p:g}\n"
    f"wealth   10^{grown.max():.1f} after {grown.argmax() + 1:,} samples,"
    f" 10^{grown[-1]:.1f} at the end; 10^2 convicts\n"
    f"TV       {bound:.4f} or less (the first {looked:,} samples)\n"
    f"worst    after prompt {odd.prompt}, {' '.join(map(str, odd.tokens))} came"
    f" {odd.seen:,} times of {odd.of:,}, expected {odd.of * odd.chance:,.1f}"
  )
  convicts = np.flatnonzero(grown >= -math.log10(1 - _CONFIDENCE))
  clear = f"clear after {convicts[0] + 1:,} samples" if len(convicts) else ""
  if bound <= within:
    status, verdict = 0, f"LOSSLESS, within TV {within:g}"
    verdict += f"; it is not exact, {clear}" if clear else ""
  elif clear:
    status, verdict = 1, f"NOT LOSSLESS: {clear}"
  else:
    status, verdict = _UNCLEAR, "NOT CLEAR YET: give more samples"
  print(f"verdict  {verdict} (confidence {_CONFIDENCE:g})")
  return status
