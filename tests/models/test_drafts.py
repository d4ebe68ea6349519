"""Drafts on features: published outputs, loading, saving, and refusals.

test_dspark.py tests the outputs of single-pass drafts.
"""

import dataclasses
import functools
import json
import pathlib
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import tv_jax
from tests.lib import bad, checkpoints
from tests.lib import eagle3_files as files
from tv_jax import drafting, models
from tv_jax.io import machine
from tv_jax.models import config as configs
from tv_jax.models import decoder, sharding

GOLDEN = pathlib.Path(__file__).with_name("eagle3_golden.json")
TOLERANCE = 1e-5
COPIES = ["embed_tokens.weight", "lm_head.weight"]


def publish(directory, case):
  """Writes a random draft in a published layout.

  Args:
    directory: The folder to write.
    case: A layout of EAGLE-3 heads, "eagle", "dspark" or "dflash"; and "tied"
      if the target's embedding is tied. An EAGLE-1 head for a tied target has
      no bias.

  Returns:
    Its target and its tensors.
  """
  if case in files.CONFIGS:
    target = files.target(case)
    # The embedding that published code was given.
    embedding = jnp.asarray(files.given(case)[0])
    params = target.params | {"embedding": embedding}
    target = dataclasses.replace(target, params=params)
    return target, files.publish(directory, case)
  name, *tied = case.split()
  target = checkpoints.ours(checkpoints.tiny(tie_word_embeddings=bool(tied)))
  if name == "eagle":
    copied = COPIES[:1]
    models.save(directory, checkpoints.ours_head(target))
    absent = "head_dim tie_word_embeddings rope_scaling torch_dtype mlp_bias"
    changes = dict.fromkeys(absent.split())
    bias = False if tied else None  # then it has one
    checkpoints.rewrite(directory, **changes, bias=bias)
  else:
    copied = COPIES
    draft = checkpoints.ours_dspark(target, rank=0 if name == "dflash" else 4)
    models.save(directory, draft)
  tensors = load_file(directory / "model.safetensors")
  if name == "eagle" and tied:
    del tensors["fc.bias"]
  for copy in copied:  # is not read: the target has the same
    tensors[copy] = np.zeros(1, np.float32)
  save_file(tensors, directory / "model.safetensors")
  return target, tensors


def close(ours, theirs):
  assert checkpoints.error(np.asarray(ours), theirs) <= TOLERANCE


# What they compute.


def runner(head):
  """Appends (token, feature) pairs to a cache: logits, features, cache."""
  apply = jax.jit(functools.partial(models.causal_pass, head.module))

  def run(tokens, features, cache):
    rows = jnp.asarray(tokens, jnp.int32)[None], jnp.asarray(features)[None]
    logits, features, cache = apply(head.params, rows, cache)
    return logits[0], features[0], cache

  return run


