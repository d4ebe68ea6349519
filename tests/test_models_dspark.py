"""DSpark and DFlash against their definition in float64 NumPy."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests import bad, checkpoints
from tests.definition import Definition, sigmoid
from tv_jax import models
from tv_jax.models import decoder, loading, mask

HEADS = ["vanilla", "gated", "rnn", None]
SLOTS = 24
TOLERANCE = 1e-5


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


class OfDSpark(Definition):
  """A draft in float64, from its tensors by their published names."""

  def __init__(self, tensors, config):
    constants = config.rms_norm_eps, config.rope_theta, config.head_dim
    super().__init__(tensors, *constants)
    self.config = config

  def block(self, features, root):
    """Logits [K, V] and outputs [K, E] of the pass over a root's block.

    Args:
      features: [T, X] of all tokens before the root.
      root: The token.
    """
    block = self.config.block
    beside = self.norm(self.affine(features, "fc"), "hidden_norm")
    tokens = [root] + [block.mask] * (block.size - 1)
    x = self.w["embed_tokens.weight"][tokens]
    for i in range(self.config.num_hidden_layers):
      y = self.norm(x, f"layers.{i}.input_layernorm")
      x = self.layer(x, y, f"layers.{i}.", beside)
    outputs = self.norm(x, "norm")
    return self.affine(outputs, "lm_head"), outputs

  def after(self, path, outputs):
    """What a path [root, ..] adds to its last token's logits; confidence."""
    own, bias = self.config.block, 0
    state, known = np.zeros(own.rank), None
    for depth, token in enumerate(path if own.rank else []):
      h, known = outputs[depth], self.w["markov_head.markov_w1.weight"][token]
      latent = known
      if own.head == "gated":
        joint = np.concatenate([h, known])
        latent = sigmoid(self.affine(joint, "markov_head.gate_proj")) * known
      if own.head == "rnn":
        joint = np.concatenate([state, known, h])
        joint = self.affine(joint, "markov_head.joint_proj")
        gate, new, latent = np.split(joint, 3)
        state = sigmoid(gate) * state + (1 - sigmoid(gate)) * np.tanh(new)
        latent = np.tanh(latent)
      bias = self.affine(latent, "markov_head.markov_w2")
    if not own.confidence:
      return bias, None
    seen = [outputs[len(path) - 1]] + [known] * own.sees_token
    sure = self.affine(np.concatenate(seen), "confidence_head.proj")
    return bias, sigmoid(sure[0])


def close(ours, theirs):
  assert checkpoints.error(np.asarray(ours), theirs) <= TOLERANCE


@pytest.fixture(scope="module", params=HEADS, ids=str)
def setting(request, tmp_path_factory):
  """A draft, loaded, and its tensors; where; and its target."""
  directory = tmp_path_factory.mktemp("dspark")
  tied = request.param == "gated"
  target = checkpoints.ours(checkpoints.tiny(tie_word_embeddings=tied))
  tensors = published(directory, target, request.param)
  return models.load_dspark(directory, target), tensors, directory, target


