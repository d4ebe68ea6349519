"""DSpark and DFlash against their definition in float64 NumPy."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests import bad, checkpoints
from tv_jax import models
from tv_jax.models import decoder, loading, mask

HEADS = ["vanilla", "gated", "rnn", None]
SLOTS = 24
TOLERANCE = 1e-5

# Of the published ones, by what they are of; E 32, F 56, M 4, 4 heads of 8
# channels on 2 keys, 2 layers of the target, V 48.
LAYER = {
  "input_layernorm.weight": (32,),
  "mlp.down_proj.weight": (32, 56),
  "mlp.gate_proj.weight": (56, 32),
  "mlp.up_proj.weight": (56, 32),
  "post_attention_layernorm.weight": (32,),
  "self_attn.k_norm.weight": (8,),
  "self_attn.k_proj.weight": (16, 32),
  "self_attn.o_proj.weight": (32, 32),
  "self_attn.q_norm.weight": (8,),
  "self_attn.q_proj.weight": (32, 32),
  "self_attn.v_proj.weight": (16, 32),
}
DRAFT = {
  "embed_tokens.weight": (48, 32),
  "fc.weight": (32, 64),
  "hidden_norm.weight": (32,),
  "lm_head.weight": (48, 32),
  "norm.weight": (32,),
} | {f"layers.{i}.{name}": LAYER[name] for i in range(2) for name in LAYER}
CONFIDENCE = {
  "confidence_head.proj.bias": (1,),
  "confidence_head.proj.weight": (1, 36),
}
MARKOV = {
  "markov_head.markov_w1.weight": (48, 4),
  "markov_head.markov_w2.weight": (48, 4),
}
OWN = {
  None: {},
  "vanilla": MARKOV | CONFIDENCE,
  "gated": MARKOV
  | CONFIDENCE
  | {
    "markov_head.gate_proj.bias": (4,),
    "markov_head.gate_proj.weight": (4, 36),
  },
  "rnn": MARKOV
  | CONFIDENCE
  | {
    "markov_head.joint_proj.bias": (12,),
    "markov_head.joint_proj.weight": (12, 40),
  },
}


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


class Definition:
  """A draft in float64, from its tensors by their published names."""

  def __init__(self, tensors, config):
    self.w = {k: v.astype(np.float64) for k, v in tensors.items()}
    self.config = config

  def norm(self, x, name):
    mean = np.mean(x**2, -1, keepdims=True)
    return x / np.sqrt(mean + self.config.rms_norm_eps) * self.w[name]

  def affine(self, x, name):
    bias = self.w.get(f"{name}.bias", 0)
    return x @ self.w[f"{name}.weight"].T + bias

  def heads(self, x, name, norm, positions):
    """Projections [heads, T, C]: normed and turned, if `norm` is named."""
    C = self.config.head_dim
    y = self.affine(x, name).reshape(len(x), -1, C).transpose(1, 0, 2)
    if norm is None:
      return y
    y = self.norm(y, norm)
    frequency = self.config.rope_theta ** (-np.arange(0, C, 2) / C)
    turn = np.exp(1j * positions[:, None] * frequency)
    z = (y[..., : C // 2] + 1j * y[..., C // 2 :]) * turn
    return np.concatenate([z.real, z.imag], -1)

  def block(self, features, root):
    """Logits [K, V] and outputs [K, E] of the pass over a root's block.

    Args:
      features: [T, X] of all tokens before the root.
      root: The token.
    """
    own, C = self.config.block, self.config.head_dim
    beside = self.norm(self.affine(features, "fc"), "hidden_norm.weight")
    tokens = [root] + [own.mask] * (own.size - 1)
    x = self.w["embed_tokens.weight"][tokens]
    places = np.arange(len(features) + own.size)
    for i in range(self.config.num_hidden_layers):
      at, layer = f"layers.{i}.self_attn.", f"layers.{i}."
      y = self.norm(x, f"{layer}input_layernorm.weight")
      both = np.concatenate([beside, y])
      here = places[len(features) :]
      q = self.heads(y, f"{at}q_proj", f"{at}q_norm.weight", here)
      k = self.heads(both, f"{at}k_proj", f"{at}k_norm.weight", places)
      v = self.heads(both, f"{at}v_proj", None, places)
      out = []
      for h in range(len(q)):
        g = h * len(k) // len(q)
        scores = q[h] @ k[g].T / np.sqrt(C)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        out.append(weights / weights.sum(-1, keepdims=True) @ v[g])
      out = np.stack(out, 1).reshape(own.size, -1)
      x = x + self.affine(out, f"{at}o_proj")
      y = self.norm(x, f"{layer}post_attention_layernorm.weight")
      gate = self.affine(y, f"{layer}mlp.gate_proj")
      up = self.affine(y, f"{layer}mlp.up_proj")
      y = gate / (1 + np.exp(-gate)) * up
      x = x + self.affine(y, f"{layer}mlp.down_proj")
    outputs = self.norm(x, "norm.weight")
    return self.affine(outputs, "lm_head"), outputs

  def after(self, path, outputs):
    """What a path [root, ..] adds to its last token's logits; confidence."""
    own, bias = self.config.block, 0
    state, known = np.zeros(own.rank), None

    def sigmoid(x):
      return 1 / (1 + np.exp(-x))

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


