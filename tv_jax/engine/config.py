"""The options of `generate`, checked, with every name resolved to an object."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from tv_jax import drafting, probs, proposals, verifiers
from tv_jax import tree as tree_lib
from tv_jax.drafting import Drafter
from tv_jax.engine.pair import Pair
from tv_jax.io import checks
from tv_jax.io.errors import UserError
from tv_jax.io.reading import brief
from tv_jax.proposals import Proposal
from tv_jax.tree import Tree
from tv_jax.verifiers import Decide, Verifier, contract

# A rule by name, as an object, or as its function.
Rule = Verifier | Decide | str

# Seeds and item numbers are below this: a random key holds 32 bits of them.
SEEDS = 2**32

# Lowest default temperature of the draft. Below it the probabilities of all
# tokens but a few underflow to 0, and trees degenerate to chains.
COLDEST_DRAFT = 0.1
PLAIN = "plain"  # the verifier of decoding without a draft


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
  """Decoding options, as `tv_jax.generate` describes them."""

  tree: Tree | str = "eagle"
  verifier: Rule = "traversal"
  proposal: Proposal | str = "without_replacement"
  temperature: float = 1.0
  max_new_tokens: int = 128
  seed: int = 0
  panel: Sequence[Rule] | None = ()
  top_k: int = 0
  top_p: float = 1.0
  draft_temperature: float = 0.0
  draft_stop: float = 0.0
  stop: str | Sequence[str] | None = None
  ends: Sequence[int] | None = None
  batch_size: int = 16
  among: Sequence[Rule] = ()

  @classmethod
  def of(cls, arguments: Mapping[str, Any]) -> Options:
    """Returns the options among a function's arguments."""
    names = [field.name for field in dataclasses.fields(cls)]
    return cls(**{name: arguments[name] for name in names if name in arguments})


DEFAULTS = Options()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Static:
  """The options that programs are compiled for.

  Configs with equal options of this kind share their programs. In plain
  decoding, drafter, tree and proposal are None.

  Attributes:
    target: The target's Linen module. It also returns the features that the
      drafter reads.
    drafter: The functions of the draft model.
    among: The verifiers between which the program can switch.
    greedy: Whether the temperature is 0.
  """

  target: Any
  drafter: Drafter | None = None
  tree: Tree | None = None
  proposal: Proposal | None = None
  among: tuple[Verifier, ...] = ()
  panel: tuple[Verifier, ...] = ()
  greedy: bool
  top_k: int
  top_p: float
  ends: tuple[int, ...]

  @property
  def nodes(self) -> int:
    """N, the number of tree nodes; 1 without a tree."""
    return len(self.tree) if self.tree else 1

  @property
  def depth(self) -> int:
    """D, the depth of the tree; 0 without a tree."""
    return self.tree.max_depth if self.tree else 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class DecodeConfig:
  """Checked options, made by `decode_config`, with every name resolved.

  Programs are compiled for `static`; all other fields are data.
  """

  static: Static
  verifier: Verifier | None = None
  temperature: float
  draft_temperature: float = 1.0
  max_new_tokens: int
  seed: int
  batch_size: int
  stop: tuple[str, ...]

  @property
  def name(self) -> str | None:
    """The verifier's name; None in plain decoding."""
    return self.verifier and self.verifier.name

  @property
  def sampling(self) -> dict[str, float]:
    """The options that change what is drafted or sampled."""
    drafter = self.static.drafter
    return {
      "temperature": self.temperature,
      "draft_temperature": self.draft_temperature,
      "draft_stop": drafter.stop if drafter else 0.0,
      "top_k": self.static.top_k,
      "top_p": self.static.top_p,
    }

  def __str__(self) -> str:
    """Describes the config in one line, with all options of the sampling.

    For example "block on Tree(6 nodes, depth 5: 1 1 1 1 1 1),
    without_replacement, temperature 1", or "plain, temperature 1, top_p 0.9".
    """
    method, inherited = "plain", self.draft_temperature
    if proposal := self.static.proposal:
      method = f"{self.name} on {self.static.tree!r}, {proposal.name}"
      inherited = _draft_temperature(self.temperature, proposal)
    defaults = {"draft_temperature": inherited, "draft_stop": 0}
    defaults |= {"top_k": 0, "top_p": 1}
    sampling = (
      f"{name} {value:g}"
      for name, value in self.sampling.items()
      if value != defaults.get(name)
    )
    return ", ".join([method, *sampling])


