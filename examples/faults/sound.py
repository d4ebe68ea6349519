"""Programs that were reported as faults, or look like faults, but are lossless.

Each program is a cycle.
"""

from examples.faults import common


def matched(p, q, context, rng):
  """Draw from the target, and continue while the drafts are the same.

  The draft's law is not used, so its temperature does not matter. The program
  is exact because it emits only draws from the target. It accepts less often
  than p / q does (https://github.com/lablup/mlxcel/pull/992 explains it).
  """
  tokens, _ = common.propose(q, context, rng)
  out = []
  for token in tokens:
    out.append(common.draw(p((*context, *out)), rng))
    if out[-1] != token:
      return out
  return [*out, common.draw(p((*context, *out)), rng)]


def likeliest(p, q, context, rng):
  """Draft the likeliest tokens, and verify them with q = 1.

  EAGLE-2 does so (https://github.com/SafeAILab/EAGLE/issues/183). A draft that
  is not random has a one-hot law.
  """
  tokens, laws = common.likeliest(q, context)
  return common.check(tokens, laws, p, context, rng)


def as_if_not_drawn(p, q, context, rng):
  """Sample drafts, and verify them with q = 1.

  vLLM did so where it had no draft law
  (https://github.com/vllm-project/vllm/issues/40149). The output is lossless
  for each fixed draft, so it is lossless for a random draft.
  """
  tokens, laws = common.propose(q, context, rng)
  laws = [
    common.one_hot(x, len(law)) for x, law in zip(tokens, laws, strict=True)
  ]
  return common.check(tokens, laws, p, context, rng)


def cut_after(p, q, context, rng):
  """Verify all drafts, then keep at most the confident drafts and a token.

  A report says that SGLang's DSpark does so
  (https://github.com/sgl-project/sglang/pull/30204). A confidence belongs to a
  position, and is known before the token there is drawn. So the cut does not
  depend on the tokens that it removes, and only the work of verifying them is
  lost. To use the probability of the drawn token would be the fault of
  pruned_draft.
  """
  tokens, laws = common.propose(q, context, rng)
  out = common.check(tokens, laws, p, context, rng)
  confident = [law.max() >= 0.5 for law in laws]
  return out[: [*confident, False].index(False) + 1]
