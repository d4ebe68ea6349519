"""Where the draft is sure the likeliest token comes first, else a sample does.

At a node whose law has max q >= tau, the gate, the first sibling is the
likeliest token, without chance; at others it is drawn from q. The later ones
are drawn one after the other, none twice, at all nodes alike. The gate looks at
the node's own law, which is known before any sibling is drawn: given that law,
every sibling's is known, and nothing else is asked of a proposal.

No rule is told which way was taken, and none needs to be: the first sibling's
own chance says it. Where the gate is open it is the largest of q, tau or more;
where it is shut, all are less.
"""

from __future__ import annotations

import dataclasses
import functools

import jax.numpy as jnp
import numpy as np

from tv_jax.edge import checks
from tv_jax.proposals.proposal import Proposal
from tv_jax.proposals.standard import WITHOUT_REPLACEMENT, one_hot_of_best

EXAMPLE = "gated:0.7"


@dataclasses.dataclass(frozen=True)
class Gate:
  """The three functions of a `Proposal`.

  Attributes:
    tau: How likely the likeliest token must be, to come first.
  """

  tau: float

  @property
  def edge(self) -> float:
    """Tau in float32, so that a law of any precision is on one side of it."""
    return float(np.float32(self.tau))

  def draw(self, key, q, k):
    """The likeliest token before samples of the others, or samples alone."""
    top, sure = jnp.argmax(q), jnp.max(q) >= self.edge
    left = jnp.where(sure, q.at[top].set(0), q)
    drawn = WITHOUT_REPLACEMENT.draw(key, left, k)
    first = top.astype(drawn.dtype)[None]
    return jnp.where(sure, jnp.concatenate([first, drawn[:-1]]), drawn)

  def laws(self, q_at, rest, exists):
    """Returns those without replacement, but for the first one's."""
    scale, at = WITHOUT_REPLACEMENT.laws(q_at, rest, exists)
    first = np.arange(len(q_at)) == 0
    sure = first & exists[0] & (q_at[0] >= self.edge)
    one_hot = first.astype(at.dtype)
    return jnp.where(sure, 0, scale), jnp.where(sure[:, None], one_hot, at)

  def following(self, q, drawn, k):
    """Returns the next sibling's law, by definition."""
    if not drawn and q.max() >= self.edge:
      return one_hot_of_best(q, 0)
    return WITHOUT_REPLACEMENT.following(q, drawn, k)


def gated(tau: float) -> Proposal:
  """Makes the proposal of this gate.

  Args:
    tau: Above 0, and 1 at most.
  """
  return _gated(checks.read(checks.number(above=0, most=1), tau, "gated"))


@functools.cache  # the same one for the same number: programs are kept by it
def _gated(tau):
  gate = Gate(tau)
  # In all its digits, since files hold the name alone, and no exponent.
  digits = np.format_float_positional(gate.tau, trim="-")
  return Proposal(
    name=f"gated:{digits}",
    draw=gate.draw,
    laws=gate.laws,
    following=gate.following,
    nested=True,
    rest_from=1,
    distinct=True,
  )


def parse(name: str) -> Proposal | None:
  """Makes what `gated:0.7` and the like name; None: none is meant."""
  kind, colon, tau = name.partition(":")
  if kind != "gated" or not colon:
    return None
  try:
    return gated(float(tau))
  except ValueError:
    raise ValueError(
      f"proposal {name!r}: give a number above 0, and 1 at most"
    ) from None
