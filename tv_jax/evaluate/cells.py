"""The grid of a run: every way to decode, in the order in which it is done."""

from __future__ import annotations

import dataclasses
import itertools

from tv_jax.evaluate.settings import Settings, rules_on

PLAIN = "plain"
NONE = "none"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
  """One way to decode; plainly if `verifier` is PLAIN."""

  tree: str
  proposal: str
  verifier: str
  temperature: float
  seed: int

  def __str__(self) -> str:
    """For example "traversal on eagle, T = 1, seed 0"."""
    what = "plain decoding"
    if self.verifier != PLAIN:
      what = f"{self.verifier} on {self.tree}, {self.proposal}"
    return f"{what}, T = {self.temperature:g}, seed {self.seed}"

  def key(self, task: str, question: int, turn: int) -> dict:
    """The fields that name an answer in the store."""
    place = {"task": task, "question": question, "turn": turn}
    return place | dataclasses.asdict(self)

  def options(self, settings: Settings) -> dict:
    """What `generate` is to do; batch size, panel and trace aside."""
    shared = {
      "temperature": self.temperature,
      "draft_temperature": settings.draft_temperature or None,
      "top_k": settings.top_k,
      "top_p": settings.top_p,
      "max_new_tokens": settings.max_new_tokens,
      "seed": self.seed,
    }
    if self.verifier == PLAIN:
      return shared | {"verifier": None}
    return shared | {
      "verifier": self.verifier,
      "tree": self.tree,
      "proposal": self.proposal,
    }


def grid(settings: Settings) -> list[Cell]:
  """All cells; those that share a program stand together."""
  ways = [(NONE, NONE, PLAIN)] if settings.plain else []
  ways += [
    (tree, proposal, rule)
    for tree, proposal in itertools.product(settings.trees, settings.proposals)
    for rule in rules_on(settings, tree, proposal)
  ]
  return [
    Cell(
      tree=tree,
      proposal=proposal,
      verifier=rule,
      temperature=temperature,
      seed=seed,
    )
    for (tree, proposal, rule), temperature, seed in itertools.product(
      ways, settings.temperatures, settings.seeds
    )
  ]
