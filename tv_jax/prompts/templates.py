"""Tokenizers, chat templates, and the tokens that end an answer.

A conversation is a list of turns: the user's, the assistant's, the user's,
and so on, the user's last.
"""

import json
import pathlib
from collections.abc import Sequence

from tv_jax.prompts.library import import_transformers

# What Vicuna v1.1 to v1.5 were trained with.
VICUNA_SYSTEM = (
  "A chat between a curious user and an artificial intelligence assistant. "
  "The assistant gives helpful, detailed, and polite answers to the user's "
  "questions."
)

# Some templates print today's date: then no run could be repeated.
DATE = "26 Jul 2024"


def raw(tokenizer, turns: Sequence[str]) -> list[int]:
  """The turns alone, each on its own line."""
  return tokenizer("\n".join(turns)).input_ids


def vicuna(tokenizer, turns: Sequence[str]) -> list[int]:
  """Vicuna's own template; earlier answers end in its end token."""
  text = f"{VICUNA_SYSTEM} "
  for i, turn in enumerate(turns):
    text += f" ASSISTANT: {turn}</s>" if i % 2 else f"USER: {turn}"
  return tokenizer(f"{text} ASSISTANT:").input_ids


def chat(tokenizer, turns: Sequence[str]) -> list[int]:
  """The tokenizer's own template, which writes its own first token."""
  if not tokenizer.chat_template:
    raise ValueError(
      f"{tokenizer.name_or_path} has no chat template: use one of "
      f"{', '.join(name for name in TEMPLATES if name != 'chat')}"
    )
  roles = ("user", "assistant")
  text = tokenizer.apply_chat_template(
    [{"role": roles[i % 2], "content": t} for i, t in enumerate(turns)],
    tokenize=False,
    add_generation_prompt=True,
    date_string=DATE,
  )
  return tokenizer(text, add_special_tokens=False).input_ids


TEMPLATES = {"raw": raw, "vicuna": vicuna, "chat": chat}


def encode(template: str, tokenizer, turns: Sequence[str]) -> list[int]:
  """A conversation as tokens, up to where the next answer begins.

  Args:
    template: One of TEMPLATES.
    tokenizer: Of `load_tokenizer`.
    turns: The conversation, an odd number of turns.

  Returns:
    Token ids.
  """
  if template not in TEMPLATES:
    raise ValueError(
      f"template {template!r} is not one of {', '.join(TEMPLATES)}"
    )
  if len(turns) % 2 == 0:
    raise ValueError(
      f"a conversation of {len(turns)} turns does not end with the user's"
    )
  return TEMPLATES[template](tokenizer, turns)


def load_tokenizer(path_or_repo, revision: str | None = None):
  """A checkpoint's tokenizer."""
  transformers = import_transformers()
  try:
    return transformers.AutoTokenizer.from_pretrained(
      path_or_repo, revision=revision or "main"
    )
  except (OSError, ValueError) as error:
    raise ValueError(
      f"no tokenizer could be loaded from {path_or_repo}: "
      + " ".join(str(error).split())
    ) from None


def end_tokens(path_or_repo, revision: str | None = None) -> tuple[int, ...]:
  """The tokens that end an answer, all of them.

  Instruction-tuned models have several, and list them in
  generation_config.json alone; without that file, config.json's count.
  """
  cached_file = import_transformers().utils.cached_file
  for name in ("generation_config.json", "config.json"):
    try:
      path = cached_file(
        path_or_repo,
        name,
        revision=revision,
        _raise_exceptions_for_missing_entries=False,
      )
    except OSError as error:
      raise ValueError(
        f"{name} of {path_or_repo} could not be had: "
        + " ".join(str(error).split())
      ) from None
    ends = json.loads(pathlib.Path(path).read_text()) if path else {}
    ends = ends.get("eos_token_id")
    if ends is not None:
      return tuple(ends) if isinstance(ends, list) else (ends,)
  raise ValueError(
    f"{path_or_repo} names no eos_token_id in generation_config.json or "
    "config.json: nothing would end an answer"
  )
