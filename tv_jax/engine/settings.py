"""What `generate` was asked for, resolved and checked."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Sequence
from typing import TypedDict, Unpack

from tv_jax import drafting, probs, proposals, verifiers
from tv_jax import tree as tree_lib
from tv_jax.drafting import Drafter
from tv_jax.edge import checks, names
from tv_jax.edge.reading import brief
from tv_jax.engine import contract
from tv_jax.engine.pair import Pair
from tv_jax.engine.plan import Plan, Speculation
from tv_jax.models import stops
from tv_jax.tree import Adaptive, Tree
from tv_jax.verifiers import Decide, Verifier

# What a key is made of.
SEEDS = 2**32

# Below this a draft's law underflows to a few tokens, and trees to chains.
COLDEST_DRAFT = 0.1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
  """How to decode: `generate`'s arguments, resolved and checked.

  Attributes:
    plan: What the program is compiled for.
    name: Of the verifier; None in plain decoding.
    rule: Which of the plan's rules it is; None if there is only one.
    rules: All that decide, or that the panel has, with their names.
    proposal: The name of how siblings are drawn.
    temperature: Of the target.
    draft_temperature: Of the draft.
    draft_stop: How sure it has to be to go on.
    limit: New tokens at most, for each prompt.
    seed: What all draws come from, with the prompt's number.
    batch_size: Rows of a batch.
    stop: Texts that end an answer.
  """

  plan: Plan
  name: str | None
  rule: int | None
  rules: tuple[Verifier, ...]
  proposal: str
  temperature: float
  draft_temperature: float
  draft_stop: float
  limit: int
  seed: int
  batch_size: int
  stop: tuple[str, ...]


class Options(TypedDict, total=False):
  """What `generate` can be told to do; it says what each is."""

  tree: Tree | Adaptive | str
  verifier: Verifier | Decide | str | None
  proposal: proposals.Proposal | str
  temperature: float
  draft_temperature: float | None
  draft_stop: float
  top_k: int
  top_p: float
  max_new_tokens: int
  seed: int
  batch_size: int
  panel: Sequence[Verifier | Decide | str] | None
  ends: Sequence[int] | None
  stop: str | Sequence[str] | None
  logprobs: bool
  among: Sequence[Verifier | Decide | str]
  trace: int


def resolve(pair: Pair, **options: Unpack[Options]) -> Settings:
  """Resolves and checks what `generate` was asked for; see there."""
  known = [*Options.__annotations__, "template", "items", "progress"]
  for name in options.keys() - Options.__annotations__:
    close = [one for one in known if one.startswith(name)]
    close = close or difflib.get_close_matches(name, known, 1)
    hint = f"did you mean {' or '.join(close)}?"
    if not close:
      hint = f"there are {', '.join(known)}"
    raise TypeError(f"no option {name!r}: {hint}")
  return _resolve(pair, **options)


_NUMBERS = {
  "max_new_tokens": checks.integer(1),
  "batch_size": checks.integer(1),
  "trace": checks.integer(0),
  "seed": checks.integer(0, SEEDS - 1),
  "top_k": checks.integer(0),
  "top_p": checks.number(above=0, most=1),
  "logprobs": checks.boolean,
  "draft_stop": checks.number(0, below=1),
}


def _resolve(
  pair: Pair,
  *,
  tree: Tree | Adaptive | str = "eagle",
  verifier: Verifier | Decide | str | None = "traversal",
  proposal: proposals.Proposal | str = "without_replacement",
  temperature: float = 1.0,
  draft_temperature: float | None = None,
  panel: Sequence[Verifier | Decide | str] | None = (),
  ends: Sequence[int] | None = None,
  stop: str | Sequence[str] | None = None,
  among: Sequence[Verifier | Decide | str] = (),
  **numbers,
) -> Settings:
  defaults = {"max_new_tokens": 128, "batch_size": 16, "trace": 0, "seed": 0}
  defaults |= {"top_k": 0, "top_p": 1.0, "logprobs": False, "draft_stop": 0.0}
  own = checks.read(checks.fields(_NUMBERS), defaults | numbers)
  probs.check_temperature("temperature", temperature)
  if draft_temperature is not None:
    probs.check_temperature("draft_temperature", draft_temperature)
    if draft_temperature == 0:
      raise ValueError(
        f"draft_temperature={draft_temperature}: give a positive number (at 0"
        " the draft would have one token to offer)"
      )
  texts = stops.texts(stop)
  if texts and pair.path is None:
    raise ValueError(
      f"stop={brief([*texts])}: this pair has no tokenizer to find texts with:"
      " give tokens, as ends"
    )
  vocabulary = pair.target.config.vocab_size
  speculation, rule, known, laws = None, None, (), ()
  layers = ()
  proposal = proposals.resolve(proposal)
  if verifier is not None:
    if pair.draft is None:
      raise ValueError(
        "the pair has no draft to speculate with: give verifier=None for"
        " plain decoding, or load a draft"
      )
    shape = tree_lib.resolve(tree)
    rule = _suiting(verifier, shape, proposal)
    rules = _among(rule, among, shape, proposal)
    known = _unique([*rules, *_panel(panel or (), shape, proposal)])
    for one in known:
      contract.check(one, proposal, shape, vocabulary)
    if panel is not None:
      laws = tuple(one for one in known if one.offers)
    layers = pair.draft.config.target_layers
    drafter = _drafter(pair, own["draft_stop"])
    if 0 < drafter.block < shape.max_depth:
      raise ValueError(
        f"tree={tree!r} has {shape.max_depth} levels: this draft has"
        f" {drafter.block} at most"
      )
    speculation = Speculation(
      drafter=drafter,
      tree=shape,
      proposal=proposal,
      verifier=rules[0],
      others=tuple(rules[1:]),
    )
  elif panel:
    raise ValueError("panel: plain decoding drafts nothing to verify")
  elif own["trace"] or among:
    raise ValueError("plain decoding has no rules (among) and no trees (trace)")
  elif own["draft_stop"]:
    raise ValueError("draft_stop: plain decoding has no draft to stop")
  if draft_temperature is None:
    tuned = tree if speculation else None
    draft_temperature = _draft_temperature(tuned, temperature, proposal)
  plan = Plan(
    target=pair.target.module.clone(outputs=layers),
    speculation=speculation,
    panel=laws,
    greedy=temperature == 0,
    top_k=own["top_k"],
    top_p=own["top_p"],
    ends=pair.ends if ends is None else _ends(ends, vocabulary),
    logprobs=own["logprobs"],
    # A cycle gains a token at least: there are no more to record.
    trace=min(own["trace"], own["max_new_tokens"]),
  )
  return Settings(
    plan=plan,
    name=rule and rule.name,
    rule=rules.index(rule) if speculation and len(rules) > 1 else None,
    rules=tuple(known),
    proposal=proposal.name,
    temperature=float(temperature),
    draft_temperature=float(draft_temperature),
    draft_stop=float(own["draft_stop"]),
    limit=own["max_new_tokens"],
    seed=own["seed"],
    batch_size=own["batch_size"],
    stop=texts,
  )


def _drafter(pair: Pair, stop: float) -> Drafter:
  """Returns what drafts; refuses to stop where the draft is never unsure."""
  assert pair.draft is not None
  if not stop:
    return drafting.KINDS[pair.draft_kind](pair.draft.module)
  own = pair.draft.config.block
  if not own or not own.confidence:
    raise ValueError(
      f"draft_stop={stop:g}: {pair.draft.source} does not say how sure it is:"
      " give 0"
    )
  return drafting.InOnePass(pair.draft.module, stop)


def _ends(tokens, vocabulary) -> tuple[int, ...]:
  """Returns the tokens that end an answer, all of them in the vocabulary."""
  if not isinstance(tokens, str | bytes) and hasattr(tokens, "__iter__"):
    tokens = [*tokens]
  return checks.read(
    checks.list_of(checks.integer(0, vocabulary - 1)), tokens, "ends"
  )


def _suiting(verifier, tree, proposal) -> Verifier:
  """Returns the rule, if it is defined for this tree and proposal."""
  rule = verifiers.resolve(verifier)
  if reason := verifiers.misfit(rule, tree, proposal):
    raise ValueError(reason)
  return rule


def _draft_temperature(tree, temperature, proposal) -> float:
  """Returns the target's temperature, or what the tree was tuned for.

  In the same proportion to the target's as the two were then; what was tuned
  for greedy decoding is in proportion to nothing.
  """
  if proposal.ranks:
    # A ranking needs no temperature, and loses its tail to a low one.
    return 1.0
  own = max(temperature, COLDEST_DRAFT)
  draft, target = tree_lib.temperatures(tree) or (1.0, 1.0)
  if target <= COLDEST_DRAFT:
    return draft if temperature <= COLDEST_DRAFT else own
  own = max(own * draft / target, COLDEST_DRAFT)
  probs.check_temperature("draft_temperature", own)
  return own


def _among(rule, among, tree, proposal) -> tuple[Verifier, ...]:
  """Returns all rules that the program holds."""
  if not among:
    return (rule,)
  if not isinstance(among, list | tuple):
    raise ValueError(f"among={among!r}: give a list of rules")
  rules = [_suiting(other, tree, proposal) for other in among]
  if rule not in rules:
    raise ValueError(
      f"among={[other.name for other in rules]}: {rule.name!r}, which is to"
      " decide, must be one of them"
    )
  return (*_unique(rules),)


def _panel(others, tree, proposal) -> list[Verifier]:
  """Rules whose stop laws are to be computed on each draft."""
  if not isinstance(others, list | tuple):
    raise ValueError(f"panel={others!r}: give a list of rules")
  rules = [_suiting(other, tree, proposal) for other in others]
  for rule in rules:
    if not rule.offers:
      raise ValueError(
        f"panel: {rule.name!r} has no stop law to expect lengths from: give a"
        " Verifier(offers=..)"
      )
  return rules


def _unique(rules) -> list[Verifier]:
  """Returns the rules, each once; refuses two of one name."""
  named = [(rule.name, rule) for rule in rules]
  return [*names.unique(named, "verifier").values()]
