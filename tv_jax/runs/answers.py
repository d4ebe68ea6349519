"""The answers of one method, in the order of the questions.

How many rows there are and what prompts are padded to depend on the settings
and on all questions, also those whose answers are there. What an answer is does
not depend on its row, nor on the other rows: what a crash left over comes out
as it would have. Of answers that wait for one before, a crash loses them.
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import numpy as np

from tv_jax import engine
from tv_jax.engine import batches
from tv_jax.engine.pair import Pair
from tv_jax.engine.plan import Records
from tv_jax.engine.trace import Trace
from tv_jax.models import Model, templates
from tv_jax.proposals import INVALID
from tv_jax.runs import asking, store
from tv_jax.runs import questions as questions_lib
from tv_jax.runs.questions import Question
from tv_jax.runs.records import Answer, Key, Method
from tv_jax.runs.settings import Run
from tv_jax.tree import Tree, placed


class Asked(NamedTuple):
  """One turn of a question, with all that came before; or why it is not."""

  key: Key
  question: Question
  tokens: Sequence[int] = ()  # the prompt
  limit: int = 0  # new tokens at most
  error: str | None = None


def encode(
  pair: Pair, settings: Run, turns: Sequence[str]
) -> tuple[list[int], int]:
  """Returns a conversation as tokens, and how many more there may be.

  Raises:
    ValueError: It cannot be asked, or there is no room for an answer.
  """
  tokens = templates.encode(settings.models.template, pair.tokenizer, turns)
  # What a head's config.json says of this is no limit of its rotations.
  models = [one for one in (pair.target, pair.draft) if isinstance(one, Model)]
  most = min(model.config.max_position_embeddings for model in models)
  most = min(most, settings.max_tokens or most)
  if len(tokens) >= most:
    raise ValueError(
      f"a prompt of {len(tokens)} tokens leaves no room for an answer in {most}"
    )
  batches.encode(pair, [tokens], "raw", 1)
  return tokens, min(settings.max_new_tokens, most - len(tokens))


class Answerer:
  """Asks questions by one method after another."""

  def __init__(
    self,
    pair: Pair,
    settings: Run,
    questions: Sequence[Question],
    results: store.Store,
    advance: Callable[[], None],
    ahead: engine.Ahead,
  ):
    """Prepares to ask; nothing is asked yet.

    Args:
      pair: The models.
      settings: The run's.
      questions: What is asked.
      results: Where answers are kept.
      advance: Called after each.
      ahead: What compiles for methods to come.
    """
    self.pair, self.settings, self.results = pair, settings, results
    self.questions, self.advance = questions, advance
    self.ahead = ahead
    self.rows = engine.Rows(pair, settings.batch_size)
    self.piece = pieces(pair.tokenizer)
    shown = ()
    if settings.explorer.per_task:
      shown = questions_lib.limit(
        questions, per_task=settings.explorer.per_task
      )
    self.shown = {question.question_id for question in shown}

  def expect(self, methods: Sequence[Method]) -> None:
    """Tells what compiles ahead of the first turns that are to be decoded."""
    # A first turn is the same prompt whatever the method.
    rows = [self.ask(*one) for one in self.turn(methods[0], 0).items()]
    waiting = [
      method
      for method in methods
      if any(
        row.tokens and row.key._replace(method=method) not in self.results
        for row in rows
      )
    ]
    hows = [self.how(method) for method in waiting]
    self.ahead.expect(hows, self.settings.batch_size, self.longest(rows))

  def __call__(self, method: Method) -> None:
    """Answers what is not answered yet, turn by turn."""
    how = self.how(method)
    for turn in range(max(len(q.turns) for q in self.questions)):
      asked = self.turn(method, turn)
      if all(key in self.results for key in asked):
        continue
      rows = [self.ask(key, question) for key, question in asked.items()]
      self.answer_all(how, rows)

  def turn(self, method: Method, turn: int) -> dict[Key, Question]:
    """Returns the questions that have such a turn."""
    return {
      Key(question.task, question.question_id, turn, method): question
      for question in self.questions
      if turn < len(question.turns)
    }

  def longest(self, rows: Sequence[Asked]) -> int:
    """Returns what all batches of a turn are padded to."""
    longest = max(len(row.tokens) for row in rows)
    return max(longest, self.settings.padded_to, 1)

  def how(self, method: Method) -> engine.Settings:
    """Returns how to decode."""
    options = asking.options(self.settings, method)
    if not method.plain:
      options["panel"] = (self.settings.baseline,)
      options["trace"] = self.settings.explorer.cycles if self.shown else 0
    return engine.resolve(
      self.pair, batch_size=self.settings.batch_size, **options
    )

  def ask(self, key: Key, question: Question) -> Asked:
    """Returns a turn as a prompt, or why there is none."""
    before = [
      self.results[key._replace(turn=earlier)] for earlier in range(key.turn)
    ]
    if any(answer.error is not None for answer in before):
      return Asked(key, question, error="an earlier turn failed")
    turns = questions_lib.conversation(
      question, [answer.text for answer in before]
    )
    try:
      return Asked(key, question, *encode(self.pair, self.settings, turns))
    except ValueError as error:
      return Asked(key, question, error=" ".join(str(error).split()))

  def answer_all(self, how, asked: Sequence[Asked]) -> None:
    """Puts those answers of a turn into the store that are not there."""
    missing = [row for row in asked if row.key not in self.results]
    decoded = iter(())
    waiting = [row for row in missing if row.tokens]
    if waiting:
      longest = self.longest(asked)
      self.ahead.reach(how, self.settings.batch_size, longest)
      prompts = [
        engine.Prompt(
          row.tokens, asking.number(row.key.question, row.key.turn), row.limit
        )
        for row in waiting
      ]
      decoded = self.rows.decode(how, prompts, longest)
    for row in missing:
      records = next(decoded) if row.tokens else None
      self.results.append(self.answer(how, row, records))
      self.advance()
    # There is nothing more; what it holds can be used again.
    next(decoded, None)

  def answer(self, how, asked: Asked, records) -> Answer:
    """Returns an answer, or the error in its place."""
    key, question = asked.key, asked.question
    if asked.error:
      return Answer(**key._asdict(), error=asked.error)
    found = line(records, 0, how, self.pair.tokenizer)
    if self.settings.exact_match and key.turn < len(question.references):
      known = question.references[key.turn]
      found["right"] = any(
        questions_lib.score(found["text"], one) for one in known
      )
    if how.plan.trace and key.turn == 0 and key.question in self.shown:
      found["prompt"] = question.turns[0]
      found["trace"] = traced(
        engine.trace_of(records, 0), how, found["tokens"], self.piece
      )
    return Answer(**key._asdict(), **found)


def line(records: Records, row: int, how: engine.Settings, tokenizer) -> dict:
  """Returns what is kept of an answer: from it, every table is made."""
  cycles = int(records.cycles[row])
  tokens = records.tokens[row, : int(records.kept[row])].tolist()
  drafted = {"drafted": records.drafted[row, :cycles].tolist()}
  return {
    "tokens": tokens,
    "text": tokenizer.decode(tokens, skip_special_tokens=True),
    "accepted": records.accepted[row, :cycles].tolist(),
    **(drafted if how.plan.speculation else {}),
    "expected": {
      rule.name: _numbers(records.expected[rule.name][row, :cycles])
      for rule in how.plan.panel
    },
    "stops": records.stops[row].tolist(),
    "faults": int(records.faults[row]),
  }


def pieces(tokenizer) -> Callable[[int], str]:
  """Returns what single tokens look like inside a text."""
  # A piece shows its leading space only after another one.
  before = tokenizer("a", add_special_tokens=False).input_ids

  @functools.cache
  def piece(token):
    text = tokenizer.decode([*before, token])
    return text[len(tokenizer.decode(before)) :]

  return piece


def traced(
  trace: Trace,  # its arrays, [cycles, N]
  how: engine.Settings,
  tokens: list[int],
  piece: Callable[[int], str],
) -> list[dict]:
  """Returns the trees of an answer's first cycles, for somebody to look at."""
  assert how.plan.speculation is not None
  tree = how.plan.speculation.tree
  directions = {
    rule.name: rule.walk if isinstance(rule.walk, str) else ""
    for rule in how.rules
  }
  cycles, end = [], 0
  for i, node in enumerate(trace.node.tolist()):
    end += int(tree.depth[node]) + 1
    own = jax.tree.map(lambda array, i=i: array[i], trace)
    if isinstance(tree, Tree):
      parents = tree.parents
    else:  # without the places where nothing is
      parents, places = placed(own.parent)
      node = int(np.searchsorted(places, node))
      own = jax.tree.map(lambda x, at=places: x[at] if x.ndim else x, own)
    drawn = own.tokens.tolist()
    # The root was not drawn here.
    missing = np.array([True, *(token == INVALID for token in drawn[1:])])
    laws = {
      name: _numbers(np.where(missing, np.nan, getattr(own, name)))
      for name in ("p", "q", "drawn")
    }
    cycles.append(
      {
        "cycle": i,
        "parents": [*parents],
        "pieces": [None if t == INVALID else piece(t) for t in drawn],
        **laws,
        "coins": _numbers(own.coins),
        "stop": {name: _numbers(law) for name, law in own.stop.items()},
        "direction": {name: directions[name] for name in trace.stop},
        "node": node,
        # Where the end or the limit cut, the bonus was not kept.
        "bonus": piece(tokens[end - 1]) if end <= len(tokens) else None,
      }
    )
  return cycles


def _numbers(values) -> list[float | None]:
  """As few digits as give the same float32 again; None for a NaN."""
  values = np.asarray(values, np.float32)
  return [float(str(x)) if np.isfinite(x) else None for x in values]
