"""What a run asks: its questions, and the methods that are to answer them."""

import itertools
import zlib

from tv_jax import proposals, verifiers
from tv_jax import tree as tree_lib
from tv_jax.runs import questions as questions_lib
from tv_jax.runs.questions import Question
from tv_jax.runs.records import ALL, AXES, NONE, PLAIN, Method
from tv_jax.runs.settings import Run

# A question's turns draw from keys of their own: 32 bits hold both numbers.
TURNS = 16
IDS = 2**32 // TURNS


def read_questions(settings: Run) -> tuple[Question, ...]:
  """The questions that are asked."""
  kind, colon, path = settings.questions.partition(":")
  if kind == "spec_bench" and colon:
    found = questions_lib.load_spec_bench(path)
  else:
    found = questions_lib.load_questions(settings.questions)
  found = questions_lib.select(found, settings.tasks)
  found = questions_lib.limit(found, per_task=settings.per_task or None)
  if faults := [*_wrong_questions(found)]:
    raise ValueError(f"{settings.questions}: {'; '.join(faults[:3])}")
  return found


def _wrong_questions(found):
  """What no answer can be kept of, or drawn for with keys of its own."""
  for task in dict.fromkeys(question.task for question in found):
    if task == ALL:
      yield f"category {task!r} is what tables call all of them: rename it"
    elif not task.isprintable():
      yield f"category {task!r} holds what cannot be printed: rename it"
  for question in found:
    name, turns = question.question_id, len(question.turns)
    if isinstance(name, str):
      if not name.isprintable():
        yield f"question_id {name!r} holds what cannot be printed: rename it"
    elif not 0 <= name < IDS:
      yield f"question_id {name} must be 0 or more, and below {IDS}: renumber"
    if turns > TURNS:
      yield f"question {name} has {turns} turns: {TURNS} at most can be asked"


def number(question: int | str, turn: int) -> int:
  """What the draws of a turn are made from; a name's are from its checksum."""
  if isinstance(question, str):
    question = zlib.crc32(question.encode()) % IDS
  return question * TURNS + turn


def grid(settings: Run) -> list[Method]:
  """All methods; those that share a program stand together."""
  places = [(NONE, NONE, PLAIN)] if settings.plain else []
  places += [
    (tree, proposal, rule)
    for tree, proposal in itertools.product(settings.trees, settings.proposals)
    for rule in rules_on(settings, tree, proposal)
  ]
  drafted = ("tree", "proposal", "verifier")
  # A config names an axis in the plural.
  others = [name for name in AXES if name not in drafted]
  values = [getattr(settings, f"{name}s") for name in others]
  return [
    Method(**dict(zip((*drafted, *others), (*place, *point), strict=True)))
    for place, point in itertools.product(places, itertools.product(*values))
  ]


def options(settings: Run, method: Method) -> dict:
  """What `generate` is to do; batch size, panel and trace aside."""
  own = {**vars(method)}
  if method.plain:
    del own["tree"], own["proposal"]
    own["verifier"] = None
  else:
    own["among"] = rules_on(settings, method.tree, method.proposal)
  return {
    "draft_temperature": settings.draft_temperature or None,
    "top_k": settings.top_k,
    "top_p": settings.top_p,
    "max_new_tokens": settings.max_new_tokens,
  } | own


def rules_on(settings: Run, tree: str, proposal: str) -> tuple[str, ...]:
  """The verifiers that are defined on a tree and for a proposal."""
  return tuple(
    name for name in settings.verifiers if not misfit(name, tree, proposal)
  )


def misfit(name: str, tree: str, proposal: str) -> str | None:
  """Why a rule is not defined for a tree and a proposal; None: it is."""
  return verifiers.misfit(
    verifiers.resolve(name), tree_lib.parse(tree), proposals.resolve(proposal)
  )
