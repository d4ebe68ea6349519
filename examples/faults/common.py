"""Correct parts that the programs of the gallery share.

`p` and `q` return the target's and the draft's law after a prefix (a tuple of
tokens). `rng` is NumPy's Generator, or the certificate's stand-in for it.
"""

import numpy as np

DEPTH = 2  # drafts of a chain
TPU_INFERENCE = (
  "tpu-inference, certified below",
  "https://github.com/vllm-project/tpu-inference/blob/b8692ff/tpu_inference/"
  "layers/jax/sample/rejection_sampler.py",
)


def draw(law, rng):
  """Draw a token."""
  return int(rng.choice(len(law), p=law))


def propose(q, context, rng):
  """Draft a chain; return its tokens and the laws that they are drawn from."""
  tokens, laws = [], []
  for _ in range(DEPTH):
    laws.append(q((*context, *tokens)))
    tokens.append(draw(laws[-1], rng))
  return tokens, laws


def residual(p, q):
  """Return the normalised [p - q]_+, the law after a rejection."""
  left = np.maximum(p - q, 0)
  return left / left.sum()


def one_hot(token, size):
  """Return the law of a draft that is not random."""
  return np.eye(size)[token]


def likeliest(q, context):
  """Draft the likeliest tokens; their laws are one-hot."""
  tokens, laws = [], []
  for _ in range(DEPTH):
    law = q((*context, *tokens))
    tokens.append(int(np.argmax(law)))
    laws.append(one_hot(tokens[-1], len(law)))
  return tokens, laws


def check(tokens, laws, p, context, rng, recover=residual, last=None):
  """Verify a chain token by token.

  Args:
    tokens: the drafted tokens.
    laws: the draft laws that verification uses.
    p: the target's laws.
    context: the tokens before the chain.
    rng: the generator.
    recover: returns the law after a rejection.
    last: the target's laws for the bonus token, if they differ from p.
  """
  out = []
  for token, law in zip(tokens, laws, strict=True):
    target = p((*context, *out))
    if rng.random() * law[token] >= target[token]:
      return [*out, draw(recover(target, law), rng)]
    out.append(token)
  return [*out, draw((last or p)((*context, *out)), rng)]


def cycle(p, q, context, rng):
  """Draft a chain and verify it correctly."""
  tokens, laws = propose(q, context, rng)
  return check(tokens, laws, p, context, rng)


def survival(p, q, context, tokens):
  """Predict each draft's survival probability, with perfect confidences."""
  prefixes = [(*context, *tokens[:i]) for i in range(len(tokens))]
  return np.cumprod([np.minimum(p(x), q(x)).sum() for x in prefixes])


def weights(tokens, laws, p, context):
  """Compute a chain's weights in block verification (arXiv 2403.10444).

  Returns:
    w_i, the weight of the first i tokens, and [w_i p - q]_+ after each.
  """
  kept, left = [1.0], []
  for i, (token, law) in enumerate(zip(tokens, laws, strict=True)):
    target = p((*context, *tokens[:i]))
    left.append(np.maximum(kept[-1] * target - law, 0))
    kept.append(min(1.0, kept[-1] * target[token] / law[token]))
  return kept, [*left, kept[-1] * p((*context, *tokens))]


def chances(kept, left):
  """Return each prefix's acceptance probability if all longer prefixes fail."""
  made = []
  for weight, rest in zip(kept[1:-1], left[1:-1], strict=True):
    lacking = rest.sum() + 1 - weight
    made.append(1.0 if lacking <= 0 else rest.sum() / lacking)
  return [*made, kept[-1]]


def product_length(one, two, rng):
  """Draw, for two drafts, the last i with u_1 .. u_i <= weight i, or 0.

  The certificate cannot follow products of coins, so a single coin is compared
  with P(u_1 u_2 <= two) and P(u_1 <= one and u_1 u_2 > two).
  """
  both = two * (1 - np.log(two)) if two > 0 else 0.0
  first = one
  if two > 0:
    first = one - two - two * np.log(one / two) if one > two else 0.0
  u = rng.random()
  return 2 if u < both else 1 if u < both + first else 0


def finish(tokens, left, length, rng):
  """Accept `length` tokens and draw the next token from the residual."""
  law = left[length] / left[length].sum()
  return [*tokens[:length], draw(law, rng)]


def block(p, q, context, rng, stop=False):
  """Draft a chain and verify it as a block; `stop` at the first rejection."""
  tokens, laws = propose(q, context, rng)
  kept, left = weights(tokens, laws, p, context)
  length = 0
  for i, chance in enumerate(chances(kept, left), start=1):
    if rng.random() < chance:
      length = i
    elif stop:
      break
  return finish(tokens, left, length, rng)


def children(tree, node):
  """List a node's children in drawing order."""
  return [i for i, parent in enumerate(tree.parents) if parent == node]


def walk(tree, tokens, rows, q, rng, last):
  """Verify a tree of siblings without replacement, from the root down.

  Args:
    tree: has `parents`; the root's parent is -1.
    tokens: the drafted token of each node.
    rows: the target's law after each node, to verify its children.
    q: the draft's law after each node.
    rng: the generator.
    last: the target's law after each node, to draw the token after a leaf.
  """
  node, path = 0, []
  while family := children(tree, node):
    law, base = rows[node], q[node]
    for child in family:
      token = tokens[child]
      if rng.random() * base[token] < law[token]:
        break
      law = residual(law, base)
      base = np.where(np.arange(len(base)) == token, 0, base)
      base = base / max(base.sum(), 1e-300)
    else:
      return path, draw(law, rng)
    path.append(child)
    node = child
  return path, draw(last[node], rng)
