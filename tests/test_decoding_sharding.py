"""Generations over many devices: simulated ones, and H200s not here."""

import functools
import math
import os
import pathlib
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest

from benchmarks import gpu_program, gpu_shapes
from tests import checkpoints, quick
from tv_jax import models
from tv_jax.engine import plan as plan_lib
from tv_jax.engine import program
from tv_jax.models import sharding

EIGHT = """
import sys
import jax
import numpy as np
import tv_jax
from tv_jax.models import sharding
from tv_jax.verifiers import VERIFIERS

target, llama, head = sys.argv[1:]
assert len(jax.devices()) == 8
mesh = sharding.mesh()
rng = np.random.default_rng(0)
prompts = [rng.integers(0, 48, size).tolist() for size in (9, 1, 16)]
level = VERIFIERS["traversal"]

def run(pair, rows, temperature, verifier, size=3):
  return tv_jax.generate(
    pair, prompts[:rows], tree="kary:2x2", verifier=verifier,
    temperature=temperature, max_new_tokens=12, seed=1, ends=(), panel=None,
    batch_size=size,
  )

def check(draft, kind, cases, **options):
  one = tv_jax.load(draft, target, draft_kind=kind)
  pair = tv_jax.load(draft, target, draft_kind=kind, mesh=mesh, **options)
  own = pair.draft.params["params"]
  own = own["layer" if kind == "eagle" else "layers_0"]["qkv"]
  assert len(own.sharding.device_set) == 8
  split = kind == "eagle" or bool(options)
  assert own.sharding.is_fully_replicated != split
  longest = 0
  for case in cases:
    many, single = run(pair, *case), run(one, *case)
    assert many.tokens == single.tokens, (kind, options, case)
    for a, b in zip(many.accepted, single.accepted, strict=True):
      assert a.tolist() == b.tolist(), (kind, options, case)
      longest = max(longest, *a)
  assert longest > 1, "nothing was ever accepted"

check(llama, "independent", [(3, 1.0, "traversal")])
check(
  llama,
  "independent",
  [(3, 0.0, level), (3, 1.0, level, 2)],
  shard_draft=True,
)
check(
  head,
  "eagle",
  [(1, 1.0, "token_level"), (3, 0.0, "traversal"), (3, 1.0, "traversal", 2)],
)
print("equal")
"""


@pytest.mark.long
def test_eight_devices_decode_as_one(tmp_path):
  from tests.test_models_eagle import published

  config = checkpoints.tiny(
    hidden_size=128, num_attention_heads=16, num_key_value_heads=8
  )
  models.save(tmp_path / "target", checkpoints.ours(config))
  # The target with a little noise, or nothing would be accepted.
  own, other = checkpoints.ours(config), checkpoints.ours(config, seed=1)
  near = jax.tree.map(lambda x, y: x + 0.1 * y, own.params, other.params)
  draft = models.Model(
    config=config, params=near, apply=own.apply, mesh=None, source="random"
  )
  models.save(tmp_path / "draft", draft)
  published(tmp_path / "head", own, bias=True)
  env = os.environ | {
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": quick.flags(devices=8),
  }
  run = subprocess.run(
    [
      sys.executable,
      "-c",
      EIGHT,
      *(tmp_path / name for name in ("target", "draft", "head")),
    ],
    env=env,
    capture_output=True,
    text=True,
    check=False,
    cwd=pathlib.Path(__file__).parents[1],
  )
  assert run.stdout == "equal\n", run.stderr


# Where a program exchanges something: the result's shape, and how.
EXCHANGE = re.compile(
  r"= (.*?) (all-reduce|all-gather|all-to-all|reduce-scatter|"
  r"collective-permute)(?:-start)?\("
)


def exchanges(hlo):
  """Kind, largest number of elements, and operation of each exchange."""
  found = []
  for line in hlo.splitlines():
    match = EXCHANGE.search(line)
    if match:
      sizes = re.findall(r"\[([\d,]+)\]", match[1])
      numbers = [math.prod(map(int, size.split(","))) for size in sizes]
      name = re.search(r'op_name="([^"]*)"', line)
      found.append((match[2], max(numbers, default=1), name[1] if name else ""))
  return found


def pair_over_eight(layers, *, shard_draft, tree="chain:5"):
  """The 70B shape of few layers, compiled for eight H200s."""
  on = sharding.mesh(list(gpu_program.mesh(devices=8).devices.flat))

  def model(name, layers, mesh):
    own = gpu_shapes.config(name, "bfloat16", layers)
    return gpu_shapes.model(own, gpu_shapes.shapes_on(own, mesh), mesh)

  target = model("Llama-3.1-70B", layers, on)
  draft = model("Llama-3.1-8B", 1, on if shard_draft else None)
  plan = gpu_shapes.plan(target, draft, tree, ends=(128009,))
  caches = jax.eval_shape(
    functools.partial(
      gpu_shapes.empty_caches, target.config, draft.config, 1, 1024
    )
  )

  def split(cache):
    heads = sharding.placement("BGSC", on)
    return jax.tree.map(
      lambda x: (
        jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=heads)
        if x.ndim > 1
        else x
      ),
      cache,
    )

  caches = plan_lib.Caches(
    split(caches.target), split(caches.draft) if shard_draft else caches.draft
  )
  request = jax.eval_shape(
    functools.partial(gpu_shapes.request, 1, 128, 128, 128256)
  )

  def generate(params, request, caches):
    return program.generate(plan, params, request, caches, 128)

  return gpu_program.compile_for(
    generate,
    plan_lib.Params(target.params, draft.params),
    request,
    caches,
    on=on,
    donate_argnums=2,
  )


@pytest.mark.gpu_program
def test_70b_over_eight_h200():
  few = pair_over_eight(1, shard_draft=False)
  many = pair_over_eight(2, shard_draft=True)
  counts = []
  for own in (few, many):
    found = exchanges(own.hlo)
    # Nothing is exchanged but inside of the models (several sums at once have
    # no name): the rest is the same on every device, and so is what the loop
    # goes on by.
    assert all("/Decoder/" in name for _, _, name in found if name), found
    assert {kind for kind, _, _ in found} <= {"all-reduce", "all-gather"}
    gathered = [size for kind, size, _ in found if kind == "all-gather"]
    # Logits of a tree at most: less than any weight or cache.
    assert max(gathered) <= 6 * 128256 < 8 * 1024 * 128
    counts.append(
      sum(
        "while/body" in name and "target" in name and kind == "all-reduce"
        for kind, _, name in found
      )
    )
  assert counts[1] - counts[0] == 2  # a layer


def test_an_exchange_of_a_weight_would_be_seen():
  on = sharding.mesh(jax.devices()[:2])
  whole = jax.sharding.NamedSharding(on, jax.sharding.PartitionSpec())
  weight = jax.ShapeDtypeStruct(
    (64, 32), jnp.float32, sharding=sharding.placement("VE", on)
  )
  lowered = jax.jit(lambda x: x * 2, out_shardings=whole).lower(weight)

  found = exchanges(lowered.compile().as_text())
  assert [of[:2] for of in found] == [("all-gather", 2048)]
