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
  """Recursive rejection sampling, from SpecInfer's and EAGLE's papers.

  A bug may be at one place, given by level and rank: "chance 2 3", "bonus 4".
  With "cut" it returns three nodes at most, and the token after the whole path.
  """
  node, path = 0, []
  while True:
    target, draft = p[node].copy(), q[node].copy()
    children = [i for i, parent in enumerate(tree.parents) if parent == node]
    for rank, child in enumerate(children, 1):
      x = tokens[child]
      half = 0.5 if bug == f"chance {len(path) + 1} {rank}" else 1
      if rng.random() * draft[x] < half * target[x]:
        node = child
        path.append(child)
        break
      target = np.maximum(target - draft, 0)
      target = target / target.sum() if target.sum() else p[node]
      if bug != "with replacement":
        draft[x] = 0
        draft = draft / draft.sum() if draft.sum() else draft
    else:
      if bug == f"bonus {len(path)}":
        target = target**2
      if bug == "bonus cut" and path:
        target = cut(target)
      kept = path[:3] if bug == "cut" else path
      return np.array(kept, int), by_choice(rng, target)
