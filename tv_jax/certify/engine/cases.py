"""Tiny pairs of models, and many rows of tokens decoded with them.

Axes: B batch, N nodes, V vocabulary.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax import drafting
from tv_jax.engine import program
from tv_jax.engine.plan import Caches, Params, Plan, Request, Speculation
from tv_jax.models import (
  Config,
  Model,
  decoder,
  dspark,
  eagle,
  eagle3,
  families,
)
from tv_jax.models.config import Block
from tv_jax.proposals import Proposal
from tv_jax.tree import Adaptive, Tree
from tv_jax.verifiers import Verifier, misfit

VOCABULARY = 4
# The first of a single token: nothing comes before its root.
PROMPTS = ((3,), (1, 2, 0))
# What a head has from its target.
_SHARED = {
  "eagle": ("embedding", "unembedding"),
  "eagle3": ("embedding",),
  "dspark": ("embedding", "unembedding"),
}
# What a draft reads, and which of three tokens a token is to an EAGLE-3 head.
_READ, _PLACE = (decoder.INPUT, 0), (1, 3, 0, 2)
# To compile takes longer than to run.
_QUICK = {"xla_backend_optimization_level": 1}
# New tokens, over all of which the law is enumerated.
LENGTH = 6

TARGET = Config(
  vocab_size=VOCABULARY,
  hidden_size=16,
  intermediate_size=16,
  num_hidden_layers=2,
  num_attention_heads=2,
  num_key_value_heads=1,
  head_dim=8,
  rms_norm_eps=1e-5,
  rope_theta=10.0,  # positions are few, and each must matter
  rope_scaling=None,
  tie_word_embeddings=False,
  max_position_embeddings=64,
  dtype="float32",
  bos_token_id=None,
  eos_token_id=(),
  pad_token_id=None,
)
# Of the kind that looks at most: a node's own token, and all above it.
_BLOCK = Block(
  size=3, mask=0, rank=4, head="rnn", confidence=True, sees_token=True
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
  """One way to decode."""

  draft_kind: str
  tree: Tree | Adaptive
  proposal: Proposal
  verifier: Verifier
  temperature: float
  top_p: float
  stop: float = 0.0  # of a draft of one pass: see `drafting.InOnePass`

  @property
  def plan(self) -> Plan:
    """Returns what is compiled; the same for every temperature above 0."""
    target, draft = models(self.draft_kind)
    drafter = drafting.KINDS[self.draft_kind](draft.module)
    if self.stop:
      drafter = drafting.InOnePass(draft.module, self.stop)
    return Plan(
      target=target.module.clone(outputs=draft.config.target_layers),
      speculation=Speculation(
        drafter=drafter,
        tree=self.tree,
        proposal=self.proposal,
        verifier=self.verifier,
      ),
      top_p=self.top_p,
    )


def grid(
  *,
  drafts: Sequence[str],
  trees: dict[str, Tree | Adaptive],
  verifiers: dict[str, Verifier],
  proposals: dict[str, Proposal],
  temperatures: Sequence[float],
  top_ps: Sequence[float],
) -> list[tuple[tuple[str, ...], Case]]:
  """Makes all combinations, named; those that share a program are together."""
  return [
    (
      (kind, shape, name, proposal, f"{temperature:g}", f"{top_p:g}"),
      Case(
        draft_kind=kind,
        tree=trees[shape],
        proposal=proposals[proposal],
        verifier=verifiers[name],
        temperature=temperature,
        top_p=top_p,
      ),
    )
    for shape, kind, name, proposal, top_p, temperature in itertools.product(
      trees, drafts, verifiers, proposals, top_ps, temperatures
    )
    if not misfit(verifiers[name], trees[shape], proposals[proposal])
  ]


@functools.lru_cache
def models(draft_kind: str) -> tuple[Model, Model]:
  """Makes a target and a draft, which agree on nothing.

  Random weights, large enough that every token, position and feature matters.
  """
  target = Model(
    module=decoder.Decoder(TARGET),
    params=_random(jax.random.key(0), families.init(jax.random.key(0), TARGET)),
    source="random",
  )
  config = dataclasses.replace(TARGET, num_hidden_layers=1)
  # Chosen so that rows take some cycles: a draft may not be too good.
  key = jax.random.key(2 if draft_kind == "dspark" else 1)
  if draft_kind == "eagle":
    made = eagle.init(key, config, bias=True)
    module = eagle.Eagle(config, bias=True)
  elif draft_kind == "eagle3":
    config = dataclasses.replace(
      config, target_layers=_READ, draft_vocab_size=3, shares_embedding=True
    )
    made = eagle3.init(key, config)
    made["place"] = jnp.array(_PLACE)
    module = eagle3.Eagle3(config)
  elif draft_kind == "dspark":
    config = dataclasses.replace(
      config, model_type="qwen3", target_layers=_READ, block=_BLOCK
    )
    made = dspark.init(key, config)
    module = dspark.DSpark(config)
  else:
    made = families.init(key, config)
    module = decoder.Decoder(config)
  own = _random(key, made)
  theirs = target.params
  own |= {name: theirs[name] for name in _SHARED.get(draft_kind, ())}
  return target, Model(module=module, params=own, source="random")


def _random(key, params):
  """Parameters of these shapes; norms, and what else has one axis, near 1.

  Whole numbers stay.
  """
  leaves, structure = jax.tree.flatten(params)
  keys = jax.random.split(key, len(leaves))
  values = [
    x
    if jnp.issubdtype(x.dtype, jnp.integer)
    else jax.random.normal(k, x.shape) * (0.1 if x.ndim == 1 else 0.5)
    + (1 if x.ndim == 1 else 0)
    for k, x in zip(keys, leaves, strict=True)
  ]
  return jax.tree.unflatten(structure, values)


def request(case: Case, rows: int, seed: int, first: int = 0) -> Request:
  """Makes rows `first` and up, their prompts in turn."""
  width = max(map(len, PROMPTS))
  padded = [(*prompt, *[0] * (width + 1 - len(prompt))) for prompt in PROMPTS]
  which = np.arange(rows) % len(PROMPTS)
  return Request(
    prompts=jnp.asarray(np.array(padded, np.int32)[which]),
    length=jnp.asarray(np.array([*map(len, PROMPTS)], np.int32)[which]),
    keys=jax.vmap(jax.random.fold_in, (None, 0))(
      jax.random.key(seed), jnp.arange(first, first + rows, dtype=jnp.uint32)
    ),
    limit=jnp.full(rows, LENGTH, jnp.int32),
    temperature=jnp.float32(case.temperature),
    draft_temperature=jnp.float32(case.temperature),
  )


def caches(case: Case, rows: int) -> Caches:
  """Makes caches for a request."""
  slots = case.plan.slots(max(map(len, PROMPTS)) + 1, LENGTH)
  return Caches(
    *(model.init_cache(rows, slots) for model in models(case.draft_kind))
  )


def params(case: Case) -> Params:
  """Returns the parameters for a request."""
  return Params(*(m.params for m in models(case.draft_kind)))


def count(case: Case, rows: int, batch: int, seed: int):
  """Decodes `rows` rows.

  Args:
    case: How.
    rows: How many, rounded up to whole batches.
    batch: B.
    seed: Of all draws.

  Returns:
    How often each sequence of LENGTH tokens came after each prompt
    [prompts, V^LENGTH]; the cycles that these tokens took, in the mean; the
    cycles in which a NaN was met.
  """
  run = _program(case.plan)
  spare, cycles, faults = caches(case, batch), [], 0
  counts = np.zeros((len(PROMPTS), VOCABULARY**LENGTH), np.int64)
  for i in range(-(-rows // batch)):
    asked = request(case, batch, seed, i * batch)
    records, spare = run(case.plan, params(case), asked, spare, LENGTH)
    tokens = np.asarray(records.tokens)[:, :LENGTH]
    code = tokens @ VOCABULARY ** np.arange(LENGTH)[::-1]
    for j, own in enumerate(counts):
      own += np.bincount(code[j :: len(counts)], minlength=len(own))
    cycles.append(np.asarray(records.cycles).mean())
    faults += int(np.asarray(records.faults).sum())
  return counts, float(np.mean(cycles)), faults


@functools.lru_cache(maxsize=1)
def _program(plan):
  """A program of its own for each plan, the last one forgotten.

  Not by jax, which keeps all: with some hundred of them a process runs out of
  memory maps, and crashes.
  """
  del plan
  jax.clear_caches()
  return jax.jit(
    program.generate,
    static_argnums=(0, 4),
    donate_argnums=3,
    compiler_options=_QUICK,
  )
