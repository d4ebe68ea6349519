"""The EAGLE-1 head against its definition in float64 NumPy."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests import bad, checkpoints
from tests.definition import Definition
from tv_jax import models, tree
from tv_jax.models import config as configs
from tv_jax.models import mask

# Root, two children, three grandchildren, one more below the last of these.
PARENTS = [-1, 0, 0, 1, 1, 2, 5]
SHAPE = tree.from_parents(PARENTS)
D = SHAPE.max_depth
SLOTS = 40
TOLERANCE = 1e-5

load = functools.partial(models.load, kind="eagle")


def published(directory, target, *, bias):
  """Writes a random head as published ones are; returns its tensors."""
  models.save(directory, checkpoints.ours_head(target))
  tensors = load_file(directory / "model.safetensors")
  if not bias:
    del tensors["fc.bias"]
  embedding = np.asarray(target.params["embedding"]).T
  tensors["embed_tokens.weight"] = np.ascontiguousarray(embedding)
  save_file(tensors, directory / "model.safetensors")
  absent = "head_dim tie_word_embeddings rope_scaling torch_dtype mlp_bias"
  changes = dict.fromkeys(absent.split())
  checkpoints.rewrite(directory, **changes, bias=None if bias else False)
  return tensors


def definition(tensors, target, config, tokens, features):
  """The head's output for one sequence of pairs, in float64.

  Args:
    tensors: The head's, under their published names.
    target: The target's, under Hugging Face's names.
    config: The head's.
    tokens: [T].
    features: [T, E], each of the token before.

  Returns:
    Logits [T, V] and features [T, E].
  """
  head = Definition(
    tensors, config.rms_norm_eps, config.rope_theta, config.head_dim
  )
  embedding = target["model.embed_tokens.weight"].astype(np.float64)
  unembedding = target.get("lm_head.weight", embedding).astype(np.float64)
  x = head.affine(np.concatenate([embedding[tokens], features], -1), "fc")
  x = head.layer(x, x, "layers.0.")
  return x @ unembedding.T, x


@pytest.fixture(
  scope="module",
  params=[(True, False), (False, True)],
  ids=["bias-untied", "plain-tied"],
)
def setting(request, tmp_path_factory):
  """A target and a head on top, loaded; and their tensors."""
  bias, tied = request.param
  directory = tmp_path_factory.mktemp("eagle")
  target = checkpoints.ours(checkpoints.tiny(tie_word_embeddings=tied))
  models.save(directory / "target", target)
  tensors = published(directory / "head", target, bias=bias)
  target = models.load(directory / "target")
  head = load(directory / "head", target=target)
  there = load_file(directory / "target" / "model.safetensors")
  return head, tensors, there


def causal(head, apply, tokens, features, cache):
  T = tokens.shape[1]
  positions = cache.length[:, None] + jnp.arange(T, dtype=jnp.int32)[None]
  seen = mask.causal(cache.length, T, cache.slots)
  return apply(
    {"params": head.params}, tokens, features, positions, seen, cache
  )


def close(ours, theirs):
  assert checkpoints.error(np.asarray(ours), theirs) <= TOLERANCE


def test_a_tree_and_the_true_features_afterwards(setting):
  head, tensors, target = setting
  config = head.config
  E, V = config.hidden_size, config.vocab_size
  apply = jax.jit(head.module.apply)
  rng = np.random.default_rng(7)
  lengths = np.array([9, 6], np.int32)  # pairs known, the root's the last
  tokens = rng.integers(0, V, (2, 9)).astype(np.int32)
  true = rng.normal(size=(2, 9, E)).astype(np.float32)
  nodes = rng.integers(0, V, (2, 7)).astype(np.int32)

  # Prefill: rows padded to the longest.
  logits, features, cache = causal(
    head, apply, tokens, jnp.asarray(true), head.init_cache(2, SLOTS)
  )
  rows = np.arange(2)
  for row, n in enumerate(lengths):
    expected = definition(
      tensors, target, config, tokens[row, :n], true[row, :n]
    )
    close(logits[row, :n], expected[0])
    close(features[row, :n], expected[1])

  # Drafting: the root's pair has been seen; its slot is the last one.
  cache = dataclasses.replace(cache, length=jnp.asarray(lengths))
  root = cache.length - 1
  predicted = {0: features[rows, lengths - 1]}
  law = {}
  for depth in range(1, D + 1):
    level = np.flatnonzero(np.equal(SHAPE.depth, depth))
    parents = jnp.stack([predicted[PARENTS[n]] for n in level], 1)
    logits, features, cache = apply(
      {"params": head.params},
      jnp.asarray(nodes[:, level]),
      parents,
      jnp.broadcast_to(root[:, None] + depth, (2, len(level))),
      mask.tree(root, jnp.asarray(SHAPE.ancestors[level]), SLOTS),
      cache,
    )
    for i, n in enumerate(level):
      predicted[int(n)], law[int(n)] = features[:, i], logits[:, i]

  for row, n in enumerate(lengths):
    for leaf in (3, 4, 6):
      path = np.flatnonzero(SHAPE.ancestors[leaf])[1:]
      known, beside = list(tokens[row, :n]), list(true[row, :n])
      for node in path:
        _, out = definition(
          tensors, target, config, np.array(known), np.array(beside)
        )
        known.append(nodes[row, node])
        beside.append(out[-1])
      theirs, out = definition(
        tensors, target, config, np.array(known), np.array(beside)
      )
      for i, node in enumerate(path):
        close(law[node][row], theirs[n + i])
        close(predicted[node][row], out[n + i])

  # Catching up: what drafting wrote is dropped, and the accepted tokens are
  # fed again with true features, in D + 1 slots of which some are padding.
  count = np.array([4, 2], np.int32)
  fed = rng.integers(0, V, (2, D + 1)).astype(np.int32)
  beside = rng.normal(size=(2, D + 1, E)).astype(np.float32)
  cache = dataclasses.replace(cache, length=jnp.asarray(lengths))
  logits, _, cache = causal(head, apply, fed, jnp.asarray(beside), cache)
  for row, n in enumerate(lengths):
    m = count[row]
    theirs, _ = definition(
      tensors,
      target,
      config,
      np.concatenate([tokens[row, :n], fed[row, :m]]),
      np.concatenate([true[row, :n], beside[row, :m]]),
    )
    close(logits[row, :m], theirs[n:])


def test_what_we_save_is_what_was_published(setting, tmp_path):
  head, tensors, _ = setting
  models.save(tmp_path, head)
  again = load_file(tmp_path / "model.safetensors")
  assert set(again) == set(tensors) - {"embed_tokens.weight"}
  for name, tensor in again.items():
    np.testing.assert_array_equal(tensor, tensors[name])
  target = dataclasses.replace(
    checkpoints.ours(head.config), params=head.params
  )
  reloaded = load(tmp_path, target=target)
  assert reloaded.config == head.config
  assert reloaded.module.bias is head.module.bias
  jax.tree.map(np.testing.assert_array_equal, reloaded.params, head.params)


QWEN3 = checkpoints.tiny(model_type="qwen3")


@pytest.mark.parametrize(
  ("other", "changes", "words"),
  [
    ({"vocab_size": 50}, {}, "vocabulary of 48 is not the target's of 50"),
    ({}, {"hidden_size": 64}, "hidden_size=64 is not the target's"),
    ({}, {"bias": "yes"}, "config.json: bias='yes': give true or false"),
    (
      {},
      configs.to_dict(QWEN3) | {"num_hidden_layers": 1, "mlp_bias": None},
      "config.json: an EAGLE-1 head of model_type='qwen3' is not",
    ),
    (
      {"model_type": "qwen3"},
      {},
      "target of model_type='qwen3' is not supported, only 'llama'",
    ),
  ],
  ids=str,
)
def test_a_head_that_does_not_fit_is_refused(tmp_path, other, changes, words):
  models.save(
    tmp_path, checkpoints.ours_head(checkpoints.ours(checkpoints.tiny()))
  )
  checkpoints.rewrite(tmp_path, **changes)
  target = checkpoints.ours(checkpoints.tiny(**other))
  with pytest.raises(ValueError, match=r"\S") as error:
    load(tmp_path, target=target)
  bad.one_line(error, words)