def test_tensors_are_those_of_the_layout(setting):
  draft, tensors, _, _ = setting
  shapes = {name: tensor.shape for name, tensor in tensors.items()}
  assert shapes == DRAFT | OWN[draft.config.block.head]


def test_two_passes_and_paths_below(setting):
  draft, tensors, _, _ = setting
  config = draft.config
  K, X = config.block.size, 2 * config.hidden_size
  theirs = Definition(tensors, config)
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
    ({"mask_token_id": 48}, "mask_token_id=48 is not in the vocabulary of 48"),
    ({"target_layer_ids": [0, -1]}, "in order, of -1 (the embedding) to 0"),
    (
      {"target_layer_ids": [0, 1]},
      "target_layer_ids=[0, 1]: give 1 or more layers of",
    ),
    ({"markov_head_type": None}, "markov_head_type is missing"),
    ({"markov_rank": 0}, "needs a markov_rank"),
    ({"architectures": ["Qwen3Eagle3Model"]}, "is not a DSpark draft"),
    ({"block_size": None}, "block_size is missing"),
    ({"model_type": "llama"}, "model_type='llama' is not 'qwen3'"),
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


def test_the_last_row_of_a_copy_matters(tmp_path):
  made = checkpoints.ours(checkpoints.tiny(vocab_size=40_000))
  models.save(tmp_path / "target", made)
  target = models.load(tmp_path / "target")
  tensors = published(tmp_path / "draft", made, "vanilla")
  models.load_dspark(tmp_path / "draft", target)
  tensors["lm_head.weight"] = tensors["lm_head.weight"].copy()
  tensors["lm_head.weight"][-1, -1] += 1e-6
  save_file(tensors, tmp_path / "draft" / "model.safetensors")
  refuse(tmp_path / "draft", target, "lm_head.weight is not that of")


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
  models.save(tmp_path / "model", target)
  monkeypatch.setattr(loading, "machine_memory", lambda: 2 * held)
  models.load(tmp_path / "model", target=target)
  monkeypatch.setattr(loading, "machine_memory", lambda: 2 * held - 1)
  with pytest.raises(ValueError, match="and its target take"):
    models.load(tmp_path / "model", target=target)


def test_a_copy_in_the_other_half_precision_is_the_targets(tmp_path):
  """Each is the float32 weights, rounded: none has all that the other has."""
  made = checkpoints.ours(checkpoints.tiny())
  small = jax.tree.map(lambda x: x * 1e-4, made.params)
  models.save(tmp_path / "target", dataclasses.replace(made, params=small))
  target = models.load(tmp_path / "target", dtype="float16")
  tensors = published(tmp_path / "draft", made, "vanilla")
  for name in ("embed_tokens.weight", "lm_head.weight"):
    tensors[name] = (tensors[name] * 1e-4).astype("bfloat16")
  copied = {
    "embedding": tensors["embed_tokens.weight"],
    "unembedding": tensors["lm_head.weight"],
  }
  theirs = target.params | {
    x: jnp.asarray(y.T).astype("float16") for x, y in copied.items()
  }
  target = dataclasses.replace(target, params=theirs)
  save_file(tensors, tmp_path / "draft" / "model.safetensors")
  models.load_dspark(tmp_path / "draft", target)


def test_a_target_of_few_bits_is_still_its_own(tmp_path):
  target = checkpoints.ours(checkpoints.tiny())
  published(tmp_path, target, "vanilla")
  theirs = dict(target.params)
  noise = np.random.default_rng(0).normal(1, 0.1, theirs["embedding"].shape)
  theirs["embedding"] = theirs["embedding"] * noise.astype(np.float32)
  rounded = dataclasses.replace(target, params=theirs)
  refuse(tmp_path, rounded, "it was made for another target")
  source = "target.Q4_0.gguf"
  models.load_dspark(tmp_path, dataclasses.replace(rounded, source=source))


def test_in_each_others_place(tmp_path):
  target = checkpoints.ours(checkpoints.tiny())
  models.save(tmp_path / "draft", checkpoints.ours_dspark(target))
  models.save(tmp_path / "target", target)
  with pytest.raises(ValueError, match='with draft_kind="dspark"'):
    models.load(tmp_path / "draft")
  refuse(tmp_path / "target", target, "is no DSpark or DFlash draft's")
