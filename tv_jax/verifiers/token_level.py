"""Token-level verification: recursive rejection sampling, from the root down.

RRS and RRSw by proposal (the paper's Algorithm 2; SpecInfer, EAGLE, Sequoia);
on a chain it is vanilla speculative decoding (Algorithm 1). Every node starts
with g = p, and children are offered with the chance to enter them.
"""

from tv_jax.tree import Tree
from tv_jax.verifiers import levels, loop
from tv_jax.verifiers.offers import DOWN, Offers
from tv_jax.verifiers.verifier import Verifier


def offers(tree, *draft) -> Offers:
  """Looks at all families at once; one by one where the tree is an argument."""
  form = levels if isinstance(tree, Tree) else loop
  return form.offers(tree, *draft, inherits=False)


RULE = Verifier(
  name="token_level",
  offers=offers,
  walk=DOWN,
  by_path=True,
  static_only=False,
)
