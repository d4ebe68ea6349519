"""Do what has been reported as a fault, and is none.

Each is a cycle, and lossless. It may look like a fault.
"""

from examples.faults import common


def matched(p, q, context, rng):
  """Draw from the target, and go on while the drafts are the same.

  The draft's law is never asked for, so its temperature may be any. It is
  exact since what is emitted is always the target's own draw, and accepts
  less than p / q does (https://github.com/lablup/mlxcel/pull/992 explains it).
  """
  tokens, _ = common.propose(q, context, rng)
  out = []
  for token in tokens:
    out.append(common.draw(p((*context, *out)), rng))
    if out[-1] != token:
      return out
  return [*out, common.draw(p((*context, *out)), rng)]


def likeliest(p, q, context, rng):
  """Draft the likeliest tokens, and judge them with q = 1.

  EAGLE-2 does (https://github.com/SafeAILab/EAGLE/issues/183): a draft that is
  not drawn has a one-hot law.
  """
  tokens, laws = common.likeliest(q, context)
  return common.check(tokens, laws, p, context, rng)


def as_if_not_drawn(p, q, context, rng):
  """Draft by drawing, and judge with q = 1.

  vLLM did where it had no draft law at hand
  (https://github.com/vllm-project/vllm/issues/40149). It is right for each
  draft, so it is right for a drawn one.
  """
  tokens, laws = common.propose(q, context, rng)
  laws = [
    common.one_hot(x, len(law)) for x, law in zip(tokens, laws, strict=True)
  ]
  return common.check(tokens, laws, p, context, rng)


def cut_after(p, q, context, rng):
  """Verify all drafts, then keep no more than the confident ones and one token.

  SGLang's DSpark does, a report says
  (https://github.com/sgl-project/sglang/pull/30204). The confidence that ends
  the text is of a place, known before the token there is drawn; so the text
  stops without a look at what is cut, and only the work is lost that verified
  it. A confidence of the token there would be the fault of pruned_draft.
  """
  tokens, laws = common.propose(q, context, rng)
  out = common.check(tokens, laws, p, context, rng)
  confident = [law.max() >= 0.5 for law in laws]
  return out[: [*confident, False].index(False) + 1]
