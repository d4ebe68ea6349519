"""Turns conversations into tokens.

A conversation is a list of turns, of the user and the assistant in alternation.
The first and the last turn are the user's.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tv_jax.io.errors import UserError
from tv_jax.io.reading import brief

# Some templates print today's date. A fixed date makes runs repeatable.
DATE = "26 Jul 2024"

# The option's name in Qwen3's template.
THINKING = "enable_thinking"

# The system prompt in the training of Vicuna v1.1 to v1.5.
VICUNA_SYSTEM = (
  "A chat between a curious user and an artificial intelligence assistant. "
  "The assistant gives helpful, detailed, and polite answers to the user's "
  "questions."
)

# The options that use the tokenizer's template.
CHAT = ("chat", "without_thinking")
TEMPLATES = ("raw", "vicuna", *CHAT)


def encode(template: str, tokenizer, turns: Sequence[str]) -> list[int]:
  """Encodes a conversation, up to the start of the next answer.

  Args:
    template: "raw" joins the turns with newlines. "vicuna" is Vicuna's
      template, which ends earlier answers with the end token. "chat" is the
      tokenizer's template, and "without_thinking" also turns thinking off.
    tokenizer: The tokenizer.
    turns: The conversation.
  """
  if template == "raw":
    return _tokens(tokenizer, "\n".join(turns))
  if template == "vicuna":
    text = f"{VICUNA_SYSTEM} "
    for i, turn in enumerate(turns):
      text += f" ASSISTANT: {turn}</s>" if i % 2 else f"USER: {turn}"
    return _tokens(tokenizer, f"{text} ASSISTANT:")
  roles = ("user", "assistant")
  messages = [
    {"role": roles[i % 2], "content": turn} for i, turn in enumerate(turns)
  ]
  return encode_messages(tokenizer, messages, template)


def encode_messages(
  tokenizer, messages: Sequence[Mapping], template: str = "chat"
) -> list[int]:
  """Encodes messages with the tokenizer's template.

  Args:
    tokenizer: The tokenizer.
    messages: Messages {"role": .., "content": ..}; the first may be "system".
    template: One of `CHAT`.

  Returns:
    The tokens, up to the start of the next answer.
  """
  if template not in CHAT:
    raise UserError(
      f"template {brief(template)} is not one of {', '.join(TEMPLATES)}; for"
      f" messages give {' or '.join(CHAT)}"
    )
  for message in messages:
    if not isinstance(message, Mapping) or not all(
      isinstance(message.get(name), str) for name in ("role", "content")
    ):
      raise UserError(
        f'a message is {{"role": .., "content": ..}}, two texts, not'
        f" {brief(message)}"
      )
  if messages[-1]["role"] == "assistant":
    raise UserError(
      "the last message is the assistant's: there is nothing to answer"
    )
  options = {}
  if template == "without_thinking":
    if THINKING not in str(tokenizer.chat_template):
      raise UserError(
        f"{tokenizer.name_or_path} has no chat template that knows {THINKING}:"
        ' give "chat"'
      )
    options[THINKING] = False
  text = _apply(tokenizer, [*map(dict, messages)], **options)
  return _tokens(tokenizer, text, add_special_tokens=False)


def encode_prompts(
  template: str, tokenizer: Callable[[], Any], prompts
) -> list:
  """Encodes prompts: texts, conversations of messages, and token ids.

  Args:
    template: As in `encode`. Messages with "raw" are encoded with "chat".
    tokenizer: Function that returns the tokenizer.
    prompts: A list of prompts, or a single text or conversation.

  Returns:
    The token ids of each prompt. Given ids are not checked.
  """
  if isinstance(prompts, Mapping):
    raise UserError(f"prompts={brief(prompts)}: give a list of messages")
  if isinstance(prompts, str) or _is_messages(prompts):
    prompts = [prompts]
  encoded, chat = [], "chat" if template == "raw" else template
  for prompt in prompts:
    if isinstance(prompt, str):
      prompt = encode(template, tokenizer(), [prompt])
    elif _is_messages(prompt):
      prompt = encode_messages(tokenizer(), prompt, chat)
    encoded.append(prompt)
  return encoded


def _is_messages(prompt) -> bool:
  return isinstance(prompt, list | tuple) and any(
    isinstance(message, Mapping) for message in prompt
  )


def before_user(tokenizer) -> list[int]:
  """Returns the tokens before a user's turn in the tokenizer's template.

  From these tokens, a model trained with the template continues as a user.
  """
  word = "Hello"
  if tokenizer.chat_template:
    text = _apply(tokenizer, [{"role": "user", "content": word}])
    head = text.rpartition(word)[0]  # the last, as a system prompt may greet
    if head.strip():
      return _tokens(tokenizer, head, add_special_tokens=False)
  raise UserError(
    f"{tokenizer.name_or_path} has no chat template that begins a user's turn,"
    " so the target cannot ask itself: give prompts"
  )


def _apply(tokenizer, messages: list[dict[str, str]], **options) -> str:
  """Returns the text of messages in the tokenizer's template."""
  if not tokenizer.chat_template:
    raise UserError(
      f"{tokenizer.name_or_path} has no chat template: use one of raw, vicuna"
    )
  try:
    return tokenizer.apply_chat_template(
      messages,
      tokenize=False,
      add_generation_prompt=True,
      date_string=DATE,
      **options,
    )
  except Exception as error:  # a template can raise any error
    raise UserError(
      f"the chat template of {tokenizer.name_or_path} fails"
      f" ({type(error).__name__}: {brief(str(error))}): mend it, or use another"
    ) from None


def _tokens(tokenizer, text: str, **options) -> list[int]:
  text.encode()  # ValueError for half a character, as in cut texts
  return tokenizer(text, **options).input_ids
