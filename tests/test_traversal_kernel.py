"""The traversal by kernels of its own, interpreted: it is the traversal.

Against the oracle it is tried with the other rules, in test_verifiers.
"""

import dataclasses

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import gpu_checks
from tests import test_generation
from tv_jax import certify, proposals, tree
from tv_jax.proposals import INVALID, PROPOSALS
from tv_jax.tree import ROOT
from tv_jax.verifiers import VERIFIERS, blocks

# jax 0.11 says so of a program for GPUs; it still lowers and compiles it.
pytestmark = pytest.mark.filterwarnings(
  "ignore:The Pallas Triton backend is deprecated:DeprecationWarning"
)

CASES = [
  ("chain:1", "without_replacement"),
  ("chain:4", "with_replacement"),
  ("kary:2x3", "top_k"),
  ("branching:5,2", "sample_then_top"),
  ("branching:1,3", "without_replacement"),
  ("eagle", "with_replacement"),
  pytest.param("eagle", "without_replacement", marks=pytest.mark.long),
  pytest.param("eagle", "sample_then_top", marks=pytest.mark.long),
]


def drafts(t, proposal, V, count):
  """Random ones: tokens, laws and coins."""
  return gpu_checks.random_drafts(t, proposal, V, count, seed=0)


def judge(name, t, proposal, rows):
  """Decisions and stop laws of a batch."""
  rule = VERIFIERS[name]

  @jax.jit
  def run(rows):
    decided = jax.vmap(lambda *row: rule.decide(t, proposal, *row))(*rows)
    law = jax.vmap(lambda *row: rule.stop_law(t, proposal, *row))(*rows[:3])
    return decided, law

  return jax.device_get(run(rows))


@pytest.mark.parametrize(("shape", "name"), CASES)
def test_it_decides_as_the_traversal_does(monkeypatch, shape, name):
  """Over several blocks, of which the last is not full."""
  monkeypatch.setattr(blocks, "_BLOCK", 8)
  t, proposal = tree.parse(shape), PROPOSALS[name]
  rows = drafts(t, proposal, 21, 24)
  wanted, wanted_law = judge("traversal", t, proposal, rows)
  found, law = judge("traversal_kernel", t, proposal, rows)
  np.testing.assert_array_equal(found.node, wanted.node)
  assert len({*wanted.node.tolist()}) > 1
  assert not found.fault.any()
  np.testing.assert_allclose(found.residual, wanted.residual, atol=3e-6)
  np.testing.assert_allclose(found.accept, wanted.accept, atol=3e-6)
  np.testing.assert_allclose(law, wanted_law, atol=3e-6)


def test_a_sum_that_loses_a_block_is_seen(monkeypatch):
  """What the test above would catch."""
  monkeypatch.setattr(blocks, "_BLOCK", 8)
  whole = blocks.whole
  monkeypatch.setattr(
    blocks, "whole", lambda rows, row, first, B: whole(rows, row, first, B - 1)
  )
  t, proposal = tree.parse("kary:2x3"), proposals.WITHOUT_REPLACEMENT
  rows = drafts(t, proposal, 21, 24)
  _, wanted = judge("traversal", t, proposal, rows)
  _, law = judge("traversal_kernel", t, proposal, rows)
  assert np.abs(law - wanted).max() > 1e-3


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_law_is_a_fault_and_a_plain_step(monkeypatch, value):
  """In any place of the rows at the root, of p or of q."""
  monkeypatch.setattr(blocks, "_BLOCK", 8)
  t, proposal = tree.parse("kary:2x2"), proposals.WITHOUT_REPLACEMENT
  tokens, q, p, eta = drafts(t, proposal, 21, 42)
  place = np.arange(21)
  p = p.at[place, ROOT, place].set(value)
  q = q.at[21 + place, ROOT, place].set(value)
  found, _ = judge("traversal_kernel", t, proposal, (tokens, q, p, eta))
  wanted, _ = judge("traversal", t, proposal, (tokens, q, p, eta))
  assert found.fault.mean() > 0.8
  np.testing.assert_array_equal(found.fault, wanted.fault)
  np.testing.assert_array_equal(found.node, wanted.node)
  np.testing.assert_allclose(found.residual, wanted.residual, atol=1e-6)
  np.testing.assert_allclose(found.accept, wanted.accept, atol=3e-6)


