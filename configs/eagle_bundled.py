"""The quickstart with an EAGLE head for a draft: the bundled target's own.

python -m tv_jax.main --config=configs/eagle_bundled.py

Expected: tokens gained a cycle by item, ± standard errors over 96 questions,
and the traversal's gain in what is expected of the same drafts:

  tree      token_level  traversal    same drafts
  chain:5   4.59 ± 0.08  4.66 ± 0.07  +0.049 ± 0.014
  kary:2x5  5.16 ± 0.06  5.11 ± 0.06  +0.030 ± 0.015
  eagle     5.07 ± 0.06  5.12 ± 0.06  +0.063 ± 0.011

Measured on 2026-11-21 on two cores that others kept busy, from an empty
compilation cache: 6 minutes. Every check is 0 within its error. Speculation was
slower than plain decoding (0.3 to 0.8 of its tokens a second): a pass over a
tree takes two cores much longer than one over a token.
"""

import ml_collections

from configs import common


def get_config(arg: str = "") -> ml_collections.ConfigDict:
  """The run; no argument is known."""
  head = {"draft": "bundled/eagle", "draft_kind": "eagle"}
  return common.bundled("eagle_bundled", arg, models=head)
