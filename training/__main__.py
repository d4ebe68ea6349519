"""Makes the bundled models from nothing: `python -m training [--smoke]`.

Writes {target,draft,draft_weak}, minibench.jsonl and tuning.jsonl to
runs/bundled/assets, as they are in tv_jax/assets/bundled. This takes an hour on
two cores, or a minute with --smoke, which makes tiny models. After an
interruption, the same command continues. Expected at the end: 0.82 nats per
answer token (target), 1.14 (draft) and 2.05 (draft_weak).
"""

import pathlib

import jax
import numpy as np
import tokenizers
from absl import flags, logging

from training import settings, tasks, tokens, training
from training.data import Corpus
from tv_jax.io import cli

_SMOKE = flags.DEFINE_bool("smoke", False, "Make tiny models.")
_WORKDIR = flags.DEFINE_string("workdir", "runs/bundled", "For all results.")

# One key per stage of the run of 2026-11-22, which also made an EAGLE head.
_KEYS = 4


def run(options: settings.Settings, workdir: pathlib.Path) -> None:
  """Writes the questions, and trains the models that are not yet trained."""
  assets = workdir / "assets"
  assets.mkdir(parents=True, exist_ok=True)
  for name in ("minibench", "tuning"):
    text = tasks.lines(getattr(tasks, name)())
    (assets / f"{name}.jsonl").write_text(text, encoding="utf-8")
  corpus = make_corpus(options, workdir / "tokenizer.json")
  keys = jax.random.split(jax.random.key(0), _KEYS)
  for key, stage in zip(keys, options.shapes, strict=False):
    # Drafts are trained on the target's data and not on its probabilities, like
    # real drafts.
    config = settings.config(options, stage)
    trained = training.train(
      stage,
      config,
      key,
      corpus,
      options.schedules[stage],
      workdir / f"{stage}.npz",
    )
    training.export(assets / stage, config, trained)
  tokens.save(corpus.tokenizer, assets / "target", settings.CONTEXT)


def make_corpus(options: settings.Settings, path: pathlib.Path) -> Corpus:
  """Makes the corpus; reads the tokenizer from `path`, or trains it."""
  text = tokens.read_source(options.source_bytes)
  if path.exists():
    tokenizer = tokenizers.Tokenizer.from_file(str(path))
  else:
    tokenizer = tokens.train(options.vocab_size, options.conversations, text)
    tokenizer.save(str(path))
  ids = tokenizer.encode(text, add_special_tokens=False).ids
  return Corpus(tokenizer, np.array(ids, np.int32))


def main() -> None:
  """Runs the command."""
  logging.set_verbosity(logging.INFO)
  options = settings.SMOKE if _SMOKE.value else settings.FULL
  run(options, pathlib.Path(_WORKDIR.value))


if __name__ == "__main__":
  cli.run("training", main)
