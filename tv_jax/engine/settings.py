"""What `generate` was asked for, resolved and checked."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import inspect
from collections.abc import Callable, Sequence

import jax

from tv_jax import drafting, probs, proposals, verifiers
from tv_jax import tree as tree_lib
from tv_jax.edge import names
from tv_jax.edge.reading import brief
from tv_jax.engine import contract, decoding, options
from tv_jax.engine.pair import Pair
from tv_jax.models import stops
from tv_jax.tree import Adaptive, Tree
from tv_jax.verifiers import Decide, Verifier

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
    limit: New tokens at most, for each prompt.
    seed: What all draws come from, with the prompt's number.
    batch_size: Rows of a batch.
    stop: Texts that end an answer.
  """

  plan: decoding.Plan
  name: str | None
  rule: int | None
  rules: tuple[Verifier, ...]
  proposal: str
  temperature: float
  draft_temperature: float
  limit: int
  seed: int
  batch_size: int
  stop: tuple[str, ...]


def resolve(
  pair: Pair,
  *,
  tree: Tree | Adaptive | str = "eagle",
  verifier: Verifier | Decide | str | None = "traversal",
  proposal: proposals.Proposal | str = "without_replacement",
  temperature: float = 1.0,
  draft_temperature: float | None = None,
  top_k: int = 0,
  top_p: float = 1.0,
  max_new_tokens: int = 128,
  seed: int = 0,
  batch_size: int = 16,
  panel: Sequence[Verifier | Decide | str] | None = (),
  ends: Sequence[int] | None = None,
  stop: str | Sequence[str] | None = None,
  logprobs: bool = False,
  among: Sequence[Verifier | Decide | str] = (),
  trace: int = 0,
) -> Settings:
  """Resolves and checks what `generate` was asked for; see there."""
  options.check(
    max_new_tokens=max_new_tokens,
    batch_size=batch_size,
    trace=trace,
    seed=seed,
    temperature=temperature,
    draft_temperature=draft_temperature,
    top_k=top_k,
    top_p=top_p,
    logprobs=logprobs,
  )
  stop = stops.texts(stop)
  if stop and pair.path is None:
    raise ValueError(
      f"stop={brief([*stop])}: this pair has no tokenizer to find texts with:"
      " give tokens, as ends"
    )
  asked = None if verifier is None else tree
  speculation, name, chosen, known, laws = None, None, None, (), ()
  proposal = proposals.resolve(proposal)
  if verifier is not None:
    if pair.draft is None:
      raise ValueError(
        "the pair has no draft to speculate with: give verifier=None for"
        " plain decoding, or load a draft"
      )
    tree = tree_lib.resolve(tree)
    rule = _suiting(verifier, tree, proposal)
    rules = _among(rule, among, tree, proposal)
    name, chosen = rule.name, None
    if len(rules) > 1:
      chosen = [other.name for other in rules].index(name)
    known = _unique([*rules, *_panel(panel or (), tree, proposal)])
    vocabulary = pair.target.config.vocab_size
    for own in known:
      contract.check(own, proposal, tree, vocabulary)
    if panel is not None:
      laws = tuple(
        (rule.name, rule.stop_law) for rule in known if rule.stop_law
      )
    speculation = decoding.Speculation(
      drafter=drafting.KINDS[pair.draft_kind](pair.draft.apply),
      tree=tree,
      proposal=proposal,
      verifier=rules[0],
      others=tuple(rules[1:]),
    )
  elif panel:
    raise ValueError("panel: plain decoding drafts nothing to verify")
  if verifier is None and (trace or among):
    raise ValueError("plain decoding has no rules (among) and no trees (trace)")
  if draft_temperature is None:
    draft_temperature = _draft_temperature(asked, temperature, proposal)
  plan = decoding.Plan(
    target=pair.target.apply,
    speculation=speculation,
    panel=laws,
    greedy=temperature == 0,
    top_k=int(top_k),
    top_p=float(top_p),
    ends=pair.ends
    if ends is None
    else options.ends(ends, pair.target.config.vocab_size),
    logprobs=bool(logprobs),
    # A cycle gains a token at least: there are no more to record.
    trace=min(int(trace), int(max_new_tokens)),
    one_by_one=jax.default_backend() == "cpu",
  )
  return Settings(
    plan=plan,
    name=name,
    rule=chosen,
    rules=tuple(known),
    proposal=proposal.name,
    temperature=float(temperature),
    draft_temperature=float(draft_temperature),
    limit=int(max_new_tokens),
    seed=int(seed),
    batch_size=int(batch_size),
    stop=stop,
  )


def with_options(function: Callable) -> Callable:
  """The function, whose **options are those of `resolve`, shown as such.

  Help and editors then see every option with its default, which stands in one
  place alone. One that there is not is refused by its name.
  """
  own = inspect.signature(function)
  *named, _ = own.parameters.values()  # the last one is **options
  options = inspect.signature(resolve).parameters.values()
  named += [one for one in options if one.kind == one.KEYWORD_ONLY]
  known = [one.name for one in named if one.kind == one.KEYWORD_ONLY]

  @functools.wraps(function)
  def checked(*arguments, **options):
    for name in options.keys() - {one.name for one in named}:
      close = [one for one in known if one.startswith(name)]
      close = close or difflib.get_close_matches(name, known, 1)
      hint = f"did you mean {' or '.join(close)}?"
      if not close:
        hint = f"it has {', '.join(known)}"
      raise TypeError(f"{function.__name__}() has no option {name!r}: {hint}")
    return function(*arguments, **options)

  checked.__signature__ = own.replace(parameters=named)
  return checked


def _suiting(verifier, tree, proposal) -> Verifier:
  """The rule that is meant, if it is defined here."""
  rule = verifiers.resolve(verifier)
  if reason := verifiers.misfit(rule, tree, proposal):
    raise ValueError(reason)
  return rule


def _draft_temperature(tree, temperature, proposal) -> float:
  """Where none is given: the target's, or as the tree was tuned for.

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
  """All rules that the program is to hold."""
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
    if rule.stop_law is None:
      raise ValueError(
        f"panel: {rule.name!r} has no stop law to expect lengths from: give a"
        " Verifier(decide=.., stop_law=..)"
      )
  return rules


def _unique(rules) -> list[Verifier]:
  """The rules, each once; refuses two of one name."""
  named = [(rule.name, rule) for rule in rules]
  return [*names.unique(named, "verifier").values()]
