"""The grid of a run: its methods, in the order in which they are tried."""

import itertools

from tv_jax import proposals, verifiers
from tv_jax import tree as tree_lib
from tv_jax.evaluate.settings import Run
from tv_jax.records import AXES, NONE, PLAIN, Method


def grid(settings: Run) -> list[Method]:
  """All methods; those that share a program stand together."""
  places = [(NONE, NONE, PLAIN)] if settings.plain else []
  places += [
    (tree, proposal, rule)
    for tree, proposal in itertools.product(settings.trees, settings.proposals)
    for rule in rules_on(settings, tree, proposal)
  ]
  drafted = ("tree", "proposal", "verifier")
  # A config names an axis in the plural.
  others = [name for name in AXES if name not in drafted]
  values = [getattr(settings, f"{name}s") for name in others]
  return [
    Method(**dict(zip((*drafted, *others), (*place, *point), strict=True)))
    for place, point in itertools.product(places, itertools.product(*values))
  ]


def options(settings: Run, method: Method) -> dict:
  """What `generate` is to do; batch size, panel and trace aside."""
  own = {**vars(method)}
  if method.plain:
    del own["tree"], own["proposal"]
    own["verifier"] = None
  else:
    own["among"] = rules_on(settings, method.tree, method.proposal)
  return {
    "draft_temperature": settings.draft_temperature or None,
    "top_k": settings.top_k,
    "top_p": settings.top_p,
    "max_new_tokens": settings.max_new_tokens,
  } | own


def rules_on(settings: Run, tree: str, proposal: str) -> tuple[str, ...]:
  """The verifiers that are defined on a tree and for a proposal."""
  return tuple(
    name for name in settings.verifiers if not misfit(name, tree, proposal)
  )


def misfit(name: str, tree: str, proposal: str) -> str | None:
  """Why a rule is not defined for a tree and a proposal; None: it is."""
  return verifiers.misfit(
    verifiers.resolve(name), tree_lib.parse(tree), proposals.resolve(proposal)
  )
