"""A decoder layer in float64 NumPy, from its tensors by published names."""

import numpy as np


def sigmoid(x):
  return 1 / (1 + np.exp(-x))


class Definition:
  """Computes with a checkpoint's tensors."""

  def __init__(self, tensors, epsilon, theta, channels):
    self.w = {k: np.asarray(v, np.float64) for k, v in tensors.items()}
    self.epsilon, self.theta, self.channels = epsilon, theta, channels

  def norm(self, x, name):
    mean = np.mean(x**2, -1, keepdims=True)
    return x / np.sqrt(mean + self.epsilon) * self.w[f"{name}.weight"]

  def affine(self, x, name):
    return x @ self.w[f"{name}.weight"].T + self.w.get(f"{name}.bias", 0)

  def heads(self, x, name):
    """Returns projections [heads, T, C]."""
    return (
      self.affine(x, name).reshape(len(x), -1, self.channels).swapaxes(0, 1)
    )

  def turned(self, x, name, places):
    """Returns projections at these positions, normed if the layer does that."""
    y, norm = self.heads(x, name), name.replace("_proj", "_norm")
    y = self.norm(y, norm) if f"{norm}.weight" in self.w else y
    C = self.channels
    turn = places[:, None] * self.theta ** (-np.arange(0, C, 2) / C)
    z = (y[..., : C // 2] + 1j * y[..., C // 2 :]) * np.exp(1j * turn)
    return np.concatenate([z.real, z.imag], -1)

  def layer(self, x, inputs, at):
    """Returns the output [T, E] of a layer.

    Args:
      x: [T, E], what attention and MLP are added to.
      inputs: [T, J], what attention reads.
      at: What the layer's tensors begin with.
    """
    places, T = np.arange(len(x)), len(x)
    q = self.turned(inputs, f"{at}self_attn.q_proj", places)
    k = self.turned(inputs, f"{at}self_attn.k_proj", places)
    v = self.heads(inputs, f"{at}self_attn.v_proj")
    out = []
    for h in range(len(q)):
      g = h * len(k) // len(q)
      scores = q[h] @ k[g].T / np.sqrt(self.channels)
      scores[np.triu_indices(T, 1)] = -np.inf
      share = np.exp(scores - scores.max(-1, keepdims=True))
      out.append(share / share.sum(-1, keepdims=True) @ v[g])
    out = np.stack(out, 1).reshape(T, -1)
    x = x + self.affine(out, f"{at}self_attn.o_proj")
    y = self.norm(x, f"{at}post_attention_layernorm")
    gate, up = (self.affine(y, f"{at}mlp.{z}_proj") for z in ("gate", "up"))
    return x + self.affine(gate * sigmoid(gate) * up, f"{at}mlp.down_proj")
