"""Checks rules, proposals and policies by shapes and dtypes, before any run.

Axes: N nodes, V vocabulary.
"""

import functools
from typing import cast

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.drafting import adaptive
from tv_jax.edge import names
from tv_jax.proposals import PROPOSALS, Proposal
from tv_jax.tree import Adaptive, Tree
from tv_jax.verifiers import VERIFIERS, Decision, Shape, Verifier


@functools.lru_cache(maxsize=256)
def check(
  rule: Verifier,
  proposal: Proposal,
  tree: Tree | Adaptive,
  V: int,
  dtype=np.float32,
) -> None:
  """Refuses what no program can be made of; what is built in is not checked.

  Raises:
    ValueError: In one line, what is wrong with whose function.
  """
  parts = {}
  if isinstance(tree, Adaptive) and tree.policy:
    name = names.of(tree.policy) or tree.policy
    parts[f"policy {name!r}"] = functools.partial(_policy, tree, dtype, V)
  if proposal not in PROPOSALS.values():
    parts[f"proposal {proposal.name!r}"] = lambda: [
      fault for k in tree.family_sizes for fault in drawn(proposal, k, dtype, V)
    ]
  if proposal not in PROPOSALS.values() or rule not in VERIFIERS.values():
    parts[f"verifier {rule.name!r}"] = functools.partial(
      faults, rule, proposal, tree, dtype, V
    )
  for name, find in parts.items():
    try:
      message = "; ".join(find())
    except Exception as error:  # whatever a stranger's function raises
      message = names.raised(error)
    if message:
      raise ValueError(f"{name} on {tree!r}: {message}")


def faults(
  verifier: Verifier, proposal: Proposal, tree: Tree | Adaptive, dtype, V: int
) -> list[str]:
  """Says what is wrong with what `decide` and `stop_law` return."""
  N, messages = len(tree), []
  law = jax.ShapeDtypeStruct((N, V), dtype)
  tokens = jax.ShapeDtypeStruct((N,), np.int32)
  eta = jax.ShapeDtypeStruct((N,), dtype)
  topology = None
  if isinstance(tree, Adaptive):
    grow = functools.partial(adaptive.topology, tree)
    topology = jax.eval_shape(grow, tokens)

  def look(topology, tokens, q, p, eta):
    draft = cast(Shape, topology or tree), proposal, tokens, q, p
    decision = verifier.decide(*draft, eta)
    if not isinstance(decision, Decision):
      messages.append(
        f"decide returned {_kind(decision)}: return a tv_jax.verifiers"
        " Decision(node=, residual=, accept=, fault=)"
      )
      return
    for name, shape, kind in (
      ("node", (), np.int32),
      ("residual", (V,), dtype),
      ("accept", (N,), dtype),
      ("fault", (), bool),
    ):
      value = getattr(decision, name)
      messages.extend(_differs(f"Decision.{name}", value, shape, kind))
    if verifier.offers:
      stop = verifier.stop_law(*draft)
      messages.extend(_differs("stop_law", stop, (N,), dtype))

  jax.eval_shape(look, topology, tokens, law, law, eta)
  return messages


def drawn(proposal: Proposal, k: int, dtype, V: int) -> list[str]:
  """Says what is wrong with what `draw` returns for k siblings."""
  messages = []
  name = f"draw(key, q, {k}) for a {np.dtype(dtype).name} q"

  def look(key, q):
    messages.extend(_differs(name, proposal.draw(key, q, k), (k,), np.int32))

  law = jax.ShapeDtypeStruct((V,), dtype)
  jax.eval_shape(look, jax.random.key(0), law)
  return messages


def _policy(tree, dtype, V) -> list[str]:
  """Runs a policy level by level: `adaptive.choose` says what is wrong."""
  for depth, above in enumerate(tree.levels[:-1], 1):
    worth = jax.ShapeDtypeStruct((len(above),), np.float32)
    laws = jax.ShapeDtypeStruct((len(above), V), dtype)
    for confidence in (None, worth):  # drafts of both kinds
      choose = functools.partial(adaptive.choose, tree, depth)
      jax.eval_shape(choose, laws, worth, confidence)
  return []


def _kind(value) -> str:
  """Describes a value, as in float32[5]."""
  if isinstance(value, jax.Array | np.ndarray | np.generic | int | float):
    dtype = np.dtype(jnp.result_type(value)).name
    return f"{dtype}{[*jnp.shape(value)]}"
  return "None" if value is None else type(value).__name__


def _differs(name, value, shape, dtype) -> list[str]:
  wanted = f"{np.dtype(dtype).name}{[*shape]}"
  kind = _kind(value)
  return [] if kind == wanted else [f"{name} is {kind}, not {wanted}"]
