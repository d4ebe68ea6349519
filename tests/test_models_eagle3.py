"""EAGLE-3 heads: as published ones compute, load, and draft."""

import dataclasses
import functools
import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file

import tv_jax
from tests import bad, checkpoints
from tests import eagle3_files as files
from tv_jax import models
from tv_jax.models import sharding

LAYOUTS = [*files.CONFIGS]
GOLDEN = pathlib.Path(__file__).with_name("eagle3_golden.json")
TOLERANCE = 1e-5

load = functools.partial(models.load, kind="eagle3")


@pytest.fixture(scope="module", params=LAYOUTS)
def layout(request):
  return request.param


@pytest.fixture(scope="module")
def target(layout):
  """With the embedding that published code was given."""
  made = files.target(layout)
  own = made.params | {"embedding": files.given(layout)[0].T}
  own = jax.tree.map(jnp.asarray, own)
  return dataclasses.replace(made, params=own)


def drafted(head, tokens, features):
  """A head's logits [LEVELS, V] behind a text, level by level."""
  apply = jax.jit(functools.partial(models.causal_pass, head.module))
  cache = head.init_cache(1, 16)

  def run(tokens, features, cache):
    rows = jnp.asarray(tokens, jnp.int32)[None], features
    return apply(head.params, rows, cache)

  # A text in two pieces, as one that was begun is gone on with.
  _, _, cache = run(tokens[:5], jnp.asarray(features[None, :5]), cache)
  rest = jnp.asarray(features[None, 5:])
  logits, own, cache = run(tokens[5 : files.PAIRS], rest, cache)
  found = [logits[0, -1]]
  for place in range(files.PAIRS, len(tokens)):
    logits, own, cache = run(tokens[place : place + 1], own[:, -1:], cache)
    found.append(logits[0, -1])
  return np.stack(found)


def known(tensors):
  """The target's tokens that a head knows."""
  few = tensors.get("d2t")
  return np.arange(files.V) if few is None else few + np.arange(len(few))


@pytest.mark.parametrize("first", [False, True])
def test_ours_is_the_definition(layout, target, first, tmp_path):
  tensors = files.publish(tmp_path, layout, norm_before_residual=first)
  head = load(tmp_path, target=target)
  assert head.config.target_layers == files.LAYERS[layout]
  embedding, *given = files.given(layout)
  embedding = tensors.get("embed_tokens.weight", embedding)
  theirs = files.levels(layout, tensors, embedding, *given, first=first)
  ours, tokens = drafted(head, *given), known(tensors)
  assert checkpoints.error(ours[:, tokens], theirs) <= TOLERANCE
  assert np.isneginf(np.delete(ours, tokens, axis=1)).all()
  if not first:  # of the published code itself
    golden = np.array(json.loads(GOLDEN.read_text())[layout])
    assert checkpoints.error(ours[:, tokens], golden) <= TOLERANCE


def test_an_embedding_of_its_own_or_the_targets(target, layout, tmp_path):
  def swap(found):
    if found.pop("embed_tokens.weight", None) is None:
      found["embed_tokens.weight"] = np.zeros((files.V, files.E), np.float32)

  theirs, shared = target.params["embedding"], []
  for name, change in (("as published", None), ("the other way", swap)):
    files.publish(tmp_path / name, layout, change=change)
    head = load(tmp_path / name, target=target)
    shared.append(head.params["embedding"] is theirs)
  assert shared == [layout == "safeailab", layout == "deepspec"]


def test_what_we_save_is_what_was_published(layout, target, tmp_path):
  files.publish(tmp_path / "theirs", layout, norm_before_residual=True)
  head = load(tmp_path / "theirs", target=target)
  models.save(tmp_path / "ours", head)
  one, two = (
    load_file(tmp_path / name / "model.safetensors")
    for name in ("theirs", "ours")
  )
  assert {*one} - {"t2d"} == {*two}
  for name, tensor in two.items():
    np.testing.assert_array_equal(tensor, one[name])
  again = load(tmp_path / "ours", target=target)
  assert again.config == head.config
  jax.tree.map(np.testing.assert_array_equal, again.params, head.params)


def refuse(target, path, *words):
  with pytest.raises(ValueError, match=r"\S") as error:
    load(path, target=target)
  bad.one_line(error, *words)


def test_few_tokens_that_nobody_names(tmp_path):
  files.publish(
    tmp_path, "safeailab", change=lambda tensors: tensors.pop("d2t")
  )
  words = "missing: d2t, which says which 20 tokens it knows"
  refuse(files.target("safeailab"), tmp_path, words)


@pytest.mark.parametrize(
  ("settings", "words"),
  [
    (
      {"target_layer_ids": [1, 9], "ttt": 3},
      ["unknown attribute ttt=3"],
    ),
    ({"target_layer_ids": [3, 1]}, ["[3, 1]: give 2 or more layers", "-1"]),
    ({"target_layer_ids": [1, 7]}, ["to 6"]),  # the last: published ones not
    (
      {"target_layer_ids": "1", "num_hidden_layers": 2, "hidden_act": "gelu"},
      ["target_layer_ids='1': give a list", "num_hidden_layers=2", "'silu'"],
    ),
    ({"tie_word_embeddings": True}, ["tie_word_embeddings=True: give False"]),
    ({"architectures": ["Qwen3DSparkModel"]}, ["is not an EAGLE-3 head"]),
  ],
  ids=str,
)
def test_a_config_that_is_wrong(target, layout, settings, words, tmp_path):
  files.publish(tmp_path, layout, **settings)
  refuse(target, tmp_path, *words)


def test_flags_that_name_other_tokens(tmp_path):
  def spoil(found):
    found["t2d"] = ~found["t2d"]

  files.publish(tmp_path, "safeailab", change=spoil)
  target = files.target("safeailab")
  refuse(target, tmp_path, "t2d names other tokens than d2t")


def test_a_vocabulary_that_is_the_targets_own(tmp_path):
  """The published code has d2t then, and does not read it."""

  def widen(found):
    found["lm_head.weight"] = np.ones((files.V, files.E), np.float32)
    found |= {"d2t": np.zeros(files.V, np.int64)}

  files.publish(tmp_path, "safeailab", change=widen, draft_vocab_size=files.V)
  head = load(tmp_path, target=files.target("safeailab"))
  assert head.config.draft_vocab_size is None
  assert "place" not in head.params


def test_a_small_target_needs_its_layers_named(tmp_path):
  files.publish(tmp_path, "safeailab")
  refuse(checkpoints.ours(checkpoints.tiny()), tmp_path, "to 0")


def test_a_published_head_drafts(layout, target, tmp_path):
  """From files to tokens, on one device and on two."""
  files.publish(tmp_path / "head", layout)
  models.save(tmp_path / "target", target)
  one, both = (
    tv_jax.load(
      tmp_path / "head", tmp_path / "target", draft_kind="eagle3", mesh=mesh
    )
    for mesh in (None, sharding.mesh(jax.devices()[:2]))
  )

  def drafted(pair, **more):
    run = {"max_new_tokens": 24, "ends": (), "tree": "kary:2x2"}
    return tv_jax.generate(pair, [[5], [1, 2, 3]], **run, **more).tokens

  assert drafted(one) == drafted(both)
  greedy = {"temperature": 0}
  assert drafted(one, **greedy) == drafted(one, verifier=None, **greedy)
