"""Makes drafts for a target, and scores drafts."""

from tv_jax.distill.distilling import Training, distill
from tv_jax.distill.scoring import Scores, score
from tv_jax.distill.text import Conversation, Writing, read, write

__all__ = [
  "Conversation",
  "Scores",
  "Training",
  "Writing",
  "distill",
  "read",
  "score",
  "write",
]
