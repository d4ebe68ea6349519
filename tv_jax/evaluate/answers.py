"""The answers of one method: batch after batch, each line on disk at once.

A question's row in its batch, the batch's size and the padded length depend on
the questions and the settings alone. What a crash left over is decoded in its
old place, with padding where answers are there already: a row does not depend
on its neighbours, so that every line comes out as it would have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from tv_jax import generation, prompts, store
from tv_jax.evaluate import lines, methods
from tv_jax.evaluate.selecting import TURNS
from tv_jax.evaluate.settings import Run
from tv_jax.generation import batches
from tv_jax.pair import Pair
from tv_jax.prompts import Question
from tv_jax.records import Answer, Key, Method


class Asked(NamedTuple):
  """One turn of a question, with all that came before."""

  key: Key
  question: Question
  tokens: list[int]  # the prompt; empty where there is none
  text: str  # what the user says
  limit: int  # new tokens at most
  error: str | None


class Answerer:
  """Asks questions by one method after another."""

  def __init__(
    self,
    pair: Pair,
    settings: Run,
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

  def __call__(self, method: Method) -> None:
    """Answers what is not answered yet, turn by turn."""
    how = self.how(method)
    for turn in range(max(len(q.turns) for q in self.questions)):
      asked = {
        Key(question.task, question.question_id, turn, method): question
        for question in self.questions
        if turn < len(question.turns)
      }
      if all(key in self.results for key in asked):
        continue
      rows = [self.ask(key, question) for key, question in asked.items()]
      longest = max(len(row.tokens) for row in rows)
      longest = max(longest, self.settings.padded_to, 1)
      size = self.settings.batch_size
      for i in range(0, len(rows), size):
        self.batch(how, rows[i : i + size], longest)

  def how(self, method: Method) -> generation.Settings:
    """How to decode."""
    options = methods.options(self.settings, method)
    if not method.plain:
      options["panel"] = (self.settings.baseline,)
      options["trace"] = self.settings.explorer.cycles if self.shown else 0
    return generation.resolve(
      self.pair, batch_size=self.settings.batch_size, **options
    )

  def ask(self, key: Key, question: Question) -> Asked:
    """A turn as a prompt, or why there is none."""
    before = [
      self.results.get(key._replace(turn=earlier))
      for earlier in range(key.turn)
    ]
    text = question.turns[key.turn]
    if any(answer.error is not None for answer in before):
      return Asked(key, question, [], text, 0, "an earlier turn failed")
    turns = prompts.conversation(question, [answer.text for answer in before])
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
      told = " ".join(str(error).split())
      return Asked(key, question, [], text, 0, told)
    limit = min(self.settings.max_new_tokens, room)
    return Asked(key, question, tokens, text, limit, None)

  def batch(self, how, rows: list[Asked], longest: int) -> None:
    """Decodes those of a batch's rows that are not in the store."""
    left = [row.key not in self.results for row in rows]
    if not any(left):
      return
    records = None
    if any(row.tokens for row, new in zip(rows, left, strict=True) if new):
      records = self.decode(how, rows, left, longest)
    for i, (row, new) in enumerate(zip(rows, left, strict=True)):
      if new:
        self.results.append(self.answer(how, row, records, i))
        self.advance(1)

  def decode(self, how, rows: list[Asked], left, longest: int):
    """A batch's records; what is not `left` to be decoded is padding."""
    batch = batches.assemble(
      self.pair,
      how,
      [row.tokens if new else [] for row, new in zip(rows, left, strict=True)],
      [row.key.question * TURNS + row.key.turn for row in rows],
      self.settings.batch_size,
      longest,
      [row.limit for row in rows],
    )
    self.caches = batches.caches(self.pair, batch, self.caches)
    # What is donated is gone if the program fails.
    caches, self.caches = self.caches, None
    records, self.caches, _ = generation.decode(how, batch, caches)
    return records

  def answer(self, how, asked: Asked, records, row: int) -> Answer:
    """An answer, or the error in its place."""
    key = asked.key
    if asked.error:
      return Answer(**key._asdict(), error=asked.error)
    found = lines.line(records, row, how, self.pair.tokenizer)
    found["right"] = self.right(asked.question, key.turn, found["text"])
    if how.plan.trace and key.turn == 0 and key.question in self.shown:
      found["prompt"] = asked.text
      found["trace"] = lines.traced(
        generation.trace_of(records, row), how, found["tokens"], self.pieces
      )
    return Answer(**key._asdict(), **found)

  def right(self, question: Question, turn: int, text: str) -> bool | None:
    """Whether an answer is the reference; None if there is none."""
    if not self.settings.exact_match or turn >= len(question.references):
      return None
    return any(prompts.score(text, one) for one in question.references[turn])


def positions(pair: Pair, settings: Run) -> int:
  """Tokens that a prompt and its answer may have together."""
  models = [pair.target, pair.draft]
  least = min(model.config.max_position_embeddings for model in models)
  return min(least, settings.max_tokens or least)
