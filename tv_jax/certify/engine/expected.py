"""The distributions that the engine should use, computed without the engine.

`passes` computes each distribution from the whole text, without a tree and
without a cache that is kept between cycles.

Axes: N nodes, M nodes that have children, D levels, T tokens, V vocabulary.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax import probs
from tv_jax.certify.engine import samples, tiny_pairs
from tv_jax.certify.engine.tiny_pairs import LENGTH, PROMPTS, EngineCase
from tv_jax.drafting import drafter_of, passes
from tv_jax.models import decoder, quantised
from tv_jax.proposals import INVALID
from tv_jax.tree import ROOT


def law(case: EngineCase) -> np.ndarray:
  """Returns the probability [prompts, V^LENGTH] of each sequence."""
  target = case.pair.target
  target = dataclasses.replace(
    target, params=quantised.dequantised(target.params)
  )
  law = samples.law(
    target,
    PROMPTS,
    LENGTH,
    temperature=case.config.temperature,
    top_p=case.config.static.top_p,
  )
  return law.reshape(len(PROMPTS), -1)


def drift(case: EngineCase, rows: int = 4, seed: int = 0) -> float:
  """Returns the largest error of a probability in the engine's cycles.

  Runs the engine cycle by cycle. For each node it recomputes the target's and
  the draft's distribution from the text that ends at the node.
  """
  batch, prompts = case.batch(rows, seed), tiny_pairs.prompts(rows)
  batch.insert(prompts, 0)
  texts = [[*prompt.tokens] for prompt in prompts]
  tree, worst = case.config.static.tree, 0.0
  assert tree
  while (active := ~np.asarray(batch.state.done)).any():
    drafted, target_laws = batch.step()
    for row in np.flatnonzero(active):
      tokens = np.asarray(drafted.tokens[row])
      alone = len(prompts[row].tokens) == 1
      p, q = _anew(case, texts[row], tokens, alone=alone)
      seen = (np.arange(len(tree)) == ROOT) | (tokens != INVALID)
      inner = [i for i, v in enumerate(tree.inner) if seen[v]]
      worst = max(
        worst,
        np.abs(np.asarray(target_laws[row]) - p)[seen].max(),
        np.abs(np.asarray(drafted.q[row]) - q)[inner].max(),
      )
      committed = batch.state.committed
      gained = int(committed.gain[row])
      texts[row] += np.asarray(committed.tokens[row, 1 : 1 + gained]).tolist()
  return float(worst)


def _anew(case, text, tokens, *, alone):
  """Recomputes the distributions p [N, V] and q [M, V] of a drafted tree.

  Args:
    case: The pair and its decoding configuration.
    text: The committed tokens, prompt included.
    tokens: [N] the drafted tokens.
    alone: Whether the prompt had a single token. An EAGLE head then reads a
      first pair of that token and a feature of zeros.
  """
  target, draft = (
    dataclasses.replace(model, params=quantised.dequantised(model.params))
    for model in (case.pair.target, case.pair.draft)
  )
  tree, last = case.config.static.tree, len(text) - 1
  depth, inner = tree.depth, tree.inner
  # All texts of a tree have the same length, and share a compiled program.
  longest = max(map(len, PROMPTS)) + LENGTH + tree.max_depth
  texts = np.zeros((len(tokens), longest), np.int32)
  texts[:, : last + 1] = text
  for row, path, levels in zip(texts, tree.paths, depth, strict=True):
    drafted = tokens[path[1 : 1 + levels]]
    row[last + 1 : last + 1 + levels] = np.maximum(drafted, 0)
  p = target.logits(texts)[np.arange(len(texts)), last + depth]
  texts = jnp.asarray(texts[inner])
  layers = draft.config.target_layer_ids
  _, read = passes.target_features(target, layers, texts)
  if alone and case.pair.kind.startswith("eagle"):
    texts = jnp.pad(texts, ((0, 0), (1, 0)))
    read, last = jnp.pad(read, ((0, 0), (1, 0), (0, 0))), last + 1
  roots = jnp.full((len(inner), 1), last, jnp.int32)
  q = _levels(draft.module, tree.max_depth, draft.params, texts, read, roots)
  q = q[depth[inner], np.arange(len(inner))]
  if draft.config.draft_vocab_size:
    q = decoder.scatter_logits(q, draft.params["place"], -jnp.inf)
  temperature, top_p = case.config.temperature, case.config.static.top_p
  return tuple(
    np.asarray(probs.from_logits(x, temperature=temperature, top_p=top_p))
    for x in (p, q)
  )


@functools.partial(jax.jit, static_argnums=(0, 1))
def _levels(module, D: int, params, texts, read, roots) -> jax.Array:
  """Returns the draft's logits [D, M, U] of each level below the root."""
  drafter = drafter_of(module)
  levels = drafter.teacher_forced(params, texts, read, roots, D)
  return jnp.stack([level.logits[:, 0] for level in levels])
