"""Prefill, seat, advance: the programs of the engine, as functions.

Axes: B batch, N nodes, D depth, E embedding, T query length, P prompt length,
W new tokens at most.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from tv_jax.drafting import News
from tv_jax.engine import stages
from tv_jax.engine.plan import (
  Caches,
  Params,
  Plan,
  Records,
  Request,
  Seat,
  State,
)
from tv_jax.engine.sizes import CHUNK
from tv_jax.engine.trace import Trace
from tv_jax.models import mask
from tv_jax.tree import Adaptive


def prefill(
  plan: Plan, params: Params, request: Request, caches: Caches, new: int
) -> State:
  """Reads prompts up to their last tokens; returns the state to decode from.

  Args:
    plan: The plan.
    params: Both models'.
    request: The batch, its prompts padded to P + 1.
    caches: Of enough slots; what they hold is of no account.
    new: W.

  Returns:
    The state before the first cycle.
  """
  prompts, length = request.prompts, request.length
  P = prompts.shape[1] - 1
  size = min(P, CHUNK)
  if P % size:
    raise ValueError(f"prompts are padded to {P}: no multiple of {CHUNK}")
  read = functools.partial(_read, plan, params, request, size)
  none = jnp.zeros_like(length)
  caches = caches.map(lambda cache: dataclasses.replace(cache, length=none))
  feature = jnp.zeros_like(jax.eval_shape(lambda: read((caches, None), 0))[1])
  carry = caches, feature
  if size == P:
    carry = read(carry, jnp.zeros((), jnp.int32))
  else:
    # Beyond the longest prompt's last token but one there is nothing to read.
    pieces = -(-(jnp.max(length) - 1) // size)
    carry = jax.lax.fori_loop(0, pieces, lambda i, c: read(c, i * size), carry)
  caches, feature = carry
  draft = caches.draft
  if plan.speculation and draft:
    kept = plan.speculation.drafter.prefilled(length)
    draft = dataclasses.replace(draft, length=kept)
  before_root = jnp.maximum(length - 1, 0)
  target = dataclasses.replace(caches.target, length=before_root)
  return State(
    length=length,
    done=(length == 0) | (request.limit <= 0),
    stopping=None if request.stop is None else none,
    news=_last(plan, request, feature),
    caches=Caches(target, draft),
    records=_nothing(plan, len(length), new),
  )


def _read(plan, params, request, size, carry, at):
  """Reads tokens `at` to `at + size`; keeps the feature before the root's."""
  caches, feature = carry
  tokens, following = (
    jax.lax.dynamic_slice_in_dim(request.prompts, at + shift, size, axis=1)
    for shift in (0, 1)
  )
  begin = caches.target.length
  _, features, target = plan.target.apply(
    {"params": params.target},
    tokens,
    begin[:, None] + jnp.arange(size, dtype=jnp.int32)[None],
    mask.causal(begin, size, caches.target.slots),
    caches.target,
  )
  draft = caches.draft
  if plan.speculation:
    prefill = plan.speculation.drafter.prefill
    draft = prefill(params.draft, tokens, following, features, draft)
  place = request.length - 2 - at
  inside = ((place >= 0) & (place < size))[:, None, None]
  place = jnp.clip(place, 0, size - 1)[:, None, None]
  own = jnp.take_along_axis(features, place, axis=1)
  own = jnp.where(inside, own, jnp.zeros_like(own))
  feature = own if feature is None else jnp.where(inside, own, feature)
  return Caches(target, draft), feature


def _last(plan, request, feature):
  """The last two tokens of the prompts as news; a single one is both."""
  last = request.length[:, None] - jnp.array([[2, 1]], jnp.int32)
  tokens = jnp.take_along_axis(request.prompts, jnp.maximum(last, 0), axis=1)
  D = plan.depth
  return News(
    tokens=jnp.pad(tokens, ((0, 0), (0, D))),
    features=jnp.pad(feature, ((0, 0), (0, D), (0, 0))),
    gain=jnp.ones_like(request.length),
  )


