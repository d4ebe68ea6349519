"""What `generate` was asked for, resolved and checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import jax

from tv_jax import decoding, drafting, proposals, verifiers
from tv_jax import tree as tree_lib
from tv_jax.generation import options
from tv_jax.pair import Pair
from tv_jax.tree import Tree
from tv_jax.verifiers import Verifier

# Below this a draft's law underflows to a few tokens, and trees to chains.
COLDEST_DRAFT = 0.1

# The form of a rule that takes the same decisions with less work, and the rows
# of a batch one after the other: what a CPU is good at.
CPU_FORMS = {"traversal": "traversal_loop", "token_level": "token_level_loop"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
  """How to decode: `generate`'s arguments, resolved and checked.

  Attributes:
    plan: What the program is compiled for.
    name: Of the verifier; None in plain decoding.
    rule: Which of the plan's rules it is; None if there is only one.
    proposal: Its name.
    temperature: Of the target.
    draft_temperature: Of the draft.
    limit: New tokens at most, for each prompt.
    seed: What all draws come from, with the prompt's number.
    batch_size: Rows of a batch.
  """

  plan: decoding.Plan
  name: str | None
  rule: int | None
  proposal: str
  temperature: float
  draft_temperature: float
  limit: int
  seed: int
  batch_size: int


def resolve(
  pair: Pair,
  *,
  tree: Tree | str = "eagle",
  verifier: Verifier | Callable | str | None = "traversal",
  proposal: proposals.Proposal | str = "without_replacement",
  temperature: float = 1.0,
  draft_temperature: float | None = None,
  top_k: int = 0,
  top_p: float = 1.0,
  max_new_tokens: int = 128,
  seed: int = 0,
  batch_size: int = 16,
  panel: Sequence[str] | None = (),
  ends: Sequence[int] | None = None,
  among: Sequence[str] = (),
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
  )
  cpu = jax.default_backend() == "cpu"
  speculation, name, chosen, laws = None, None, None, ()
  if isinstance(proposal, str):
    kind = proposal
    proposal = verifiers.lookup(proposals.PROPOSALS, proposal, "proposal")
  else:
    kind = "a proposal of its own"
  if verifier is not None:
    if pair.draft is None:
      raise ValueError(
        "the pair has no draft to speculate with: give verifier=None for"
        " plain decoding, or load a draft"
      )
    tree = tree_lib.parse(tree) if isinstance(tree, str) else tree
    if not isinstance(tree, Tree):
      raise ValueError(f'tree={tree!r}: give a Tree or a text like "chain:5"')
    name, rule = _rule(verifier, tree, cpu)
    rules, chosen = _among(verifier, rule, among, tree, cpu)
    if panel is not None:
      own = dict(zip(among or (name,), rules, strict=True))
      laws = _panel(own, panel, tree, cpu)
    speculation = decoding.Speculation(
      drafter=drafting.KINDS[pair.draft_kind](pair.draft.apply),
      tree=tree,
      proposal=proposal,
      verifier=rules[0],
      others=rules[1:],
    )
  elif panel:
    raise ValueError("panel: plain decoding drafts nothing to verify")
  if verifier is None and (trace or among):
    raise ValueError("plain decoding has no rules (among) and no trees (trace)")
  if draft_temperature is None:
    # A ranking needs no temperature, and loses its tail to a low one.
    coldest = max(temperature, COLDEST_DRAFT)
    draft_temperature = 1.0 if proposal.ranks else coldest
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
    # A cycle gains a token at least: there are no more to record.
    trace=min(int(trace), int(max_new_tokens)),
    one_by_one=cpu,
  )
  return Settings(
    plan=plan,
    name=name,
    rule=chosen,
    proposal=kind,
    temperature=float(temperature),
    draft_temperature=float(draft_temperature),
    limit=int(max_new_tokens),
    seed=int(seed),
    batch_size=int(batch_size),
  )


def _rule(verifier, tree, cpu) -> tuple[str, Verifier]:
  """A verifier's name, and the form of it that suits the machine."""
  rule = verifiers.resolve(verifier)
  if rule.chains_only and not tree.is_chain:
    raise ValueError(
      f"verifier {verifier!r} is defined for chains only, and the tree is"
      f' {tree!r}: give tree="chain:{tree.max_depth}", or another verifier'
    )
  if isinstance(verifier, str):
    form = CPU_FORMS.get(verifier, verifier) if cpu else verifier
    return verifier, verifiers.resolve(form)
  function = rule.decide
  name = getattr(function, "__name__", None) or repr(function)
  if name == "decide":
    name = function.__module__.rpartition(".")[2]
  return name, rule


def _among(verifier, rule, among, tree, cpu):
  """All rules that the program is to hold, and which is the one asked for."""
  if not among:
    return (rule,), None
  if isinstance(among, str) or verifier not in among:
    raise ValueError(f"among={among!r}: give a list with {verifier!r} in it")
  rules = tuple(_rule(other, tree, cpu)[1] for other in among)
  return rules, None if len(rules) == 1 else list(among).index(verifier)


def _panel(own, others, tree, cpu):
  """The stop laws to compute on each draft, the program's own rules first."""
  laws = {name: rule.stop_law for name, rule in own.items() if rule.stop_law}
  for other in others:
    known, law = _rule(other, tree, cpu)
    if law.stop_law is None:
      raise ValueError(f"panel: {other!r} has no stop law")
    laws.setdefault(known, law.stop_law)
  return tuple(laws.items())
