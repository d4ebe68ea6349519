"""The rules by name."""

from collections.abc import Callable

from tv_jax.verifiers import (
  block,
  token_level,
  token_level_loop,
  traversal,
  traversal_loop,
)
from tv_jax.verifiers.decision import Verifier

VERIFIERS = {
  "token_level": Verifier(
    decide=token_level.decide, stop_law=token_level.stop_law
  ),
  "token_level_loop": Verifier(
    decide=token_level_loop.decide, stop_law=token_level_loop.stop_law
  ),
  "traversal": Verifier(decide=traversal.decide, stop_law=traversal.stop_law),
  "traversal_loop": Verifier(
    decide=traversal_loop.decide, stop_law=traversal_loop.stop_law
  ),
  "block": Verifier(
    decide=block.decide, stop_law=block.stop_law, chains_only=True
  ),
}


def resolve(verifier: Verifier | Callable | str) -> Verifier:
  """The rule of this name, or this `decide` as a rule."""
  if isinstance(verifier, Verifier):
    return verifier
  if isinstance(verifier, str):
    return lookup(VERIFIERS, verifier, "verifier")
  if callable(verifier):
    return Verifier(decide=verifier)
  raise ValueError(
    f"verifier {verifier!r}: give a name, a Verifier or a decide function"
  )


def lookup(table: dict, name: str, kind: str):
  """table[name], or an error that lists the names."""
  if name not in table:
    raise ValueError(f"{kind} {name!r}: not one of {', '.join(table)}")
  return table[name]
