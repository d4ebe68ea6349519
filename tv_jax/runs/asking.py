"""Asks the questions by one method after another, in their order.

Batch size and padding depend on the settings and on all questions, answered or
not, and rows are independent. So after a crash the missing answers are the same
as without it. A crash also loses finished answers that wait for an earlier,
unfinished answer.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tv_jax import replay
from tv_jax.engine.config import DecodeConfig
from tv_jax.engine.decode import Batch, Prompt, decode
from tv_jax.engine.generate import encode_prompts
from tv_jax.engine.pair import Pair
from tv_jax.engine.state import Continuation
from tv_jax.io.errors import UserError
from tv_jax.models import templates
from tv_jax.proposals import INVALID
from tv_jax.replay import Cycles, Recording
from tv_jax.runs import questions as questions_lib
from tv_jax.runs import store
from tv_jax.runs.questions import Question, is_right
from tv_jax.runs.records import KEY, Method
from tv_jax.runs.settings import Run, decoding
from tv_jax.tree import Tree
from tv_jax.verifiers import DOWN, NOT_OFFERED, Decision, Verifier

TRACED = 6  # cycles of an answer that the explorer shows


def next_prompt(
  pair: Pair, settings: Run, question: Question, answers: Sequence[str]
) -> Prompt:
  """Returns a question's next turn as a prompt.

  Args:
    pair: The models.
    settings: The run's settings.
    question: The question.
    answers: The model's answers to the earlier turns.

  Raises:
    ValueError: The prompt leaves no room for an answer, or is invalid.
  """
  turns = questions_lib.conversation(question, answers)
  tokens = templates.encode(settings.models.template, pair.tokenizer, turns)
  most = pair.positions()
  most = min(most, settings.max_tokens or most)
  if len(tokens) >= most:
    raise UserError(
      f"a prompt of {len(tokens)} tokens leaves no room for an answer in {most}"
    )
  encode_prompts(pair, [tokens], "raw", 1)  # checks the tokens
  number = questions_lib.number_of(question.question_id, len(answers))
  limit = min(settings.max_new_tokens, most - len(tokens))
  return Prompt(tokens, number, limit)


@dataclass(frozen=True)
class Answerer:
  """Asks questions by one method after another, and keeps the answers.

  Attributes:
    pair: The models.
    settings: The run's settings.
    questions: The questions to ask.
    results: The store of answers.
  """

  pair: Pair
  settings: Run
  questions: Sequence[Question]
  results: store.Store

  def text(self, tokens: Sequence[int], **options: bool) -> str:
    """Returns tokens as text."""
    return str(self.pair.tokenizer.decode(tokens, **options))

  @functools.cached_property
  def piece(self) -> Callable[[int], str]:
    """Function from a token to its text inside a longer text."""
    # A token's leading space shows only after another token.
    before = self.pair.tokenizer("a", add_special_tokens=False).input_ids
    length = len(self.text(before))
    return functools.cache(lambda token: self.text([*before, token])[length:])

  @functools.cached_property
  def traced_questions(self) -> set[int | str]:
    """The questions for which the trees of the first turn are kept."""
    few = questions_lib.limit(self.questions, self.settings.explorer.per_task)
    return {question.question_id for question in few}

  def config(self, method: Method) -> DecodeConfig:
    """Returns a method's `DecodeConfig`; ValueError if it cannot decode."""
    settings = self.settings
    panel = [settings.baseline]
    return decoding(
      settings, method, self.pair, settings.batch_size, panel=panel
    )

  def ask(self, method: Method, config: DecodeConfig) -> Iterator[None]:
    """Decodes the missing answers of a method, and yields after each."""
    axes = vars(method).values()
    for turn in range(max(len(q.turns) for q in self.questions)):
      asked = {
        (question.task, question.question_id, turn, *axes): question
        for question in self.questions
        if turn < len(question.turns)
      }
      if asked.keys() - self.results.answers.keys():
        for line in self.answers(config, asked):
          self.results.append(line)
          yield

  def answers(
    self, config: DecodeConfig, asked: dict[tuple, Question]
  ) -> Iterator[dict]:
    """Decodes the missing answers of one turn, as lines of items.jsonl."""
    prompts, errors = {}, {}
    # All prompts, answered or not, so that the compiled program is the same.
    for key, question in asked.items():
      try:
        prompts[key] = self.prompt(key, question)
      except ValueError as error:
        errors[key] = " ".join(str(error).split())
    lengths = (len(prompt.tokens) for prompt in prompts.values())
    longest = max([1, self.settings.padded_to, *lengths])
    missing = [key for key in asked if key not in self.results.answers]
    recording = self.recording(config, prompts)
    decoded = iter(())
    if wanted := [prompts[key] for key in missing if key in prompts]:
      batch = Batch(self.pair, config, self.settings.batch_size, longest)
      decoded = decode(batch, wanted, recording and recording.step)
    for key in missing:
      line = dict(zip(KEY, key, strict=True))
      if key in prompts:
        own = next(decoded)
        cycles = recording and recording.cycles({}, prompts[key].item)
        yield line | self.record(config, line["turn"], asked[key], own, cycles)
      else:
        yield line | {"error": errors[key]}

  def prompt(self, key: tuple, question: Question) -> Prompt:
    """Returns a turn as a prompt; ValueError if it cannot be asked."""
    answers = self.results.answers
    task, name, turn, *axes = key
    before = [answers[task, name, i, *axes] for i in range(turn)]
    if any("error" in answer for answer in before):
      raise UserError("an earlier turn failed")
    texts = [answer["text"] for answer in before]
    return next_prompt(self.pair, self.settings, question, texts)

  def recording(
    self, config: DecodeConfig, prompts: dict[tuple, Prompt]
  ) -> Recording | None:
    """Returns a recording of the explorer's cycles; None if it shows none.

    If it shows any, all answers of the run are decoded cycle by cycle, so that
    one compiled program serves them all.
    """
    if not (config.static.tree and self.traced_questions):
      return None
    items = [
      prompt.item
      for (_, question, turn, *_), prompt in prompts.items()
      if turn == 0 and question in self.traced_questions
    ]
    return Recording(
      config, lambda item, cycle: np.isin(item, items) & (cycle < TRACED)
    )

  def record(
    self,
    config: DecodeConfig,
    turn: int,
    question: Question,
    own: Continuation,
    cycles: Cycles | None,
  ) -> dict:
    """Returns the fields of a decoded answer."""
    text = self.text(own.tokens, skip_special_tokens=True)
    right = None
    if self.settings.exact_match and turn < len(question.references):
      right = any(is_right(text, x) for x in question.references[turn])
    line = {
      "tokens": own.tokens,
      "text": text,
      "accepted": own.gained.tolist(),
    }
    if config.static.drafter:
      line["drafted"] = own.drafted.tolist()
    line |= {
      "expected": {
        name: _numbers(lengths) for name, lengths in own.expected.items()
      },
      "stops": own.stops.tolist(),
      "faults": own.faults,
      "right": right,
    }
    if cycles:
      line["prompt"] = question.turns[0]
      line["trace"] = explorer_trees(cycles, config, own, self.piece)
    return line


