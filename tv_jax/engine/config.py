"""The options of `generate`, checked, with every name resolved to an object."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from tv_jax import drafting, probs, proposals, verifiers
from tv_jax import tree as tree_lib
from tv_jax.drafting import Drafter
from tv_jax.engine import contract
from tv_jax.engine.pair import Pair
from tv_jax.io import checks
from tv_jax.io.errors import UserError
from tv_jax.io.reading import brief
from tv_jax.proposals import Proposal
from tv_jax.tree import Tree
from tv_jax.verifiers import Decide, Verifier

# A rule by name, as an object, or as its function.
Rule = Verifier | Decide | str

# Seeds and item numbers are below this: a random key holds 32 bits of them.
SEEDS = 2**32

# Lowest default temperature of the draft. Below it the probabilities of all
# tokens but a few underflow to 0, and trees degenerate to chains.
COLDEST_DRAFT = 0.1


@dataclasses.dataclass(frozen=True, kw_only=True)
class DecodeConfig:
  """The decoding options, made by `decode_config`.

  Fields with the names of options of `tv_jax.generate` hold these options,
  checked and resolved. In plain decoding, drafter, tree, proposal and verifier
  are None.

  The config is hashable. Programs are compiled for `static()`, so configs with
  the same `static()` share their programs.

  Attributes:
    target: The target's Linen module. It also returns the features that the
      drafter reads.
    drafter: The functions of the draft model.
    rules: All rules between which the program can switch (option `among`).
  """

  target: Any
  drafter: Drafter | None = None
  tree: Tree | None = None
  proposal: Proposal | None = None
  verifier: Verifier | None = None
  rules: tuple[Verifier, ...] = ()
  panel: tuple[Verifier, ...] = ()
  temperature: float
  draft_temperature: float
  draft_stop: float
  top_k: int
  top_p: float
  max_new_tokens: int
  seed: int
  batch_size: int
  ends: tuple[int, ...]
  stop: tuple[str, ...]

  def static(self) -> DecodeConfig:
    """Replaces fields that do not affect compiled programs by constants.

    Of the temperature only whether it is 0 is kept.
    """
    return dataclasses.replace(
      self,
      verifier=self.rules[0] if self.rules else None,
      temperature=float(self.temperature > 0),
      draft_temperature=1.0,
      max_new_tokens=0,
      seed=0,
      batch_size=0,
      stop=(),
    )

  @property
  def nodes(self) -> int:
    """N, the number of tree nodes; 1 without a tree."""
    return len(self.tree) if self.tree else 1

  @property
  def depth(self) -> int:
    """D, the depth of the tree; 0 without a tree."""
    return self.tree.max_depth if self.tree else 0

  @property
  def name(self) -> str | None:
    """The verifier's name; None in plain decoding."""
    return self.verifier and self.verifier.name

  def __str__(self) -> str:
    """Describes the config in one line, with all options of the sampling.

    For example "block on Tree(6 nodes, depth 5: 1 1 1 1 1 1),
    without_replacement, temperature 1", or "plain, temperature 1, top_p 0.9".
    """
    method, inherited = "plain", self.draft_temperature
    if self.proposal:
      method = f"{self.name} on {self.tree!r}, {self.proposal.name}"
      inherited = _draft_temperature(self.temperature, self.proposal)
    sampling = f"temperature {self.temperature:g}"
    for name, default in (
      ("draft_temperature", inherited),
      ("draft_stop", 0),
      ("top_k", 0),
      ("top_p", 1),
    ):
      if (value := getattr(self, name)) != default:
        sampling += f", {name} {value:g}"
    return f"{method}, {sampling}"


