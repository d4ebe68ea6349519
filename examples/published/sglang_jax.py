"""Give sglang-jax's tree sampling the certificate's trees.

The caller draws the uniforms. The function accepts a sibling with the target's
probability, whatever the draft's is; siblings have to differ.
"""

import jax
import jax.numpy as jnp
import numpy as np

from examples import published

REPOSITORY = "sgl-project/sglang-jax"
SYSTEM = "sglang-jax"
SOURCE = (
  "python/sgl_jax/srt/kernels/speculative/kernel.py:"
  " `tree_speculative_sampling_target_only`"
)
SETTINGS = {"tree": "branching:2", "cases": 8, "arrays": "jax"}
FILE = "python/sgl_jax/srt/kernels/speculative/kernel.py"
kernel = published.load(published.checkout(REPOSITORY) / FILE, "sgl_jax_kernel")


def linked(tree) -> tuple[list[int], list[int]]:
  """List each node's first child and its next sibling; -1 without one."""
  child, sibling = [-1] * len(tree.parents), [-1] * len(tree.parents)
  for node in reversed(range(1, len(tree.parents))):
    parent = tree.parents[node]
    child[parent], sibling[node] = node, child[parent]
  return child, sibling


def verify(tree, tokens, q, p, rng):
  """Verify a tree; row i of the laws is node i's."""
  N, keys = len(tree.parents), jax.random.split(rng)
  steps = max(map(len, published.paths(tree)))
  child, sibling = (np.array([x]) for x in linked(tree))
  accepted, count, predicted = kernel.tree_speculative_sampling_target_only(
    predicts=jnp.full(N, -1, jnp.int32),
    accept_index=jnp.full((1, steps), -1, jnp.int32),
    accept_token_num=jnp.zeros(1, jnp.int32),
    candidates=np.array([[0, *tokens[1:]]]),
    retrive_index=np.arange(N)[None],
    retrive_next_token=child,
    retrive_next_sibling=sibling,
    uniform_samples=jax.random.uniform(keys[0], (1, N)),
    uniform_samples_for_final_sampling=jax.random.uniform(keys[1], (1,)),
    target_probs=p,
    draft_probs=jnp.zeros_like(p),
  )
  path = accepted[0, : int(count[0]) + 1].tolist()
  return path[1:], predicted[path[-1]]


PROGRAMS = {"": verify}
