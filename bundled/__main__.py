"""Makes the bundled models from nothing: `python -m bundled [--smoke]`.

Into runs/bundled/assets: {target,draft,draft_weak,eagle}, minibench.jsonl and
tuning.jsonl, as they are in tv_jax/assets/bundled. 70 minutes on two cores; a
minute with --smoke, which makes tiny models. Run it again after an interruption
and it continues. Expected at the end: 0.82 nats per token of an answer
(target), 1.14 (draft) and 2.05 (draft_weak), and 0.92 of the head's tokens
accepted.
"""

import argparse
import dataclasses
import functools
import pathlib

import jax
import numpy as np
import tokenizers
from absl import logging

from bundled import losses, settings, tasks, tokens, training
from bundled.data import Corpus
from tv_jax.edge import cli
from tv_jax.models import eagle as eagles
from tv_jax.models import families


def run(told: settings.Settings, workdir: pathlib.Path) -> None:
  """Trains what is not trained yet."""
  assets = workdir / "assets"
  assets.mkdir(parents=True, exist_ok=True)
  for name, chosen in (
    ("minibench", tasks.minibench()),
    ("tuning", tasks.tuning()),
  ):
    text = tasks.lines(chosen)
    (assets / f"{name}.jsonl").write_text(text, encoding="utf-8")
  corpus = make_corpus(told.data, workdir / "tokenizer.json")
  keys = jax.random.split(jax.random.key(0), len(told.schedules))
  keys = dict(zip(told.schedules, keys, strict=True))

  def train(stage, config, loss, params, frozen=()):
    trained = training.train(
      stage,
      loss,
      params,
      # Not the key of the initial parameters.
      jax.random.fold_in(keys[stage], 1),
      corpus,
      told.schedules[stage],
      workdir / f"{stage}.npz",
      frozen,
    )
    training.export(assets / stage, corpus.tokenizer, config, trained)
    return trained

  trained = {}
  for stage, shape in told.shapes.items():
    # Drafts learn what the target read, as real ones do, not the target's law.
    config = settings.llama_config(told.data, shape)
    loss = functools.partial(losses.text, config)
    start = families.init(keys[stage], config)
    trained[stage] = train(stage, config, loss, start)
  config = settings.llama_config(told.data, told.shapes["target"])
  head = dataclasses.replace(config, num_hidden_layers=1)
  params = eagles.init(keys["eagle"], head, bias=True)
  # The embedding is the target's own.
  del params["embedding"]
  loss = functools.partial(losses.head, config, head)
  train("eagle", head, loss, params, (trained["target"],))


def make_corpus(data: settings.Data, path: pathlib.Path) -> Corpus:
  """Makes the rows' source, with the tokenizer from `path` or trained anew."""
  text = tokens.read_source(data.source_bytes)
  if path.exists():
    tokenizer = tokenizers.Tokenizer.from_file(str(path))
  else:
    tokenizer = tokens.train(
      data.vocab_size, data.tokenizer_conversations, text
    )
    tokenizer.save(str(path))
  ids = tokenizer.encode(text, add_special_tokens=False).ids
  source = np.array(ids, np.int32)
  return Corpus(tokenizer=tokenizer, source=source, settings=data)


def main(heard: cli.Heard) -> None:
  """Runs the command."""
  del heard
  parser = argparse.ArgumentParser(prog="python -m bundled")
  parser.add_argument("--smoke", action="store_true", help="tiny models")
  parser.add_argument("--workdir", default="runs/bundled", type=pathlib.Path)
  told = parser.parse_args()
  logging.set_verbosity(logging.INFO)
  run(settings.SMOKE if told.smoke else settings.FULL, told.workdir)


if __name__ == "__main__":
  cli.until_told(main)