def decode_config(
  pair: Pair,
  *,
  tree: Tree | str = "eagle",
  verifier: Rule | None = "traversal",
  proposal: Proposal | str = "without_replacement",
  temperature: float = 1.0,
  draft_temperature: float | None = None,
  draft_stop: float = 0.0,
  top_k: int = 0,
  top_p: float = 1.0,
  max_new_tokens: int = 128,
  seed: int = 0,
  batch_size: int = 16,
  panel: Sequence[Rule] | None = (),
  ends: Sequence[int] | None = None,
  stop: str | Sequence[str] | None = None,
  among: Sequence[Rule] = (),
) -> DecodeConfig:
  """Checks and resolves the options that `tv_jax.generate` describes.

  Raises:
    ValueError: An option is wrong. The message says what to give instead.
  """
  probs.check_temperature("temperature", temperature)
  if draft_temperature is not None:
    probs.check_temperature("draft_temperature", draft_temperature)
    if draft_temperature == 0:
      raise UserError("draft_temperature=0: give a positive number")
  vocabulary = pair.target.config.vocab_size
  token = checks.list_of(checks.integer(0, vocabulary - 1))
  plain = DecodeConfig(
    target=pair.target.module.clone(outputs=()),
    temperature=float(temperature),
    draft_temperature=float(draft_temperature or 1.0),
    draft_stop=checks.number(0, 1, excluded=1)(draft_stop, "draft_stop"),
    top_k=checks.integer(0)(top_k, "top_k"),
    top_p=checks.number(0, 1, excluded=0)(top_p, "top_p"),
    max_new_tokens=checks.integer(1)(max_new_tokens, "max_new_tokens"),
    seed=checks.integer(0, SEEDS - 1)(seed, "seed"),
    batch_size=checks.integer(1)(batch_size, "batch_size"),
    ends=pair.ends if ends is None else token([*ends], "ends"),
    stop=_stop_strings(pair, stop),
  )
  proposal = proposals.resolve(proposal)
  if verifier is None:
    if panel or among or draft_stop:
      raise UserError(
        "plain decoding has no rules (panel, among) and no draft (draft_stop)"
      )
    return plain
  if pair.draft is None:
    raise UserError(
      "the pair has no draft to speculate with: give verifier=None for plain"
      " decoding, or load a draft"
    )
  shape = tree_lib.resolve(tree)
  if shape.max_depth >= (most := pair.positions()):
    raise UserError(
      f"tree={tree!r} has {shape.max_depth} levels: the pair has only {most}"
      " positions"
    )
  rule, rules, panel_rules = _rules(
    verifier, among, panel, shape, proposal, vocabulary
  )
  drafter = _drafter(pair, draft_stop)
  if 0 < drafter.block < shape.max_depth:
    raise UserError(
      f"tree={tree!r} has {shape.max_depth} levels: this draft has"
      f" {drafter.block} at most"
    )
  if draft_temperature is None:
    draft_temperature = _draft_temperature(temperature, proposal)
  layers = pair.draft.config.target_layers
  return dataclasses.replace(
    plain,
    target=pair.target.module.clone(outputs=layers),
    drafter=drafter,
    tree=shape,
    proposal=proposal,
    verifier=rule,
    rules=rules,
    panel=panel_rules,
    draft_temperature=float(draft_temperature),
  )


def _draft_temperature(temperature: float, proposal: Proposal) -> float:
  """Returns the draft's temperature if none is given."""
  # A proposal that only ranks tokens needs no temperature. A low one would make
  # the unlikely tokens equal, with probability 0.
  return 1.0 if proposal.ranks else max(temperature, COLDEST_DRAFT)


def _stop_strings(pair, stop) -> tuple[str, ...]:
  """Checks the option `stop`, and returns it as a tuple."""
  texts = (stop,) if isinstance(stop, str) else stop or ()
  texts = checks.list_of(checks.text)(texts, "stop")
  if "" in texts:
    raise UserError(f"stop={brief(stop)}: give texts, none empty")
  if texts and pair.checkpoint is None:
    raise UserError(
      f"stop={brief(stop)}: this pair has no tokenizer to find texts with; give"
      " end tokens, ends=[..]"
    )
  return texts


def _drafter(pair: Pair, stop: float) -> Drafter:
  """Returns the draft's functions; refuses `stop` without a confidence head."""
  assert pair.draft
  block = pair.draft.config.block
  if stop and not (block and block.confidence):
    raise UserError(
      f"draft_stop={stop:g}: {pair.draft.source} has no confidence head; give 0"
    )
  return drafting.KINDS[pair.kind].drafter(pair.draft.module, stop)


def _rules(verifier, among, panel, tree, proposal, vocabulary):
  """Returns the rule, the rules among which to switch, and the panel.

  The panel also includes `verifier` and `among`, if they have offers. It is
  empty if `panel` is None.
  """
  named: dict[str, Verifier] = {}

  def rules_of(option, rules):
    if not isinstance(rules, list | tuple):
      raise UserError(f"{option}={rules!r}: give a list of rules")
    rules = [verifiers.resolve(rule) for rule in rules]
    for rule in rules:
      if option == "panel" and not rule.offers:
        raise UserError(
          f"panel: {rule.name!r} has no stopping distribution to compute"
          " expected lengths from; give a Verifier(offers=..)"
        )
      if reason := verifiers.unsupported_reason(rule, tree, proposal):
        raise UserError(reason)
      contract.check(rule, proposal, tree, vocabulary)
      if named.setdefault(rule.name, rule) != rule:
        raise UserError(
          f"two verifiers are called {rule.name!r}: give each a name of its"
          " own, as in Verifier(name=...)"
        )
    return rules

  (rule,) = rules_of("verifier", [verifier])
  deciding = dict.fromkeys([*rules_of("among", among), rule])
  known = dict.fromkeys([*deciding, *rules_of("panel", panel or ())])
  judged = () if panel is None else (rule for rule in known if rule.offers)
  return rule, (*deciding,), (*judged,)
