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
from tv_jax import models
from tv_jax.models import config as configs

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


def close(ours, theirs):
  assert checkpoints.error(np.asarray(ours), theirs) <= TOLERANCE


def test_ours_is_the_definition(setting):
  """A text, levels drafted behind it, and then the target's true features."""
  head, tensors, target = setting
  config = head.config
  apply = jax.jit(functools.partial(models.causal_pass, head.module))
  rng, T, more = np.random.default_rng(7), 9, 4
  tokens = rng.integers(0, config.vocab_size, T + more).astype(np.int32)
  true = rng.normal(size=(T + more, config.hidden_size)).astype(np.float32)

  def run(begin, end, features, cache):
    cache = dataclasses.replace(cache, length=jnp.array([begin], jnp.int32))
    rows = jnp.asarray(tokens[None, begin:end]), jnp.asarray(features)[None]
    return apply(head.params, rows, cache)

  def defined(features):
    known = tokens[: len(features)]
    return definition(tensors, target, config, known, features)

  logits, features, cache = run(0, T, true[:T], head.init_cache(1, SLOTS))
  theirs = defined(true[:T])
  close(logits[0], theirs[0])
  close(features[0], theirs[1])
  beside, kept = true[:T].astype(np.float64), cache
  for place in range(T, T + more):  # drafting makes do with its own
    beside = np.concatenate([beside, defined(beside)[1][-1:]])
    logits, features, cache = run(place, place + 1, features[0, -1:], cache)
    close(logits[0, 0], defined(beside)[0][-1])
  logits, _, _ = run(T, T + more, true[T:], kept)
  close(logits[0], defined(true)[0][T:])


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
