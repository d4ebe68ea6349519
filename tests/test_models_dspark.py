"""DSpark and DFlash checkpoints: saved, loaded, refused.

What they compute is that of the published code (test_dspark_published.py).
"""

import dataclasses
import functools
import json

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests import bad, checkpoints
from tv_jax import models
from tv_jax.models import decoder, loading

HEADS = ["vanilla", "gated", "rnn", None]

load = functools.partial(models.load, kind="dspark")


def published(directory, target, head, **changes):
  """Writes a random draft as published ones are; returns its tensors."""
  models.save(directory, checkpoints.ours_dspark(target, head, **changes))
  tensors = load_file(directory / "model.safetensors")
  theirs = target.params
  for name, key in (("embed_tokens", "embedding"), ("lm_head", "unembedding")):
    matrix = np.asarray(theirs.get(key, theirs["embedding"]))
    tensors[f"{name}.weight"] = np.ascontiguousarray(matrix.T)
  save_file(tensors, directory / "model.safetensors")
  return tensors


@pytest.mark.parametrize("head", HEADS)
def test_what_we_save_is_what_was_published(head, tmp_path):
  tied = head == "gated"
  target = checkpoints.ours(checkpoints.tiny(tie_word_embeddings=tied))
  folders = tmp_path / "published", tmp_path / "ours"
  tensors = published(folders[0], target, head)
  draft = load(folders[0], target=target)
  models.save(folders[1], draft)
  again = load_file(folders[1] / "model.safetensors")
  assert set(tensors) - set(again) == {"embed_tokens.weight", "lm_head.weight"}
  for name, tensor in again.items():
    np.testing.assert_array_equal(tensor, tensors[name])
  raws = [json.loads((at / "config.json").read_text()) for at in folders]
  assert raws[0] == raws[1]
  assert load(folders[1], target=target).config == draft.config


def refuse(directory, target, *words):
  with pytest.raises(ValueError, match=r"\S") as error:
    load(directory, target=target)
  bad.one_line(error, *words)


def test_all_that_is_wrong_is_said_at_once(tmp_path):
  target = checkpoints.ours(checkpoints.tiny())
  models.save(tmp_path, checkpoints.ours_dspark(target))
  checkpoints.rewrite(
    tmp_path, block_size=0, markov_head_type="lstm", mask_token_id=None, heads=3
  )
  refuse(
    tmp_path,
    target,
    "block_size=0: give",
    "markov_head_type='lstm': give one of 'vanilla', 'gated', 'rnn'",
    "mask_token_id is missing",
    "unknown attribute heads=3",
  )


@pytest.mark.parametrize(
  ("changes", "words"),
  [
    ({"target_layer_ids": [0, -1]}, "in order, of -1 (the embedding) to 0"),
    ({"mask_token_id": 999}, "mask_token_id=999 is not in the vocabulary"),
    (
      {"target_layer_ids": [0, 1]},
      "target_layer_ids=[0, 1]: give 1 or more layers of",
    ),
    ({"markov_head_type": None}, "markov_head_type is missing"),
    ({"architectures": ["Qwen3Eagle3Model"]}, "is not a DSpark draft"),
    ({"block_size": None}, "block_size is missing"),
    (
      {"model_type": "llama", "use_sliding_window": None},
      "of model_type='llama' is not supported, only 'qwen3'",
    ),
  ],
  ids=str,
)
def test_a_config_that_is_wrong(tmp_path, changes, words):
  target = checkpoints.ours(checkpoints.tiny())
  models.save(tmp_path, checkpoints.ours_dspark(target))
  checkpoints.rewrite(tmp_path, **changes)
  refuse(tmp_path, target, words)


def test_a_draft_of_another_target(tmp_path):
  target = checkpoints.ours(checkpoints.tiny())
  published(tmp_path, checkpoints.ours(checkpoints.tiny(), seed=5), "vanilla")
  refuse(tmp_path, target, "embed_tokens.weight is not that of random")


def test_a_draft_that_does_not_fit_beside_its_target(tmp_path, monkeypatch):
  target = checkpoints.ours(checkpoints.tiny())
  models.save(tmp_path, checkpoints.ours_dspark(target))
  held = sum(x.nbytes for x in jax.tree.leaves(target.params))
  own = load(tmp_path, target=target)
  shared = decoder.OF_TARGET
  leaves = {x: y for x, y in own.params.items() if x not in shared}
  fits = held + sum(x.nbytes for x in jax.tree.leaves(leaves))
  monkeypatch.setattr(loading, "machine_memory", lambda: fits)
  load(tmp_path, target=target)
  monkeypatch.setattr(loading, "machine_memory", lambda: fits - 1)
  refuse(tmp_path, target, "and its target take", "choose dtype=")


def test_copies_of_a_quantised_target_are_rounded(tmp_path):
  target = checkpoints.ours(checkpoints.tiny())
  published(tmp_path, target, "vanilla")
  embedding = target.params["embedding"]
  noise = np.random.default_rng(0).normal(1, 0.1, embedding.shape)
  rounded = target.params | {"embedding": embedding * noise.astype(np.float32)}
  models.load(
    tmp_path, target=dataclasses.replace(target, params=rounded), kind="dspark"
  )
