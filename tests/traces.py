"""Traces as a run keeps them, of a random model that drafts for itself."""

import numpy as np

import tv_jax
from tests.checkpoints import pair
from tv_jax.engine.config import decode_config
from tv_jax.runs import answers
from tv_jax.tree import Tree

WORDS = (
  *(" the", " fox", " dog", " jumps", " over", " lazy", " brown", " quick"),
  *(" and", ",", ".", "\n", " überall", " 狐狸", " </script>", " \"<b>'&"),
)
PROMPT = "<|user|>\nWhat does the quick brown fox do?\n<|assistant|>\nThe"


def trace(tree, question, cycles):
  """An answer's first cycles, judged by two rules."""
  options = {
    "tree": tree,
    "verifier": "traversal",
    "panel": ("token_level", "traversal"),
    "draft_temperature": 2.0,
    "top_k": 3,  # a fourth sibling cannot be drawn
    "trace": cycles,
    "max_new_tokens": 6 * cycles,
    "ends": (),
  }
  result = tv_jax.generate(pair("self"), [[5, 9]], items=[question], **options)
  config = decode_config(pair("self"), **options)

  def word(token):
    return WORDS[token % len(WORDS)]

  kept = answers.traced(result.trace[0], config, result.tokens[0], word)
  return {
    "task": "qa",
    "question": question,
    "turn": 0,
    "tree": tree,
    "proposal": "without_replacement",
    "verifier": "traversal",
    "temperature": 1.0,
    "seed": 0,
    "prompt": PROMPT,
    "cycles": kept,
  }


def expected_length(cycle, rule):
  """Tokens that the rule gains from this draft on average, with the bonus."""
  tree = Tree(tuple(cycle["parents"]))
  return float(np.array(cycle["stop"][rule]) @ (tree.depth + 1))
