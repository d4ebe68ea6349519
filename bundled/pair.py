"""The whole run: tokenizer, target, drafts, EAGLE head, questions."""

import dataclasses
import functools
import hashlib
import pathlib

import jax
import numpy as np
import tokenizers
from absl import logging

from bundled import (
  checkpoint,
  curve,
  export,
  loop,
  losses,
  source,
  tasks,
  tokens,
)
from bundled.data import Corpus
from bundled.settings import Settings, llama_config
from tv_jax.models import eagle as eagles
from tv_jax.models import families

STAGES = ("target", "draft", "draft_weak", "eagle")


def run(settings: Settings, workdir: pathlib.Path) -> None:
  """Trains what is not trained yet, and writes it to `workdir`/bundled.

  Args:
    settings: All that the weights depend on, beside the Python version.
    workdir: For checkpoints, logs and results. Running again goes on.
  """
  (workdir / "bundled").mkdir(parents=True, exist_ok=True)
  bench = workdir / "bundled" / "minibench.jsonl"
  bench.write_text(tasks.minibench_lines(), encoding="utf-8")
  more = workdir / "bundled" / "tuning.jsonl"
  more.write_text(tasks.tuning_lines(), encoding="utf-8")
  text = source.read(settings.data.source_bytes)
  corpus = make_corpus(settings, text, workdir / "tokenizer.json")
  target_config = llama_config(settings, settings.target)
  head_config = dataclasses.replace(target_config, num_hidden_layers=1)
  keys = jax.random.split(jax.random.key(settings.seed), len(STAGES))
  keys = dict(zip(STAGES, keys, strict=True))
  logging.info("%s tokens of source text", f"{len(corpus.source):,}")

  def train(stage, config, loss, params, frozen=()):
    count = sum(leaf.size for leaf in jax.tree.leaves(params))
    logging.info("%s: %s parameters", stage, f"{count:,}")
    return loop.run(
      stage,
      loss,
      params,
      # Another one than that of the initial parameters.
      jax.random.fold_in(keys[stage], 1),
      corpus,
      getattr(settings, f"{stage}_schedule"),
      workdir / stage,
      name=_name(settings, stage, corpus),
      checkpoint_every=settings.checkpoint_every,
      log_every=settings.log_every,
      frozen=frozen,
      on_checkpoint=functools.partial(
        export.write, workdir / "bundled" / stage, corpus.tokenizer, config
      ),
    )

  def learn(stage):
    """Trains a Llama on the text."""
    config = llama_config(settings, getattr(settings, stage))
    loss = functools.partial(losses.text, config)
    return train(stage, config, loss, families.init(keys[stage], config))

  target = learn("target")
  # As real drafts are: on what the target read, not on the target's law.
  learn("draft")
  learn("draft_weak")
  head = eagles.init(keys["eagle"], head_config, bias=True)
  # The embedding is the target's own.
  del head["params"]["embedding"]
  train(
    "eagle",
    head_config,
    functools.partial(
      losses.head, settings.regression, target_config, head_config
    ),
    head,
    (target,),
  )
  curve.draw(workdir, workdir / "curve.svg")


def make_corpus(settings: Settings, text: str, path: pathlib.Path) -> Corpus:
  """The rows' source, with the tokenizer from `path` or trained anew."""
  if path.exists():
    tokenizer = tokenizers.Tokenizer.from_file(str(path))
  else:
    tokenizer = tokens.train(
      settings.data.vocab_size,
      settings.data.tokenizer_conversations,
      text,
      settings.seed,
    )
    partial = path.with_suffix(".partial")
    tokenizer.save(str(partial))
    partial.replace(path)
  ids = tokenizer.encode(text, add_special_tokens=False).ids
  return Corpus(
    tokenizer=tokenizer,
    source=np.array(ids, np.int32),
    settings=settings.data,
    seed=settings.seed,
  )


def _name(settings: Settings, stage: str, corpus: Corpus) -> str:
  """What a stage's weights depend on, in short."""
  told = dataclasses.asdict(settings)
  parts = ["seed", "max_position_embeddings", "data"]
  # The head is trained on the target's features; a draft knows no target.
  own = ["target", "target_schedule", "eagle_schedule", "regression"]
  parts += own if stage == "eagle" else [stage, f"{stage}_schedule"]
  return checkpoint.fingerprint(
    {part: told[part] for part in parts}
    | {
      "tokenizer": corpus.tokenizer.to_str(),
      "source": hashlib.sha256(corpus.source.tobytes()).hexdigest(),
    }
  )
