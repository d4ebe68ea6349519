"""Real faults of speculative decoding, each with its fix.

    python -m examples.faults

Each file has two programs of ours. `faulty` repeats a system's fault, in all
but three files a publicly reported one, and `fixed` is correct. The docstrings
of the three say where the fault comes from. NAMES lists the files in the
table's order.
"""

NAMES = (
  # the draft is not drawn from the law that verification uses
  "raw_draft_law",
  "greedy_draft",
  "bfloat16_draft",
  "shared_noise",
  # the residual or the target's law is wrong
  "bonus_temperature",
  "residual_of_one_token",
  "softmax_residual",
  "row_after_rejection",
  "row_of_a_cousin",
  "masked_before_temperature",
  "greedy_in_a_batch",
  # the acceptance probability is not p / q
  "always_accepted",
  "first_unchecked",
  "typical_acceptance",
  # two verification rules are mixed
  "block_recovery",
  "block_first_rejection",
  # the verified length depends on the tokens it cuts
  "pruned_draft",
  "length_in_hindsight",
  # too small to matter
  "closed_coin",
)
