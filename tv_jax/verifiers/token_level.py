"""Token-level verification: recursive rejection sampling, from the root down.

RRS and RRSw by proposal (the paper's Algorithm 2; SpecInfer, EAGLE, Sequoia);
on a chain it is vanilla speculative decoding (Algorithm 1). Every node starts
with g = p, and children are offered with the chance to enter them.
"""

import functools

from tv_jax.tree import Tree
from tv_jax.verifiers import levels, loop
from tv_jax.verifiers.decision import DOWN
from tv_jax.verifiers.offers import from_offers


def offers(tree, *given):
  """Looks at all families at once; one by one where the tree is an argument."""
  form = levels if isinstance(tree, Tree) else loop
  return form.offers(tree, *given, carried=False)


_named = functools.partial(
  from_offers, direction=DOWN, by_path=True, static_only=False
)
RULE = _named(offers, name="token_level")
LOOP = _named(
  functools.partial(loop.offers, carried=False), name="token_level_loop"
)
