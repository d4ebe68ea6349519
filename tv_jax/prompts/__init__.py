"""Prompts: questions, tokenizers, templates, the tokens that end an answer."""

from tv_jax.prompts import stops
from tv_jax.prompts.questions import (
  MT_BENCH,
  OTHERS,
  SPEC_BENCH,
  Question,
  conversation,
  limit,
  load_questions,
  load_spec_bench,
  score,
  select,
)
from tv_jax.prompts.templates import (
  DATE,
  TEMPLATES,
  VICUNA_SYSTEM,
  encode,
  encode_messages,
)
from tv_jax.prompts.tokenizers import end_tokens, load_tokenizer
from tv_jax.prompts.vocabularies import check_tokens
from tv_jax.reading import BUNDLED

__all__ = [
  "BUNDLED",
  "DATE",
  "MT_BENCH",
  "OTHERS",
  "SPEC_BENCH",
  "TEMPLATES",
  "VICUNA_SYSTEM",
  "Question",
  "check_tokens",
  "conversation",
  "encode",
  "encode_messages",
  "end_tokens",
  "limit",
  "load_questions",
  "load_spec_bench",
  "load_tokenizer",
  "score",
  "select",
  "stops",
]
