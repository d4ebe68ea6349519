"""Conversations with answers that can be scored."""

import dataclasses
import hashlib


@dataclasses.dataclass(frozen=True, kw_only=True)
class Conversation:
  """A conversation with its answers.

  Attributes:
    category: The task or, for dialogues, MT-Bench's category, as in Spec-Bench.
    turns: The user's turns.
    answers: One possible answer to each turn.
    references: The correct result in the last line of each answer.
    facts: The content of the conversation, whatever its phrasing. Held-out
      conversations share no facts with training conversations.
  """

  category: str
  turns: tuple[str, ...]
  answers: tuple[str, ...]
  references: tuple[str, ...]
  facts: str


# One conversation in HELD_OUT is held out.
HELD_OUT = 16


def held_out(conversation: Conversation) -> bool:
  """Returns whether MiniBench holds it out, by a hash of its facts alone."""
  text = f"{conversation.category}: {conversation.facts}"
  digest = hashlib.sha256(text.encode()).digest()
  return digest[0] % HELD_OUT == 0


def single(
  category: str, turn: str, answer: str, label: str, reference: str, facts: str
) -> Conversation:
  """Makes a one-turn conversation with an answer that ends in a scored line."""
  return Conversation(
    category=category,
    turns=(turn,),
    answers=(f"{answer}\n{label}: {reference}",),
    references=(reference,),
    facts=facts,
  )
