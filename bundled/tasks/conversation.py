"""What a task makes: a conversation whose answers can be scored."""

import dataclasses
import hashlib


@dataclasses.dataclass(frozen=True, kw_only=True)
class Conversation:
  """One exchange with its answers.

  Attributes:
    category: As in Spec-Bench: its task, or one of MT-Bench's categories.
    turns: What the user says.
    answers: One possible answer to each turn.
    references: What the last line of each answer must come to.
    facts: What the conversation is about, whatever its phrasing. Held-out
      conversations share theirs with none that is trained on.
  """

  category: str
  turns: tuple[str, ...]
  answers: tuple[str, ...]
  references: tuple[str, ...]
  facts: str


# One conversation in so many is held out.
HELD_OUT = 16


def held_out(conversation: Conversation) -> bool:
  """Says whether it is held out for MiniBench, by a hash of its facts alone."""
  text = f"{conversation.category}: {conversation.facts}"
  digest = hashlib.sha256(text.encode()).digest()
  return digest[0] % HELD_OUT == 0


def single(
  category: str, turn: str, answer: str, label: str, reference: str, facts: str
) -> Conversation:
  """Makes a conversation of one turn, whose answer ends in a scored line."""
  return Conversation(
    category=category,
    turns=(turn,),
    answers=(f"{answer}\n{label}: {reference}",),
    references=(reference,),
    facts=facts,
  )
