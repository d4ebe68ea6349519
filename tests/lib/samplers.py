"""Programs that draft and verify, right and wrong."""

import numpy as np


def by_choice(rng, law):
  return int(rng.choice(len(law), p=law / law.sum()))


def chain(p, q, context, rng, draw=by_choice, levels=2):
  """Speculative sampling as it was published."""
  laws, drafted = [], []
  for _ in range(levels):
    laws.append(q((*context, *drafted)))
    drafted.append(draw(rng, laws[-1]))
  for i, (token, law) in enumerate(zip(drafted, laws, strict=True)):
    target = p((*context, *drafted[:i]))
    if rng.random() >= target[token] / law[token]:
      return [*drafted[:i], draw(rng, np.maximum(target - law, 0))]
  return [*drafted, draw(rng, p((*context, *drafted)))]


def cut(law):
  """Keeps the 50 likeliest tokens, as samplers have it by default."""
  return np.where(law < np.sort(law)[-50:][0], 0, law)


def verify(tree, tokens, q, p, rng, bug=""):
  """Recursive rejection sampling, from SpecInfer's and EAGLE's papers."""
  node, path = 0, []
  while True:
    target, draft = p[node].copy(), q[node].copy()
    children = [i for i, parent in enumerate(tree.parents) if parent == node]
    for rank, child in enumerate(children):
      x = tokens[child]
      twice = 1 + (rank == 2 and bug == "third doubled")
      if rng.random() * draft[x] < twice * target[x]:
        node = child
        path.append(child)
        break
      target = np.maximum(target - draft, 0)
      target = target / target.sum() if target.sum() else p[node]
      if bug != "with replacement":
        draft[x] = 0
        draft = draft / draft.sum() if draft.sum() else draft
    else:
      if bug == "bonus cut" and path:
        target = cut(target)
      return np.array(path, int), by_choice(rng, target)
