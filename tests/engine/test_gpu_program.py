"""Whole generations, compiled for an H200 that is not here."""

import dataclasses
import functools

import jax
import pytest

from benchmarks import gpu_program, gpu_shapes
from tv_jax.engine import programs
from tv_jax.engine.decode import advance

pytestmark = pytest.mark.gpu_program

V, SLOTS, NEW, LONGEST = 128256, 4096, 128, 3584
STAGES = r"while/body/((?:draft|target|verify|commit)(?:/(?:Decoder|Eagle))?)"


class Case:
  """A generation, and the program that it compiles to."""

  def __init__(
    self,
    *,
    draft,
    layers=(2, 1),
    tree="eagle",
    batch=1,
    dtype="bfloat16",
    target_heads=32,
    options=programs.CAPTURE,
    **others,
  ):
    make = gpu_shapes.shape_of

    def model(name, depth, **changes):
      config = gpu_shapes.config(name, dtype, depth)
      config = dataclasses.replace(config, **changes)
      return gpu_shapes.model(config, make)

    self.target = model(
      "Llama-3.1-8B", layers[0], num_attention_heads=target_heads
    )
    if draft == "independent":
      self.draft = model("Llama-3.2-1B", layers[1])
    elif draft == "eagle":
      self.draft = gpu_shapes.head(self.target, make)
    elif draft == "dspark":
      reads = tuple(range(layers[0] - 1))
      self.draft = gpu_shapes.block_draft(
        self.target, make, layers=layers[1], reads=reads
      )
    else:
      self.draft = None
    self.config = gpu_shapes.decoding(
      self.target,
      self.draft,
      tree,
      max_new_tokens=NEW,
      ends=(128001, 128008, 128009),
      **others,
    )
    self.batch = batch
    arguments = gpu_shapes.arguments(
      self.config, self.target, self.draft, batch, LONGEST
    )
    self.caches = arguments[1].caches
    self.program = gpu_program.compile_for(
      functools.partial(advance, self.config.static),
      *arguments,
      donate_argnums=1,
      options=options,
    )

  def check(self):
    """No copies, few temporaries, caches in place, one CUDA graph."""
    params = self.target.params, self.draft and self.draft.params
    weights = [x.size for x in jax.tree.leaves(params) if x.size > 1e6]
    rows = [x.size for x in jax.tree.leaves(self.caches) if x.ndim > 1]
    # In batches logits may be read in another order, inside of a fusion.
    moved = self.program.moved(min(weights + rows))
    assert [line for line in moved if f",{V}]" not in line] == []
    held = gpu_shapes.bytes_of(self.caches)
    assert self.program.memory.alias_size_in_bytes >= held - 8 * self.batch
    logits = 4 * V * self.batch * (self.config.static.nodes + 8)
    assert self.program.memory.temp_size_in_bytes < 300e6 + logits
    assert self.program.host_loops == ()
    # No branch, and no loop except the loop over cycles: the level-parallel
    # verifier runs, not a walk over nodes.
    assert not any("kConditional" in line for line in self.program.thunks)

  @property
  def loops(self):
    return sum("kWhile" in line for line in self.program.thunks)


def test_the_kernels_of_a_cycle():
  layers = 8, 4
  case = Case(draft="independent", layers=layers)
  case.check()
  assert case.loops == 1
  kernels = case.program.kernels_by(STAGES)
  # Measured counts. Each launch adds time that no forward pass uses.
  assert kernels["draft"] <= 45
  assert kernels["target"] <= 10
  # The residuals of a rule are one array, which costs some ten kernels.
  assert kernels["verify"] <= 52
  # One for each of the caches' arrays.
  assert kernels["commit"] <= 2 * sum(layers) + 20


CASES = {
  "chain": {"draft": "independent", "tree": "chain:5"},
  "head": {
    "draft": "eagle",
    "proposal": "sample_then_top",
    "panel": ("token_level", "traversal"),
  },
  "greedy": {
    "draft": "independent",
    "verifier": "token_level",
    "proposal": "top_k",
    "temperature": 0,
    "batch": 4,
  },
  "one pass": {"draft": "dspark", "layers": (3, 1)},
  "plain": {"draft": None, "batch": 4},
  # With R before T in the rows of the scores, XLA finds no tiles for these.
  "no power of two": {"draft": None, "batch": 2, "target_heads": 24},
}


@pytest.mark.parametrize("name", CASES)
def test_of_few_layers(name):
  case = Case(**CASES[name])
  case.check()
  assert case.loops == 1


def test_a_tree_of_768_nodes():
  case = Case(draft="independent", tree="branching:3,5,5,3,2")
  assert case.config.static.nodes == 1 + 768
  # All laws, the target's and the draft's, are 0.6 GB.
  assert case.program.memory.temp_size_in_bytes < 2.5e9
  held = gpu_shapes.bytes_of(case.caches)
  assert case.program.memory.alias_size_in_bytes >= held - 8
  params = case.target.params, case.draft.params
  weights = gpu_shapes.bytes_of(params)
  rest = case.program.memory.argument_size_in_bytes - held
  assert weights <= rest < weights + 1e6
  assert case.program.host_loops == ()


def test_without_its_options_the_host_waits_in_each_cycle():
  case = Case(draft=None, options=None)
  assert len(case.program.host_loops) == 1
