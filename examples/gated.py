"""Draw the likeliest token first where the draft is sure, else a sample.

At a node whose law has max q >= tau, the gate, the first sibling is the
likeliest token, without chance; at others it is drawn from q. The later ones
are drawn one after the other, none twice, at all nodes alike. The gate looks at
the node's own law, which is known before any sibling is drawn: given that law,
every sibling's is known, and nothing else is asked of a proposal.

No rule is told which way was taken, and none needs to be: the first sibling's
own chance says it. Where the gate is open it is the largest of q, tau or more;
where it is shut, all are less.

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
    tau: How likely the likeliest token must be, to come first.
  """

  tau: float

  @property
  def edge(self) -> float:
    """Tau in float32, so that a law of any precision is on one side of it."""
    return float(np.float32(self.tau))

  def draw(self, key, q, k):
    """Draw the likeliest token before samples of the others, or samples."""
    top, sure = jnp.argmax(q), jnp.max(q) >= self.edge
    rest = jnp.where(sure, q.at[top].set(0), q)
    drawn = WITHOUT_REPLACEMENT.draw(key, rest, k)
    first = top.astype(drawn.dtype)[None]
    return jnp.where(sure, jnp.concatenate([first, drawn[:-1]]), drawn)

  def laws(self, q_at, rest, exists):
    """Return those without replacement, but for the first one's."""
    scale, at = WITHOUT_REPLACEMENT.laws(q_at, rest, exists)
    first = np.arange(len(q_at)) == 0
    sure = first & exists[0] & (q_at[0] >= self.edge)
    one_hot = first.astype(at.dtype)
    return jnp.where(sure, 0, scale), jnp.where(sure[:, None], one_hot, at)

  def following(self, q, drawn, k):
    """Return the next sibling's law, by definition."""
    if not drawn and q.max() >= self.edge:
      return one_hot_of_best(q, 0)
    return WITHOUT_REPLACEMENT.following(q, drawn, k)


def gated(tau: float) -> Proposal:
  """Make the proposal of this gate, above 0 and 1 at most."""
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
