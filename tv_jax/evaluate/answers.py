"""The answers of one cell: batch after batch, each line on disk at once.

A question's row in its batch, the batch's size and the padded length depend on
the questions and the settings alone. What a crash left over is decoded in its
old place, with padding where answers are there already: a row does not depend
on its neighbours, so that every line comes out as it would have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tv_jax import generation, prompts, store
from tv_jax.evaluate import cells, lines
from tv_jax.evaluate.cells import Cell
from tv_jax.evaluate.selecting import TURNS
from tv_jax.evaluate.settings import Settings, rules_on
from tv_jax.generation import batches
from tv_jax.pair import Pair
from tv_jax.prompts import Question


class Asked(NamedTuple):
  """One turn of a question, with all that came before."""

  question: Question
  tokens: list[int]  # the prompt; empty where there is none
  text: str  # what the user says
  limit: int  # new tokens at most
  error: str | None


class Answerer:
  """Asks questions in one cell after another."""

  def __init__(
    self,
    pair: Pair,
    settings: Settings,
    questions: Sequence[Question],
    results: store.Store,
    advance: Callable[[int], None],
  ):
    """Nothing is asked yet; `advance` is told of finished items."""
    self.pair, self.settings, self.results = pair, settings, results
    self.questions, self.advance = questions, advance
    self.caches = None
    self.pieces = lines.Pieces(pair.tokenizer)
    shown, self.shown = {}, set()
    for question in questions:
      seen = shown.setdefault(question.task, [])
      if len(seen) < settings.explorer.per_task:
        seen.append(question)
        self.shown.add(question.question_id)

  def __call__(self, cell: Cell) -> None:
    """Answers what is not answered yet, turn by turn."""
    how = self.how(cell)
    for turn in range(max(len(q.turns) for q in self.questions)):
      asked = [q for q in self.questions if turn < len(q.turns)]
      if all(self.key(cell, q, turn) in self.results for q in asked):
        continue
      rows = [self.ask(cell, question, turn) for question in asked]
      longest = max(len(row.tokens) for row in rows)
      longest = max(longest, self.settings.padded_to, 1)
      size = self.settings.batch_size
      for i in range(0, len(rows), size):
        self.batch(cell, how, turn, rows[i : i + size], longest)

  def how(self, cell: Cell) -> generation.Settings:
    """How to decode in a cell."""
    options = cell.options(self.settings)
    if cell.verifier != cells.PLAIN:
      rules = rules_on(self.settings, cell.tree, cell.proposal)
      options |= {
        "among": rules,
        "panel": (self.settings.baseline,),
        "trace": self.settings.explorer.cycles if self.shown else 0,
      }
    return generation.resolve(
      self.pair, batch_size=self.settings.batch_size, **options
    )

  def key(self, cell: Cell, question: Question, turn: int) -> tuple:
    """The answer's key in the store."""
    return store.key(cell.key(question.task, question.question_id, turn))

  def ask(self, cell: Cell, question: Question, turn: int) -> Asked:
    """A turn as a prompt, or why there is none."""
    before = [
      self.results.get(self.key(cell, question, earlier))
      for earlier in range(turn)
    ]
    text = question.turns[turn]
    if any("error" in answer for answer in before):
      return Asked(question, [], text, 0, "an earlier turn failed")
    turns = prompts.conversation(
      question, [answer["text"] for answer in before]
    )
    try:
      template = self.settings.models.template
      tokens = prompts.encode(template, self.pair.tokenizer, turns)
      room = positions(self.pair, self.settings) - len(tokens)
      if room < 1:
        raise ValueError(
          f"a prompt of {len(tokens)} tokens leaves no room for an answer in"
          f" {room + len(tokens)}"
        )
      batches.encode(self.pair, [tokens], "raw", 1)
    except ValueError as error:
      return Asked(question, [], text, 0, " ".join(str(error).split()))
    limit = min(self.settings.max_new_tokens, room)
    return Asked(question, tokens, text, limit, None)

  def batch(self, cell, how, turn, rows: list[Asked], longest: int) -> None:
    """Decodes those of a batch's rows that are not in the store."""
    left = [
      self.key(cell, row.question, turn) not in self.results for row in rows
    ]
    if not any(left):
      return
    records = None
    if any(row.tokens for row, new in zip(rows, left, strict=True) if new):
      records = self.decode(how, turn, rows, left, longest)
    for i, (row, new) in enumerate(zip(rows, left, strict=True)):
      if new:
        self.keep(cell, how, turn, row, records, i)
        self.advance(1)

  def decode(self, how, turn, rows: list[Asked], left, longest: int):
    """A batch's records; what is not `left` to be decoded is padding."""
    batch = batches.assemble(
      self.pair,
      how,
      [row.tokens if new else [] for row, new in zip(rows, left, strict=True)],
      [row.question.question_id * TURNS + turn for row in rows],
      self.settings.batch_size,
      longest,
      [row.limit for row in rows],
    )
    self.caches = batches.caches(self.pair, batch, self.caches)
    # What is donated is gone if the program fails.
    caches, self.caches = self.caches, None
    records, self.caches, _ = generation.decode(how, batch, caches)
    return records

  def keep(self, cell, how, turn, asked: Asked, records, row: int) -> None:
    """Writes an answer, or the error in its place."""
    question = asked.question
    result = cell.key(question.task, question.question_id, turn)
    if asked.error:
      self.results.append(result | {"error": asked.error})
      return
    answer = lines.line(records, row, how, self.pair.tokenizer)
    result |= answer | {"right": self.right(question, turn, answer["text"])}
    if how.plan.trace and turn == 0 and question.question_id in self.shown:
      result["prompt"] = asked.text
      result["trace"] = lines.traced(
        generation.trace_of(records, row),
        how,
        answer["tokens"],
        self.pieces,
      )
    self.results.append(result)

  def right(self, question: Question, turn: int, text: str) -> bool | None:
    """Whether an answer is the reference; None if there is none."""
    if not self.settings.exact_match or turn >= len(question.references):
      return None
    return any(prompts.score(text, one) for one in question.references[turn])


def positions(pair: Pair, settings: Settings) -> int:
  """Tokens that a prompt and its answer may have together."""
  models = [pair.target, pair.draft]
  least = min(model.config.max_position_embeddings for model in models)
  return min(least, settings.max_tokens or least)
