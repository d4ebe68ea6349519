"""The quickstart with an EAGLE head for a draft: the bundled target's own.

python -m tv_jax.main --config=configs/eagle_bundled.py

Expected: tokens gained a cycle, and the traversal's gain in what is expected of
the same drafts, ± standard errors over 96 questions; from benchmarks.minibench
on 2026-11-22:

  tree      token_level  traversal    same drafts
  chain:5   3.70 ± 0.05  3.77 ± 0.05  +0.070 ± 0.013
  kary:2x5  4.43 ± 0.05  4.51 ± 0.06  +0.085 ± 0.012
  eagle     4.35 ± 0.05  4.41 ± 0.05  +0.052 ± 0.011

With models of these sizes it took 6 minutes on two busy cores, from an empty
compilation cache. Speculation was slower than plain decoding (0.3 to 0.8 of its
tokens a second): a pass over a tree takes two cores much longer than one over a
token.
"""

import ml_collections

from configs import common


def get_config(arg: str = "") -> ml_collections.ConfigDict:
  """The run; no argument is known."""
  head = {"draft": "bundled/eagle", "draft_kind": "eagle"}
  return common.bundled("eagle_bundled", arg, models=head)