def _nothing(plan, rows, new):
  """Records of `rows` rows, still empty."""

  def zeros(*shape):
    return jnp.zeros((rows, *shape), jnp.int32)

  tokens = zeros(new + plan.depth + 1)
  return Records(
    tokens=tokens,
    kept=zeros(),
    cycles=zeros(),
    accepted=zeros(new),
    drafted=zeros(new),
    expected={rule.name: jnp.zeros((rows, new)) for rule in plan.panel},
    stops=zeros(plan.nodes),
    faults=zeros(),
    logprobs=jnp.zeros(tokens.shape) if plan.logprobs else None,
    trace=_no_trace(plan, rows) if plan.trace else None,
  )


def _no_trace(plan, rows) -> Trace:
  """An empty trace."""
  shape = rows, plan.trace, plan.nodes
  tokens, law = jnp.zeros(shape, jnp.int32), jnp.zeros(shape)
  return Trace(
    tokens=tokens,
    p=law,
    q=law,
    drawn=law,
    sure=law,
    coins=law,
    stop={rule.name: law for rule in plan.panel},
    node=tokens[..., 0],
    parent=tokens if isinstance(plan.speculation.tree, Adaptive) else None,
  )


def generate(
  plan: Plan, params: Params, request: Request, caches: Caches, new: int
) -> tuple[Records, Caches]:
  """Decodes a batch; see `prefill` for the arguments.

  Returns:
    The records, and the caches, to be given to the next batch.
  """
  with jax.named_scope("prefill"):
    state = prefill(plan, params, request, caches, new)
  state = jax.lax.while_loop(
    lambda state: jnp.any(~state.done),
    functools.partial(stages.cycle, plan, params, request),
    state,
  )
  return state.records, state.caches


def vacant(
  plan: Plan, params: Params, request: Request, caches: Caches, new: int
) -> State:
  """Returns a state without any prompt: all rows are done; see `prefill`."""
  leaves, structure = jax.tree.flatten((params, request, caches))
  shapes = tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in leaves)
  # NumPy's: jax would compile a program for each of them.
  state = jax.tree.map(
    lambda x: jnp.asarray(np.zeros(x.shape, x.dtype)),
    _prefilled(plan, shapes, structure, new),
  )
  # Both are donated: neither may be the other's.
  caches = caches.map(
    lambda cache: dataclasses.replace(
      cache, length=jnp.zeros_like(state.length)
    )
  )
  done = jnp.ones_like(state.done)
  return dataclasses.replace(state, done=done, caches=caches)


@functools.lru_cache(maxsize=64)
def _prefilled(plan, shapes, structure, new) -> State:
  """Returns the shapes of what `prefill` returns, without caches.

  To trace it takes as long as many cycles.
  """
  arguments = jax.tree.unflatten(structure, shapes)
  state = jax.eval_shape(functools.partial(prefill, plan, new=new), *arguments)
  return dataclasses.replace(state, caches=None)


def seat(
  plan: Plan,
  params: Params,
  key: jax.Array,
  prompt: Seat,
  request: Request,
  state: State,
  new: int,
) -> tuple[Request, State]:
  """Reads a prompt into a row, whatever has been there.

  Args:
    plan: The plan.
    params: Both models'.
    key: [] the run's.
    prompt: The prompt.
    request: The batch.
    state: Before the next cycle.
    new: W.

  Returns:
    The batch and its state, where no other row has changed.
  """

  def put(array, own):
    return jax.lax.dynamic_update_slice_in_dim(array, own, prompt.row, 0)

  rows = {
    "prompts": jnp.asarray(prompt.tokens)[None],
    "length": jnp.asarray(prompt.length)[None],
    "keys": jax.random.fold_in(key, jnp.asarray(prompt.item))[None],
    "limit": jnp.asarray(prompt.limit)[None],
  }
  # Nothing of what was there: a mask does not hide a NaN.
  caches = jax.tree.map(lambda array: jnp.zeros_like(array[:1]), state.caches)
  alone = prefill(plan, params, request._replace(**rows), caches, new)
  rows = {name: put(getattr(request, name), row) for name, row in rows.items()}
  return request._replace(**rows), jax.tree.map(put, state, alone)


def advance(
  plan: Plan, params: Params, request: Request, state: State, full: jax.Array
) -> State:
  """Runs cycles until all rows are done; if `full`, until any row is."""

  def going(state):
    return jnp.where(full, ~jnp.any(state.done), ~jnp.all(state.done))

  cycle = functools.partial(stages.cycle, plan, params, request)
  return jax.lax.while_loop(going, cycle, state)
