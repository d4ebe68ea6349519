"""Give Spec-Bench's EAGLE-1 a tree of siblings without replacement.

The bonus token after a fully accepted path is drawn without the temperature.
"""

import functools

import torch

from examples import published

REPOSITORY = "hemingkx/Spec-Bench"
SYSTEM = "Spec-Bench's EAGLE-1"
SOURCE = "model/eagle/utils.py: `evaluate_posterior`"
SETTINGS = {"tree": "branching:2,1", "cases": 8, "arrays": "torch"}
eagle = published.load(
  published.checkout(REPOSITORY) / "model/eagle/utils.py", "spec_bench_eagle"
)


def verify(tree, tokens, q, p, rng, temperature=1.0):
  """Verify a tree; the logits are those that give p at this temperature."""
  rows, nodes, texts = published.candidates(tree, tokens)
  known = torch.tensor([[0, *tokens[1:]]])
  chances, before = torch.ones(len(tokens), dtype=q.dtype), {}
  for node, parent in enumerate(tree.parents[1:], start=1):
    before[node] = [x for x in range(1, node) if tree.parents[x] == parent]
    left = q[parent].sum() - q[parent][known[0, before[node]]].sum()
    chances[node] = q[parent][tokens[node]] / left
  depth = nodes.shape[1]
  best, accepted, law = eagle.evaluate_posterior(
    (temperature * p.log())[nodes],
    texts,
    eagle.prepare_logits_processor(temperature=temperature),
    chances[nodes],
    [q] * depth,
    [[tree.parents[node] for node in row] for row in nodes.tolist()],
    known,
    [[before.get(node, []) for node in row] for row in nodes.tolist()],
  )
  return rows[best][1 : accepted + 1], torch.multinomial(law, 1)


WRONG = {"T = 0.7": "the bonus token is drawn without the temperature"}
PROGRAMS = {
  "T = 1": verify,
  "T = 0.7": functools.partial(verify, temperature=0.7),
}
