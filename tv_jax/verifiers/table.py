"""The rules by name."""

from __future__ import annotations

import dataclasses

from tv_jax import names
from tv_jax.proposals import Proposal
from tv_jax.tree import Adaptive, Tree
from tv_jax.verifiers import (
  block,
  gbv,
  k_seq,
  layer_walk,
  ot_traversal,
  ot_traversal_loop,
  token_level,
  token_level_loop,
  traversal,
  traversal_kernel,
  traversal_loop,
)
from tv_jax.verifiers.decision import (
  DOWN,
  UP,
  Decide,
  Verifier,
  chains_only,
)

_TOKEN_LEVEL_LOOP = Verifier(
  name="token_level_loop",
  decide=token_level_loop.decide,
  stop_law=token_level_loop.stop_law,
  direction=DOWN,
  by_path=True,
  static_only=False,
)
_TRAVERSAL_LOOP = Verifier(
  name="traversal_loop",
  decide=traversal_loop.decide,
  stop_law=traversal_loop.stop_law,
  both=traversal_loop.decide_and_stop,
  direction=UP,
  by_path=True,
  static_only=False,
)
_OT_TRAVERSAL_LOOP = Verifier(
  name="ot_traversal_loop",
  decide=ot_traversal_loop.decide,
  stop_law=ot_traversal_loop.stop_law,
  both=ot_traversal_loop.decide_and_stop,
  direction=UP,
  proposals=("without_replacement",),
  static_only=False,
)

VERIFIERS = {
  rule.name: rule
  for rule in (
    Verifier(
      name="token_level",
      decide=token_level.decide,
      stop_law=token_level.stop_law,
      direction=DOWN,
      by_path=True,
      loop=_TOKEN_LEVEL_LOOP,
      at_once=True,
    ),
    _TOKEN_LEVEL_LOOP,
    Verifier(
      name="traversal",
      decide=traversal.decide,
      stop_law=traversal.stop_law,
      direction=UP,
      by_path=True,
      loop=_TRAVERSAL_LOOP,
      at_once=True,
    ),
    _TRAVERSAL_LOOP,
    Verifier(
      name="traversal_kernel",
      decide=traversal_kernel.decide,
      stop_law=traversal_kernel.stop_law,
      direction=UP,
      by_path=True,
      loop=_TRAVERSAL_LOOP,
    ),
    Verifier(
      name="block",
      decide=block.decide,
      stop_law=block.stop_law,
      direction=UP,
      by_path=True,
      defined_on=chains_only,
    ),
    Verifier(
      name="layer_walk",
      decide=layer_walk.decide,
      stop_law=layer_walk.stop_law,
      static_only=False,
    ),
    Verifier(
      name="ot_traversal",
      decide=ot_traversal.decide,
      stop_law=ot_traversal.stop_law,
      direction=UP,
      proposals=("without_replacement",),
      loop=_OT_TRAVERSAL_LOOP,
    ),
    _OT_TRAVERSAL_LOOP,
    Verifier(
      name="gbv",
      decide=gbv.decide,
      stop_law=gbv.stop_law,
      defined_on=gbv.chains_from_the_root,
      proposals=("with_replacement",),
    ),
    Verifier(
      name="k_seq",
      decide=k_seq.decide,
      stop_law=k_seq.stop_law,
      direction=DOWN,
      proposals=("with_replacement",),
    ),
  )
}

# N V up to which `Verifier.at_once` holds: by measurement (performance.md).
SMALL = 1 << 18

# What commands take where no rule is named: the paper's methods, in each form.
# Others are taken by their names, so that a new one changes no old run.
DEFAULT = (
  "token_level",
  "token_level_loop",
  "traversal",
  "traversal_loop",
  "block",
)


def resolve(verifier: Verifier | Decide | str) -> Verifier:
  """The rule that is meant, with a name.

  Args:
    verifier: A name of `VERIFIERS`; "package.module:name" of a `Verifier` or a
      `decide`, imported with the current directory in sight; or one of these
      themselves.

  Returns:
    The rule. It is called as it was asked for by text; else "module:name",
    where a module holds it; else by its own `name`.

  Raises:
    ValueError: Nothing is meant by it.
  """
  if isinstance(verifier, str):
    found = names.find(VERIFIERS, verifier, "verifier")
    return _named(_rule(found, verifier), verifier)
  rule = _rule(verifier, verifier)
  if rule in VERIFIERS.values():
    return rule
  name = names.of(verifier) or rule.name or names.of(rule.decide)
  if not name:
    raise ValueError(
      f"verifier {verifier!r} has no name: give it one, as in"
      ' Verifier(name="mine", decide=...)'
    )
  return _named(rule, name)


def _rule(thing, told) -> Verifier:
  """A `Verifier`, or a `decide` as one; a built-in's `decide` is that rule."""
  if isinstance(thing, Verifier):
    return thing
  if not callable(thing) or isinstance(thing, type):
    raise ValueError(
      f"verifier {told!r}: give a name, module:name, a Verifier or a decide"
      " function"
    )
  for rule in VERIFIERS.values():
    if rule.decide is thing:
      return rule
  return Verifier(decide=thing)


def _named(rule, name):
  return rule if rule.name == name else dataclasses.replace(rule, name=name)


def form(
  rule: Verifier,
  tree: Tree | Adaptive,
  cpu: bool = False,
  vocabulary: int | None = None,
) -> Verifier:
  """The form of a rule that decides: on a CPU the loop, if it has one.

  Unless passing over all nodes `at_once` is less work, on chains and a small
  vocabulary. On trees that take shape, one that takes these.
  """
  forms = [own for own in (rule, rule.loop) if own]
  if isinstance(tree, Adaptive):
    forms = [own for own in forms if not own.static_only] or forms
  small = vocabulary is not None and len(tree) * vocabulary <= SMALL
  loop = cpu and not (small and tree.is_chain and forms[0].at_once)
  return forms[-1] if loop else forms[0]


def misfit(
  rule: Verifier, tree: Tree | Adaptive, proposal: Proposal
) -> str | None:
  """Why a rule is not defined for a tree and a proposal; None: it is."""
  if reason := undefined(rule, tree):
    return f"verifier {rule.name!r} {reason}"
  forms = [own for own in (rule, rule.loop) if own]
  if isinstance(tree, Adaptive) and all(own.static_only for own in forms):
    return (
      f"verifier {rule.name!r} is defined for trees that are known beforehand"
      f" (static_only), and the tree is {tree!r}"
    )
  if rule.proposals and proposal.name not in rule.proposals:
    return (
      f"verifier {rule.name!r} is defined for {', '.join(rule.proposals)} only,"
      f" and the proposal is {proposal.name!r}"
    )
  return None


def undefined(rule: Verifier, tree: Tree | Adaptive) -> str | None:
  """What a rule's `defined_on` says of a tree, whoever wrote it."""
  told = f"verifier {rule.name!r}: defined_on(tree)"
  try:
    reason = rule.defined_on(tree) if rule.defined_on else None
  except Exception as error:
    raise ValueError(f"{told}: {names.raised(error)}") from error
  if not isinstance(reason, str | None):
    raise ValueError(f"{told} is {reason!r}: give None, or why it is not")
  return reason
