"""Tests whether samples of any engine have the target's distribution.

The target has a small vocabulary, so the exact probability of every sequence of
K tokens after each of P prompts is known. Two statistics compare samples with
it. Both hold at any number of samples, so a user may look after each sample.

- `wealth` rejects. It is the value of a bet against the exact distribution.
  The expected value is 1, so the probability that it ever reaches 1 / alpha is
  at most alpha (Ville 1939; Waudby-Smith and Ramdas 2024). The bet is a mixture
  of likelihood ratios, as in Krichevsky and Trofimov (1981), but its Dirichlet
  priors are centred at the exact distribution. A prior over all distributions
  would lose log(samples) / 2 for each of the V^K sequences.
- `upper_bound` bounds the total variation, averaged over the samples' prompts.

Axes: P prompts, V vocabulary, K tokens of a sequence, S samples.
"""

from __future__ import annotations

import collections
import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from tv_jax import probs
from tv_jax.io import checks, reading
from tv_jax.io.errors import UserError
from tv_jax.models import Model

# Maximum number of sequences after all prompts together; and after a single
# prompt if K is the default.
MOST, USUAL = 1 << 17, 256
# Total variations of the engines that the mixture bets on.
DISTANCES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4)
# Number of samples at the first bound, and its growth from bound to bound.
FIRST, GROWTH = 100, 1.25
_ROWS = 4096  # batch size of the target's forward pass


class Worst(NamedTuple):
  """The prefix whose count deviates most from its expectation."""

  prompt: int
  tokens: tuple[int, ...]
  seen: int
  of: int  # samples after this prompt
  chance: float


def usual_tokens(V: int) -> int:
  """Returns the default K for a vocabulary of V tokens."""
  return max(1, int(math.log(USUAL, V) + 1e-9))


def law(
  model: Model,
  prompts: Sequence[Sequence[int]],
  tokens: int,
  *,
  temperature: float = 1.0,
  top_p: float = 1.0,
) -> np.ndarray:
  """Returns the probability [P, V, .., V] of each sequence of `tokens`."""
  V = model.config.vocab_size
  if len(prompts) * V**tokens > MOST:
    raise UserError(
      f"--tokens={tokens}: {len(prompts)} x {V}^{tokens} sequences are too many"
      f" to enumerate: give {usual_tokens(V)}"
    )
  texts = [*itertools.product(range(V), repeat=tokens - 1)]
  texts = np.array(texts, np.int32).reshape(len(texts), tokens - 1)
  parts = [texts[i : i + _ROWS] for i in range(0, len(texts), _ROWS)]
  rows = []
  for prompt, part in itertools.product(prompts, parts):
    before = np.tile(np.array(prompt, np.int32), (len(part), 1))
    logits = model.logits(np.concatenate([before, part], axis=1))
    logits = logits[:, len(prompt) - 1 :]
    laws = probs.from_logits(logits, temperature=temperature, top_p=top_p)
    laws = np.asarray(laws, np.float64)
    laws /= laws.sum(axis=-1, keepdims=True)
    chances = np.take_along_axis(laws[:, :-1], part[..., None], axis=-1)
    rows.append(chances.prod(axis=(1, 2))[:, None] * laws[:, -1])
  return np.concatenate(rows).reshape(len(prompts), *[V] * tokens)


def read(
  path, prompts: Sequence[Sequence[int]], V: int, tokens: int
) -> tuple[np.ndarray, np.ndarray]:
  """Reads a file of samples, one JSON object in each line.

  A line is {"prompt": 0, "tokens": [3, 1, ..]}.

  Returns:
    The number of each sample's prompt [S], and of its sequence [S].

  Raises:
    ValueError: A line is wrong. It is not skipped, because the remaining
      samples would have another distribution.
  """
  check = checks.fields(
    {
      "prompt": checks.integer(0, len(prompts) - 1),
      "tokens": checks.list_of(checks.integer(0, V - 1)),
    }
  )
  which, codes, echoes = [], [], 0
  for _, where, raw in reading.json_lines(path):
    sample = check(raw, where)
    new, prompt = [*sample["tokens"]], prompts[sample["prompt"]]
    if len(new) < tokens:
      raise UserError(
        f"{where} has {len(new)} tokens, not {tokens}: let the engine ignore"
        " end tokens and give more new tokens, or look at fewer by --tokens"
      )
    which.append(sample["prompt"])
    codes.append(np.ravel_multi_index(new[:tokens], (V,) * tokens))
    echoes += new[: len(prompt)] == prompt
  if not which:
    raise UserError(f"{path} holds no samples")
  if echoes == len(which) >= 20:
    raise UserError(
      f"{path}: all samples begin with their prompt: give new tokens alone"
    )
  return np.array(which), np.array(codes)


