"""What a task yields: a conversation whose answers can be scored."""

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
  """Whether it belongs to MiniBench's side, by a hash of its facts alone."""
  text = f"{conversation.category}: {conversation.facts}"
  digest = hashlib.sha256(text.encode()).digest()
  return digest[0] % HELD_OUT == 0


def last_line(answer: str) -> str:
  """The part of an answer that is scored.

  Its last line that is not empty, without its label (`Answer: `), without
  case, and without the punctuation around it.
  """
  lines = [line for line in answer.splitlines() if line.strip()]
  if not lines:
    return ""
  text = lines[-1].rsplit(": ", 1)[-1]
  return " ".join(text.lower().split()).strip(" .!?\"'")


def score(answer: str, reference: str) -> bool:
  """Whether an answer's last line is the reference: exact match."""
  return last_line(answer) == last_line(reference)