def layer_of_llama(config, w, x):
  """The output [T, E] of a decoder layer without its first norm."""
  T, C, at = len(x), config.head_dim, "layers.0."

  def heads(name):
    y = x @ w[f"{at}self_attn.{name}_proj.weight"].T
    return y.reshape(T, -1, C).swapaxes(0, 1)

  def turned(y):
    pairs = y[..., : C // 2] + 1j * y[..., C // 2 :]
    speed = config.rope_theta ** (-np.arange(0, C, 2) / C)
    pairs = pairs * np.exp(1j * np.arange(T)[:, None] * speed)
    return np.concatenate([pairs.real, pairs.imag], -1)

  q, k, v = turned(heads("q")), turned(heads("k")), heads("v")
  k, v = (np.repeat(y, len(q) // len(y), axis=0) for y in (k, v))
  scores = q @ k.swapaxes(1, 2) / np.sqrt(C)
  scores = np.where(np.tri(T, dtype=bool), scores, -np.inf)
  share = np.exp(scores - scores.max(-1, keepdims=True))
  out = share / share.sum(-1, keepdims=True) @ v
  out = out.swapaxes(0, 1).reshape(T, -1)
  x = x + out @ w[f"{at}self_attn.o_proj.weight"].T
  mean = np.mean(x**2, -1, keepdims=True)
  y = x / np.sqrt(mean + config.rms_norm_eps)
  y = y * w[f"{at}post_attention_layernorm.weight"]
  gate, up = (y @ w[f"{at}mlp.{z}_proj.weight"].T for z in ("gate", "up"))
  gated = gate / (1 + np.exp(-gate)) * up
  return x + gated @ w[f"{at}mlp.down_proj.weight"].T


@pytest.mark.parametrize("case", ["eagle", "eagle tied"])
def test_an_eagle_head_is_its_definition(case, tmp_path):
  """A text, levels drafted behind it, and then the target's true features."""
  target, tensors = publish(tmp_path, case)
  head = drafting.load(tmp_path, target)
  config, theirs = head.config, target.params
  w = {name: np.asarray(x, np.float64) for name, x in tensors.items()}
  embedding = np.asarray(theirs["embedding"], np.float64)
  unembedding = np.asarray(theirs.get("unembedding", embedding), np.float64)

  def defined(features):
    """Logits and features of pairs with these, in float64."""
    known = embedding[tokens[: len(features)]]
    x = np.concatenate([known, features], -1) @ w["fc.weight"].T
    x = layer_of_llama(config, w, x + w.get("fc.bias", 0))
    return x @ unembedding.T, x

  rng, T = np.random.default_rng(7), 4
  tokens = rng.integers(0, config.vocab_size, 2 * T)
  true = rng.normal(size=(2 * T, config.hidden_size)).astype(np.float32)
  run = runner(head)
  logits, features, cache = run(tokens[:T], true[:T], head.init_cache(1, 16))
  text = np.asarray(cache.length)
  close(logits, defined(true[:T])[0])
  close(features, defined(true[:T])[1])
  read = true[:T].astype(np.float64)
  for place in range(T, 2 * T):  # drafting uses the head's features
    read = np.concatenate([read, features[-1:]])
    logits, features, cache = run(tokens[[place]], features[-1:], cache)
    close(logits[0], defined(read)[0][-1])
  # What was drafted is forgotten: its rows are written again.
  cache = dataclasses.replace(cache, length=jnp.asarray(text))
  close(run(tokens[T:], true[T:], cache)[0], defined(true)[0][T:])


@pytest.mark.parametrize("layout", files.CONFIGS)
def test_an_eagle3_head_gives_what_the_published_code_gave(layout, tmp_path):
  target, tensors = publish(tmp_path, layout)
  head = drafting.load(tmp_path, target)
  assert head.config.target_layer_ids == files.LAYERS[layout]
  _, tokens, features = files.given(layout)
  run, T, cache = runner(head), files.PAIRS, head.init_cache(1, 16)
  for piece in np.split(np.arange(T), 3):  # a text that is gone on with
    logits, outputs, cache = run(tokens[piece], features[piece], cache)
  ours = [logits[-1]]
  for place in range(T, len(tokens)):
    logits, outputs, cache = run(tokens[[place]], outputs[-1:], cache)
    ours.append(logits[-1])
  few, ours = tensors.get("d2t"), np.stack(ours)
  known = np.arange(files.V) if few is None else few + np.arange(len(few))
  close(ours[:, known], np.array(json.loads(GOLDEN.read_text())[layout]))
  assert np.isneginf(np.delete(ours, known, axis=1)).all()


# How they are read and written.


@pytest.mark.parametrize(
  ("case", "left"),
  [
    ("eagle", {"embed_tokens.weight"}),
    ("eagle tied", {"embed_tokens.weight"}),
    ("deepspec", set()),
    ("safeailab", {"t2d"}),
    ("dspark tied", {*COPIES}),
    ("dflash", {*COPIES}),
  ],
)
def test_what_we_save_is_what_was_published(case, left, tmp_path):
  target, tensors = publish(tmp_path / "theirs", case)
  draft = drafting.load(tmp_path / "theirs", target)
  models.save(tmp_path / "ours", draft)
  written = load_file(tmp_path / "ours" / "model.safetensors")
  assert {*tensors} - {*written} == left
  for name, tensor in written.items():
    np.testing.assert_array_equal(tensor, tensors[name])
  again = drafting.load(tmp_path / "ours", target)
  assert again.module == draft.module
  jax.tree.map(np.testing.assert_array_equal, again.params, draft.params)


@pytest.mark.parametrize("layout", files.CONFIGS)
def test_an_embedding_of_its_own_or_the_targets(layout, tmp_path):
  def swap(tensors):
    if tensors.pop("embed_tokens.weight", None) is None:
      tensors["embed_tokens.weight"] = np.zeros((files.V, files.E), np.float32)

  target, _ = publish(tmp_path, layout)
  shared = []
  for change in (None, swap):
    files.publish(tmp_path, layout, change=change)
    head = drafting.load(tmp_path, target)
    shared.append(head.params["embedding"] is target.params["embedding"])
  assert shared == [layout == "safeailab", layout == "deepspec"]


def test_a_vocabulary_that_is_the_targets_own(tmp_path):
  """The published code stores d2t in this case, and does not read it."""

  def widen(tensors):
    tensors["lm_head.weight"] = np.ones((files.V, files.E), np.float32)
    tensors["d2t"] = np.zeros(files.V, np.int64)

  files.publish(tmp_path, "safeailab", change=widen, draft_vocab_size=files.V)
  target = files.target("safeailab")
  head = drafting.load(tmp_path, target)
  assert head.config.draft_vocab_size is None
  assert "place" not in head.params


# What is refused.


def refuse(directory, target, *words):
  with bad.refused(*words):
    drafting.load(directory, target)


QWEN3 = configs.to_dict(checkpoints.tiny(model_type="qwen3"))


@pytest.mark.parametrize(
  ("case", "changes", "words"),
  [
    ("eagle", {"hidden_size": 64}, ["hidden_size=64 is not the target's"]),
    (
      "eagle",
      QWEN3 | {"num_hidden_layers": 1, "mlp_bias": None},
      ["config.json: an EAGLE-1 head of model_type='qwen3' is not"],
    ),
    ("safeailab", {"target_layer_ids": [1, 5], "ttt": 3}, ["attribute ttt=3"]),
    ("safeailab", {"target_layer_ids": [1, 7]}, ["to 6"]),  # the last
    ("safeailab", {"architectures": ["Qwen3DSparkModel"]}, ["or Eagle3Llama"]),
    (
      "dspark",
      {"markov_head_type": "rnn"},
      ["_type='rnn' is not supported, only"],
    ),
    ("dspark", {"mask_token_id": None}, ["mask_token_id is missing"]),
    (
      "dflash",
      {"model_type": "llama", "use_sliding_window": None},
      ["of model_type='llama' is not supported, only 'qwen3'"],
    ),
  ],
  ids=str,
)
def test_a_config_that_is_wrong(case, changes, words, tmp_path):
  target, _ = publish(tmp_path, case)
  checkpoints.rewrite(tmp_path, **changes)
  refuse(tmp_path, target, *words)


@pytest.mark.parametrize(
  ("case", "changes", "words"),
  [
    ("eagle", {"vocab_size": 50}, "of 48 is not the target's of 50"),
    # It names no layers of its target.
    ("safeailab", {"num_hidden_layers": 2}, "from -1 (the embedding) to 0"),
  ],
  ids=str,
)
def test_another_target(case, changes, words, tmp_path):
  target, _ = publish(tmp_path, case)
  other = dataclasses.replace(target.config, **changes)
  refuse(tmp_path, checkpoints.ours(other, seed=5), words)


def test_few_tokens_that_are_not_named(tmp_path):
  files.publish(tmp_path, "safeailab", change=lambda x: x.pop("d2t"))
  refuse(tmp_path, files.target("safeailab"), "missing: d2t")
  twice = {"d2t": np.arange(20)[::-1] - np.arange(20) // 2}
  files.publish(tmp_path, "safeailab", change=lambda x: x.update(twice))
  words = "does not name 20 different tokens"
  refuse(tmp_path, files.target("safeailab"), words)


def test_a_draft_that_does_not_fit_beside_its_target(tmp_path, monkeypatch):
  target, _ = publish(tmp_path, "dspark")
  draft = drafting.load(tmp_path, target)
  leaves = [y for x, y in draft.params.items() if x not in decoder.OF_TARGET]
  needed = sum(x.nbytes for x in jax.tree.leaves((leaves, target.params)))
  monkeypatch.setattr(machine, "memory", lambda: needed)
  drafting.load(tmp_path, target)
  monkeypatch.setattr(machine, "memory", lambda: needed - 1)
  refuse(tmp_path, target, "and its target take", "choose dtype=")


# Kinds of drafts.


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
  """A target, and drafts of all kinds, on disk."""
  folder = tmp_path_factory.mktemp("pair")
  target = checkpoints.ours(checkpoints.tiny(tie_word_embeddings=True))
  models.save(folder / "target", target)
  draft = checkpoints.ours(checkpoints.tiny(num_hidden_layers=1), seed=1)
  models.save(folder / "independent", draft)
  models.save(folder / "eagle", checkpoints.ours_head(target))
  models.save(folder / "eagle3", checkpoints.ours_eagle3(target))
  models.save(folder / "dspark", checkpoints.ours_dspark(target))
  return folder


@pytest.mark.parametrize(
  ("kind", "split"),
  [("independent", True), *((kind, False) for kind in drafting.KINDS)],
)
def test_what_is_split(saved, kind, split):
  mesh = sharding.mesh(jax.devices()[:2])
  pair = tv_jax.load(
    saved / "target",
    saved / kind,
    mesh=mesh,
    shard_draft=split,
  )
  assert (pair.draft.mesh is mesh) is (split or kind != "independent")
  for leaf in jax.tree.leaves(pair.draft.params):
    assert leaf.sharding.device_set == {*mesh.devices.flat}


@pytest.mark.parametrize("kind", drafting.KINDS)
def test_a_draft_says_what_it_is(saved, kind):
  pair = tv_jax.load(saved / "target", saved / kind)
  assert pair.kind == kind
  assert f"({kind})" in str(pair)


def test_without_a_draft_decoding_is_plain(saved):
  pair = tv_jax.load(saved / "target")
  assert pair.draft is None
  with pytest.raises(ValueError, match="verifier='plain'"):
    tv_jax.generate(pair, [[5]], tree="chain:2")


@pytest.mark.parametrize(
  ("kind", "words"),
  [
    ("independent", "is larger than its target"),
    ("eagle", "is an EAGLE-1 head, and no target"),
    ("eagle3", "is an EAGLE-3 head, and no target"),
    ("dspark", "is a DSpark draft, and no target"),
  ],
)
def test_the_old_order_is_refused(saved, kind, words):
  with bad.refused(words, "the target comes first, load(target, draft)"):
    tv_jax.load(saved / kind, saved / "target")
  with bad.refused("draft_kind='eagle' is gone", "load(target, draft)"):
    tv_jax.load(saved / kind, saved / "target", draft_kind="eagle")


@pytest.mark.parametrize(
  ("names", "fragments"),
  [
    (["lm_head.weight"], ["neither a language model nor a", "but lm_head"]),
    (
      ["model.layers.0.mlp.up_proj.weight", "fc.weight"],
      ["several kinds", "(a language model)", r"fc\.weight (an EAGLE-1 head)"],
    ),
    (
      ["fc.weight", "hidden_norm.weight", "midlayer.hidden_norm.weight"],
      ["several kinds", "(an EAGLE-3 head)", "(a DSpark draft)"],
    ),
  ],
)
def test_a_checkpoint_of_no_kind_or_two_is_refused(
  saved, tmp_path, names, fragments
):
  shutil.copy(saved / "target" / "config.json", tmp_path)
  tensors = {name: np.ones(2, np.float32) for name in names}
  save_file(tensors, tmp_path / "model.safetensors")
  with bad.refused(str(tmp_path), *fragments):
    tv_jax.load(saved / "target", tmp_path)


def test_a_home_is_found(saved, monkeypatch):
  monkeypatch.setenv("HOME", str(saved))
  loaded = tv_jax.load("~/target", "~/independent")
  assert loaded.checkpoint.path == saved / "target"