def explorer_trees(
  cycles: Cycles,
  config: DecodeConfig,
  own: Continuation,
  piece: Callable[[int], str],
) -> list[dict]:
  """Returns an answer's recorded cycles for explorer.js.

  Args:
    cycles: The recorded cycles of the answer.
    config: The decoding options. The rules of the panel are shown.
    own: The answer.
    piece: Function from a token to its text.
  """
  tree, rules, tokens = cycles.tree, config.static.panel, own.tokens
  assert config.verifier
  assert cycles.coins is not None
  judged = {
    rule.name: [*replay.judge(rule, cycles)]
    for rule in {*rules, config.verifier}
  }
  ends = np.cumsum(own.gained)
  trees = []
  for i, (number, coins) in enumerate(
    zip(cycles.cycle.tolist(), cycles.coins, strict=True)
  ):
    here = {name: decisions[i] for name, decisions in judged.items()}
    node_tokens = cycles.tokens[i].tolist()
    end = int(ends[number])
    trees.append(
      {
        "cycle": number,
        "parents": [*tree.parents],
        "pieces": [None if t == INVALID else piece(t) for t in node_tokens],
        **_chances(cycles, i),
        "coins": _numbers(coins),
        "stop": {rule.name: _numbers(here[rule.name][0]) for rule in rules},
        "direction": {
          rule.name: "down" if rule.walk == DOWN else "up" for rule in rules
        },
        "walks": {
          rule.name: offered(rule, tree, here[rule.name][1]) for rule in rules
        },
        "node": int(here[config.verifier.name][1].node),
        # An end token or the limit may have cut the bonus token off.
        "bonus": piece(tokens[end - 1]) if end <= len(tokens) else None,
      }
    )
  return trees


def _chances(cycles: Cycles, cycle: int) -> dict[str, list[float | None]]:
  """Returns each node's p, q, and probability of being drawn.

  The last is the probability given the elder siblings. All are None at the
  root, and at nodes without a token.
  """
  tree, proposal, *arrays = cycles.draft(cycle)
  tokens, q, p = map(np.asarray, arrays)
  chances = {name: np.full(len(tree), np.nan) for name in ("p", "q", "drawn")}
  for node in np.flatnonzero(tokens[1:] != INVALID) + 1:
    above, token = tree.parent[node], tokens[node]
    family = tree.children[above, : tree.num_children[above]]
    elder = tuple(tokens[family[family < node]].tolist())
    law = proposal.following(q[above], elder, len(family))
    chances["p"][node] = p[above, token]
    chances["q"][node] = q[above, token]
    chances["drawn"][node] = law[token]
  return {name: _numbers(values) for name, values in chances.items()}


def offered(rule: Verifier, tree: Tree, decision: Decision) -> dict:
  """Returns the nodes that a rule offered, in order, and their thresholds."""
  order = range(len(tree)) if rule.walk == DOWN else tree.postorder
  threshold = decision.threshold
  nodes = [int(v) for v in order if threshold[v] != NOT_OFFERED]
  return {
    "node": int(decision.node),
    "steps": [*map(list, zip(nodes, _numbers(threshold[nodes]), strict=True))],
  }


def _numbers(values) -> list[float | None]:
  """Returns the shortest decimals of float32 numbers; None if not finite."""
  values = np.asarray(values, np.float32)
  return [float(str(x)) if np.isfinite(x) else None for x in values]