def count(law: np.ndarray, which, codes) -> np.ndarray:
  """Returns the count of each sequence, in the shape of `law`."""
  cells = which * law[0].size + codes
  return np.bincount(cells, minlength=law.size).reshape(law.shape)


def _prefixes(values: np.ndarray, k: int) -> np.ndarray:
  """Returns [P, V^k]: the sums over all but the first k tokens."""
  P, V = values.shape[:2]
  return values.reshape(P, V**k, -1).sum(axis=-1)


def wealth(law: np.ndarray, which, codes) -> np.ndarray:
  """Returns the log of the value of a bet of 1, after each sample [S].

  A Dirichlet prior of weight c around p has a mean total variation from p of
  about sum sqrt(p / (2 pi c)).
  """
  V, K = law.shape[1], law.ndim - 1
  before, bets = _earlier(which), []
  for k in range(1, K + 1):
    p, prefix = _prefixes(law, k), codes // V ** (K - k)
    chance, same = p[which, prefix], _earlier(which * V**k + prefix)
    for distance in DISTANCES:
      weight = (np.sqrt(p).sum(axis=1) / distance) ** 2 / (2 * np.pi)
      prior = weight[which]
      with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.log((prior * chance + same) / (prior + before) / chance)
      bets.append(np.cumsum(np.where(chance > 0, gain, np.inf)))
  return special.logsumexp(bets, axis=0) - math.log(len(bets))


def _earlier(labels: np.ndarray) -> np.ndarray:
  """Returns the number of earlier equal labels, for each label."""
  seen, earlier = collections.Counter(), []
  for label in labels.tolist():
    earlier.append(seen[label])
    seen[label] += 1
  return np.array(earlier)


def upper_bound(
  law: np.ndarray, which, codes, confidence: float
) -> tuple[int, float]:
  """Bounds the total variation; all bounds hold together at `confidence`.

  The total variation of the frequencies is a convex function of them, so its
  mean is at least the engine's (Jensen). One sample moves it by at most
  1 / samples (McDiarmid 1989).

  Returns:
    How many of the samples were used, and the bound; 0 and 1 below FIRST.
  """
  used, error = 0, 1.0
  for j in itertools.count():
    size = math.ceil(FIRST * GROWTH**j)
    if size > len(codes):
      break
    alarm = (1 - confidence) / ((j + 1) * (j + 2))
    used, error = size, math.sqrt(-math.log(alarm) / (2 * size))
  counts = _prefixes(count(law, which[:used], codes[:used]), law.ndim - 1)
  due = counts.sum(axis=1, keepdims=True) * law.reshape(counts.shape)
  seen = float(abs(counts - due).sum()) / 2 / max(used, 1)
  return used, min(1.0, seen + error)


def worst(law: np.ndarray, counts: np.ndarray) -> Worst:
  """Finds the prefix with the largest deviation in standard errors."""
  candidates = []
  for k in range(1, law.ndim):
    seen, chance = _prefixes(counts, k), _prefixes(law, k)
    of = seen.sum(axis=1, keepdims=True)
    off = (seen - of * chance) ** 2 / (of * chance * (1 - chance) + 1)
    i, code = (int(x) for x in np.unravel_index(off.argmax(), off.shape))
    tokens = tuple(map(int, np.unravel_index(code, law.shape[1 : k + 1])))
    numbers = int(seen[i, code]), int(of[i, 0]), float(chance[i, code])
    candidates.append((off.max(), Worst(i, tokens, *numbers)))
  return max(candidates, key=lambda pair: pair[0])[1]