def decode_config(pair: Pair, options: Options) -> DecodeConfig:
  """Checks and resolves options.

  Raises:
    ValueError: An option is wrong. The message says what to give instead.
  """
  draft_temperature = options.draft_temperature
  probs.check_temperature("temperature", options.temperature)
  probs.check_temperature("draft_temperature", draft_temperature)
  checks.number(0, 1, excluded=1)(options.draft_stop, "draft_stop")
  ends, vocabulary = pair.ends, pair.target.config.vocab_size
  if options.ends is not None:
    token = checks.integer(0, vocabulary - 1)
    ends = checks.list_of(token)([*options.ends], "ends")
  static = Static(
    target=pair.target.module.clone(outputs=()),
    greedy=options.temperature == 0,
    top_k=checks.integer(0)(options.top_k, "top_k"),
    top_p=checks.number(0, 1, excluded=0)(options.top_p, "top_p"),
    ends=ends,
  )
  plain = DecodeConfig(
    static=static,
    temperature=float(options.temperature),
    max_new_tokens=checks.integer(1)(options.max_new_tokens, "max_new_tokens"),
    seed=checks.integer(0, SEEDS - 1)(options.seed, "seed"),
    batch_size=checks.integer(1)(options.batch_size, "batch_size"),
    stop=_stop_strings(pair, options.stop),
  )
  proposal = proposals.resolve(options.proposal)
  if options.verifier is None:
    raise UserError(
      'verifier=None: give verifier="plain" to decode without a draft'
    )
  if options.verifier == PLAIN:
    if options.panel or options.among or options.draft_stop:
      raise UserError(
        "plain decoding has no rules (panel, among) and no draft (draft_stop)"
      )
    return plain
  if pair.draft is None:
    raise UserError(
      "the pair has no draft to speculate with: give verifier='plain' to"
      " decode without one, or load a draft"
    )
  tree, drafter = _tree(pair, options), _drafter(pair, options.draft_stop)
  if 0 < drafter.block < tree.max_depth:
    raise UserError(
      f"tree={options.tree!r} has {tree.max_depth} levels: this draft has"
      f" {drafter.block} at most"
    )
  verifier, among, panel = _rules(options, tree, proposal, vocabulary)
  if draft_temperature == 0:
    draft_temperature = _draft_temperature(options.temperature, proposal)
  layers = pair.draft.config.target_layer_ids
  return dataclasses.replace(
    plain,
    static=dataclasses.replace(
      static,
      target=pair.target.module.clone(outputs=layers),
      drafter=drafter,
      tree=tree,
      proposal=proposal,
      among=among,
      panel=panel,
    ),
    verifier=verifier,
    draft_temperature=float(draft_temperature),
  )


def _tree(pair: Pair, options: Options) -> Tree:
  """Resolves the tree; refuses one with more levels than positions."""
  tree, most = tree_lib.resolve(options.tree), pair.positions()
  if tree.max_depth >= most:
    raise UserError(
      f"tree={options.tree!r} has {tree.max_depth} levels: the pair has only"
      f" {most} positions"
    )
  return tree


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
  if stop and not pair.draft.config.enable_confidence_head:
    raise UserError(
      f"draft_stop={stop:g}: {pair.draft.source} has no confidence head; give 0"
    )
  return drafting.drafter_of(pair.draft.module, stop)


def _rules(options: Options, tree: Tree, proposal: Proposal, vocabulary: int):
  """Resolves `verifier`, `among` and `panel`.

  `among` then includes the verifier, and the panel includes `among`, but for
  rules without offers. The panel is empty if it is None in the options.
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

  (rule,) = rules_of("verifier", [options.verifier])
  among = dict.fromkeys([*rules_of("among", options.among), rule])
  known = dict.fromkeys([*among, *rules_of("panel", options.panel or ())])
  judged = (rule for rule in known if rule.offers)
  panel = () if options.panel is None else (*judged,)
  return rule, (*among,), panel
