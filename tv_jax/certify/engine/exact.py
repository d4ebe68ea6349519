"""What tokens should come, and with which laws: without any engine.

Everything here is computed from the whole text each time, in causal passes
over nothing but a text: no cache that is kept, no tree, no catching up.

Axes: B batch, N nodes, M nodes that have children, T tokens, V vocabulary,
J what a head reads of a token.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax import probs
from tv_jax.certify.engine import cases
from tv_jax.certify.engine.cases import LENGTH, PROMPTS, Case
from tv_jax.certify.samples import law as samples
from tv_jax.models import cache as caches
from tv_jax.models import dspark, mask
from tv_jax.tree import Tree


def law(case: Case) -> np.ndarray:
  """Returns [prompts, V^LENGTH] the law of the first tokens after each."""
  target, _ = cases.models(case.draft_kind)
  sampling = {"temperature": case.temperature, "top_p": case.top_p}
  return samples.law(target, PROMPTS, LENGTH, **sampling)


def drift(case: Case, rows: int = 4, seed: int = 0) -> float:
  """Finds the largest difference of any cycle's law from what it should be.

  Runs the engine cycle by cycle, and computes the laws of each node, the
  target's and the draft's, anew from the text down to it.
  """
  batch, prompts = case.batch(rows, seed), cases.prompts(rows)
  batch.insert(prompts, 0)
  texts = [[*prompt.tokens] for prompt in prompts]
  worst = 0.0
  while (active := ~np.asarray(batch.state.done)).any():
    drafted, laws = batch.step()
    for row in np.flatnonzero(active):
      tokens = np.asarray(drafted.tokens[row])
      if isinstance(case.tree, Tree):
        paths = case.tree.paths
      else:
        assert drafted.topology
        paths = drafted.topology.paths[row]
      alone = len(prompts[row].tokens) == 1
      p, q = _anew(case, texts[row], tokens, np.asarray(paths), alone=alone)
      seen = _drawn(case.tree, tokens)
      inner = [i for i, v in enumerate(case.tree.inner) if seen[v]]
      worst = max(
        worst,
        np.abs(np.asarray(laws[row]) - p)[seen].max(),
        np.abs(np.asarray(drafted.laws[row]) - q)[inner].max(),
      )
      committed = batch.state.committed
      gained = int(committed.gain[row])
      texts[row] += np.asarray(committed.tokens[row, 1 : 1 + gained]).tolist()
  return float(worst)


def _drawn(tree, tokens):
  """[N] bool: which nodes have a token."""
  return (np.arange(len(tree)) == 0) | (tokens >= 0)


def _anew(case, text, tokens, paths, *, alone):
  """Returns the laws p [N, V] and q [M, V] that this tree's nodes should have.

  Args:
    case: How it was drafted.
    text: What was committed, the prompt included.
    tokens: [N] what was drafted.
    paths: [N, D + 1] the nodes down to each; of no account where nothing is.
    alone: Whether the prompt had a single token. An EAGLE head then gets it as
      a first pair, with zeros for the feature of the token before.
  """
  tree = case.tree
  target, draft = cases.models(case.draft_kind)
  paths = [
    [int(tokens[v]) for v in path[1 : 1 + depth]]
    for path, depth in zip(paths, tree.depth, strict=True)
  ]
  p = [_after(target, text + path)[0] for path in paths]
  if case.draft_kind == "independent":
    q = [_after(draft, text + paths[v])[0] for v in tree.inner]
  elif case.draft_kind == "dspark":
    q = [_in_one_pass(target, draft, text, paths[v]) for v in tree.inner]
  else:
    q = [_head(target, draft, text, paths[v], alone) for v in tree.inner]
  sampling = {"temperature": case.temperature, "top_p": case.top_p}
  return (
    np.asarray(probs.law(jnp.stack(p), **sampling)),
    np.asarray(probs.law(jnp.stack(q), **sampling)),
  )


# Texts are padded to this, at their ends, so that one program does them all.
_WIDTH = 20


def _after(model, text, layers=()):
  """Logits [V] after a text, and the features [T, J] of its tokens."""
  tokens = np.zeros((1, _WIDTH), np.int32)
  tokens[0, : len(text)] = np.maximum(text, 0)
  module = model.module.clone(outputs=layers)
  logits, features = _text_pass(module, model.params, tokens)
  return logits[0, len(text) - 1], features[0, : len(text)]


def _head(target, head, text, path, alone):
  """Logits [V] of an EAGLE head after a text and a drafted path."""
  _, features = _after(target, text, head.config.target_layers)
  features = features[:-1]
  if head.config.target_layers:  # as wide as the head's own
    features = features @ head.params["fc"]["kernel"]
  if alone:
    features = jnp.pad(features, ((1, 0), (0, 0)))
  pairs = list(text if alone else text[1:])
  for token in [*path, None]:
    count = len(pairs)
    tokens = np.zeros((1, _WIDTH), np.int32)
    tokens[0, :count] = np.maximum(pairs, 0)
    padded = jnp.pad(features, ((0, _WIDTH - count), (0, 0)))[None]
    logits, own = _text_pass(head.module, head.params, tokens, padded)
    pairs.append(token)
    features = jnp.concatenate([features, own[0, count - 1 : count]])
  return logits[0, count - 1]


def _in_one_pass(target, draft, text, path):
  """Logits [V] of a draft of one pass after a text and a drafted path."""
  own, known = dspark.block_of(draft.config), len(text) - 1
  tokens = np.zeros((1, _WIDTH), np.int32)
  tokens[0, :known] = text[:-1]
  module = target.module.clone(outputs=draft.config.target_layers)
  _, features = _text_pass(module, target.params, tokens)
  block = np.full((1, own.size), own.mask, np.int32)
  block[0, 0] = text[-1]
  logits, outputs = _block_pass(
    draft.module, draft.params, block, features, np.array([known], np.int32)
  )
  state = jnp.zeros((1, 1, own.rank if own.head == "rnn" else 0))
  for depth, token in enumerate([text[-1], *path]):
    said, state, _ = draft.module.apply(
      {"params": draft.params},
      np.array([[token]], np.int32),
      outputs[:, depth : depth + 1],
      state,
      method="after",
    )
  return logits[0, len(path)] + said[0, 0]


@functools.partial(jax.jit, static_argnums=0)
def _block_pass(module, params, block, features, known):
  """Logits and outputs of a block after the first `known` [1] features."""
  K, slots = block.shape[1], _WIDTH + block.shape[1]
  places = jnp.arange(_WIDTH, dtype=jnp.int32)[None]
  logits, outputs, _ = module.apply(
    {"params": params},
    block,
    features,
    jnp.concatenate([places, known[:, None] + places[:, :K]], axis=1),
    mask.block(known, jnp.full_like(known, _WIDTH), K, slots),
    caches.empty(module.config, 1, slots),
  )
  return logits, outputs


@functools.partial(jax.jit, static_argnums=0)
def _text_pass(module, params, *inputs):
  """Logits and features of a causal pass over texts from their beginning."""
  B, T = inputs[0].shape
  cache = caches.empty(module.config, B, T)
  positions = jnp.broadcast_to(jnp.arange(T, dtype=jnp.int32)[None], (B, T))
  seen = mask.causal(cache.length, T, T)
  logits, features, _ = module.apply(
    {"params": params}, *inputs, positions, seen, cache
  )
  return logits, features