def traced(shape, V, dtype=np.float32, batch=None):
  """A decision as it is traced."""
  t, proposal = tree.parse(shape), proposals.WITHOUT_REPLACEMENT
  rule = VERIFIERS["traversal_kernel"]

  def decide(*row):
    return rule.decide(t, proposal, *row)

  lead = () if batch is None else (batch,)
  laws = jax.ShapeDtypeStruct((*lead, len(t), V), dtype)
  tokens = jax.ShapeDtypeStruct((*lead, len(t)), np.int32)
  eta = jax.ShapeDtypeStruct((*lead, len(t)), dtype)
  return jax.jit(decide if batch is None else jax.vmap(decide)).trace(
    tokens, laws, laws, eta
  )


@pytest.mark.parametrize(
  ("shape", "V", "dtype", "batch"),
  [
    ("chain:1", 1000, np.float32, None),
    ("branching:3,1", 128256, np.float32, 4),
    ("branching:3", 5, np.float64, None),
    ("branching:16,2", 1000, np.float32, None),
  ],
)
def test_it_is_lowered_for_a_gpu(x64, shape, V, dtype, batch):
  try:
    own = traced(shape, V, dtype, batch).lower(lowering_platforms=("cuda",))
  except RuntimeError as error:
    if "No supported GPU devices" not in str(error):
      raise
    pytest.skip("this jax (0.11) lowers for a GPU that is there")
  assert "triton" in own.as_text()


def test_kernels_take_no_least_and_no_largest_of_numbers():
  """Of a NaN and a number Triton's are the number, and a fault goes unseen."""
  jaxpr = traced("branching:3,1", 1000).jaxpr
  found = [*_in_kernels(jaxpr.jaxpr, inside=False)]
  assert {"mul", "select_n", "div"} <= {one.primitive.name for one in found}
  for one in found:
    if one.primitive.name in ("min", "max", "reduce_min", "reduce_max"):
      assert all(np.issubdtype(x.aval.dtype, np.integer) for x in one.invars)


def _in_kernels(jaxpr, inside):
  """All operations in kernels."""
  for one in jaxpr.eqns:
    if inside:
      yield one
    for below in jax.extend.core.jaxprs_in_params(one.params):
      own = inside or one.primitive.name == "pallas_call"
      yield from _in_kernels(below, own)


def test_what_could_not_be_drawn_is_not_offered():
  t, proposal = tree.parse("branching:3,1"), proposals.WITHOUT_REPLACEMENT
  tokens, q, p, eta = drafts(t, proposal, 21, 8)
  tokens = tokens.at[:, jnp.array([2, 5])].set(INVALID)
  found, law = judge("traversal_kernel", t, proposal, (tokens, q, p, eta))
  wanted, wanted_law = judge("traversal", t, proposal, (tokens, q, p, eta))
  assert (law[:, [2, 5]] == 0).all()
  np.testing.assert_array_equal(found.node, wanted.node)
  np.testing.assert_allclose(law, wanted_law, atol=3e-6)


@pytest.mark.parametrize(
  "dtype", ["float32", pytest.param("float64", marks=pytest.mark.long)]
)
@pytest.mark.parametrize(
  "shape", ["chain:2", pytest.param("branching:2,1", marks=pytest.mark.long)]
)
@pytest.mark.parametrize("name", PROPOSALS)
def test_the_certificate(x64, name, shape, dtype):
  settings = certify.Settings(vocabulary=3, cases=6, dtype=getattr(np, dtype))
  found = certify.check("traversal_kernel", name, shape, settings)
  assert found.lossless
  assert found.distance < (2e-6 if dtype == "float32" else 1e-12)


def test_the_engine_decodes_with_it():
  options = {"tree": "branching:2,1", "max_new_tokens": 12, "ends": ()}
  # By its name a CPU would take the loop.
  rule = dataclasses.replace(VERIFIERS["traversal_kernel"], loop=None)
  found = test_generation.generate(verifier=rule, **options)
  wanted = test_generation.generate(verifier="traversal", **options)
  assert found.tokens == wanted.tokens
  assert [own.tolist() for own in found.accepted] == [
    own.tolist() for own in wanted.accepted
  ]
