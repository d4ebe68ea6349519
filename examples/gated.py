"""Drafts the likeliest token first where the draft is confident.

If max q >= tau at a node, the gate is open and the first sibling is the
likeliest token. Otherwise the first sibling is drawn from q. Later siblings are
always drawn without replacement. The gate depends only on q, which is known
before any sibling is drawn. So each sibling's distribution is known, which is
all that a proposal must provide.

A rule recognises an open gate by the first sibling's probability. With an open
gate, that is max q, at least tau. With a closed gate, all of q is below tau.

    python -m tv_jax.certify --proposals=examples.gated:half
"""

import dataclasses

import jax.numpy as jnp
import numpy as np

from tv_jax.proposals import WITHOUT_REPLACEMENT, Proposal, one_hot_of_best


@dataclasses.dataclass(frozen=True)
class Gate:
  """The three functions of a `Proposal`.

  Attributes:
    tau: Smallest probability of a likeliest token that comes first.
  """

  tau: float

  @property
  def edge(self) -> float:
    """Tau in float32, so that laws in float32 and float64 compare alike."""
    return float(np.float32(self.tau))

  def draw(self, key, q, k):
    """Draws the likeliest token and then samples of the others, or samples."""
    top, sure = jnp.argmax(q), jnp.max(q) >= self.edge
    rest = jnp.where(sure, q.at[top].set(0), q)
    drawn = WITHOUT_REPLACEMENT.draw(key, rest, k)
    first = top.astype(drawn.dtype)[None]
    return jnp.where(sure, jnp.concatenate([first, drawn[:-1]]), drawn)

  def laws(self, q_at, rest, exists):
    """Returns `WITHOUT_REPLACEMENT`'s laws, or a certain first token's."""
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
  """Makes the proposal of a gate, with 0 < tau <= 1."""
  gate = Gate(tau)
  return Proposal(
    name=f"gated_{tau}",
    draw=gate.draw,
    laws=gate.laws,
    following=gate.following,
    nested=True,
    rest_from=1,
    distinct=True,
  )


half = gated(0.5)