def test_two_passes_and_paths_below(setting):
  draft, tensors, _, _ = setting
  config = draft.config
  K, X = config.block.size, 2 * config.hidden_size
  theirs = OfDSpark(tensors, config)
  apply = jax.jit(draft.module.apply, static_argnames="method")
  rng = np.random.default_rng(7)
  features = rng.normal(size=(2, 12, X)).astype(np.float32)
  cache, empty = draft.init_cache(2, SLOTS), np.zeros((2, 0), np.int32)

  def run(tokens, begin, count, known, cache):
    """Reads `count` features from `begin` [B] on; `known` of all are real."""
    K = tokens.shape[1]
    rows = begin[:, None] + np.arange(count)
    read = np.take_along_axis(features, rows[..., None], axis=1)
    positions = np.concatenate([rows, known[:, None] + np.arange(K)], axis=1)
    cache = dataclasses.replace(cache, length=jnp.asarray(begin, jnp.int32))
    seen = mask.block(
      jnp.asarray(known, jnp.int32), cache.length + count, K, SLOTS
    )
    return apply(
      {"params": draft.params},
      tokens,
      read,
      positions.astype(np.int32),
      seen,
      cache,
    )

  # A prompt is read alone, padded to the longest; then two cycles, in which
  # some of what is fed is padding, and which drop each other's blocks.
  none = np.zeros(2, np.int32)
  _, _, cache = run(empty, none, 5, none, cache)
  begin = np.array([5, 3], np.int32)
  for gains in ([1, 3], [3, 2]):
    known = begin + gains
    roots = rng.integers(0, config.vocab_size, 2)
    tokens = np.full((2, K), config.block.mask, np.int32)
    tokens[:, 0] = roots
    logits, outputs, cache = run(tokens, begin, 4, known, cache)
    paths = rng.integers(0, config.vocab_size, (2, K)).astype(np.int32)
    paths[:, 0] = roots
    for row in range(2):
      expected, hidden = theirs.block(features[row, : known[row]], roots[row])
      close(logits[row], expected)
      close(outputs[row], hidden)
    state = jnp.zeros(
      (2, 1, config.block.rank if config.block.head == "rnn" else 0)
    )
    for depth in range(K):
      said, state, sure = apply(
        {"params": draft.params},
        paths[:, depth : depth + 1],
        outputs[:, depth : depth + 1],
        state,
        method="after",
      )
      for row in range(2):
        bias, confidence = theirs.after(
          paths[row, : depth + 1], np.asarray(outputs[row], np.float64)
        )
        ours = np.asarray(logits[row, depth] + said[row, 0])
        close(ours, np.asarray(logits[row, depth]) + bias)
        if confidence is not None:
          assert float(sure[row, 0]) == pytest.approx(confidence, abs=1e-6)
        else:
          assert sure is None
    begin = known


def test_what_we_save_is_what_was_published(setting, tmp_path):
  draft, tensors, directory, target = setting
  models.save(tmp_path, draft)
  again = load_file(tmp_path / "model.safetensors")
  assert set(tensors) - set(again) == {"embed_tokens.weight", "lm_head.weight"}
  for name, tensor in again.items():
    np.testing.assert_array_equal(tensor, tensors[name])
  raws = [
    json.loads((at / "config.json").read_text()) for at in (directory, tmp_path)
  ]
  assert raws[0] == raws[1]
  assert models.load_dspark(tmp_path, target).config == draft.config


def refuse(directory, target, *words):
  with pytest.raises(ValueError, match=r"\S") as error:
    models.load_dspark(directory, target)
  bad.one_line(error, *words)


def test_all_that_is_wrong_is_said_at_once(tmp_path):
  target = checkpoints.ours(checkpoints.tiny())
  tensors = published(tmp_path, target, "gated")
  del tensors["fc.weight"]
  tensors["markov_head.joint_proj.bias"] = np.zeros(12, np.float32)
  tensors["markov_head.gate_proj.weight"] = np.zeros((4, 35), np.float32)
  save_file(tensors, tmp_path / "model.safetensors")
  refuse(
    tmp_path,
    target,
    "missing: fc.weight",
    "unknown: markov_head.joint_proj.bias",
    "wrong shape: markov_head.gate_proj.weight is [4, 35], not [4, 36]",
  )
  checkpoints.rewrite(
    tmp_path,
    block_size=0,
    markov_head_type="lstm",
    mask_token_id=None,
    num_heads=3,
  )
  refuse(
    tmp_path,
    target,
    "block_size=0: give",
    "markov_head_type='lstm': give one of 'vanilla', 'gated', 'rnn'",
    "mask_token_id is missing",
    "unknown attribute num_heads=3",
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
      "model_type='llama' is not 'qwen3'",
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
  own = models.load_dspark(tmp_path, target)
  shared = decoder.OF_TARGET
  leaves = {x: y for x, y in own.params.items() if x not in shared}
  fits = held + sum(x.nbytes for x in jax.tree.leaves(leaves))
  monkeypatch.setattr(loading, "machine_memory", lambda: fits)
  models.load_dspark(tmp_path, target)
  monkeypatch.setattr(loading, "machine_memory", lambda: fits - 1)
  refuse(tmp_path, target, "and its target take", "choose dtype=")


def test_copies_of_a_quantised_target_are_rounded(tmp_path):
  target = checkpoints.ours(checkpoints.tiny())
  published(tmp_path, target, "vanilla")
  embedding = target.params["embedding"]
  noise = np.random.default_rng(0).normal(1, 0.1, embedding.shape)
  rounded = target.params | {"embedding": embedding * noise.astype(np.float32)}
  models.load_dspark(tmp_path, dataclasses.replace(target, params=rounded))
