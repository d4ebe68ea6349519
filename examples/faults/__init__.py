"""Hold real faults of speculative decoding, each with its mend.

    python -m examples.faults

Each file is a program of ours that does what a public report says that a system
did: `faulty`, and `fixed` beside it. NAMES has them in the table's order.
"""

NAMES = (
  # the draft was not drawn from the law that it is judged by
  "raw_draft_law",
  "greedy_draft",
  "bfloat16_draft",
  "shared_noise",
  # what follows has the wrong law
  "bonus_temperature",
  "residual_of_one_token",
  "softmax_residual",
  "row_after_rejection",
  "row_of_a_cousin",
  "masked_before_temperature",
  "greedy_in_a_batch",
  # the coin is not p / q
  "always_accepted",
  "first_unchecked",
  "typical_acceptance",
  # rules are mixed
  "block_recovery",
  "block_coins",
  "block_first_rejection",
  # the length looks at what it cuts
  "pruned_draft",
  "length_in_hindsight",
  "budget_in_hindsight",
  # too small to matter
  "closed_coin",
  "clamped_residual",
)
