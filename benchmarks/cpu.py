"""What CPUs do in another way than GPUs, each beside the other way, in turns.

    python -m benchmarks.cpu

Passes of the bundled target with products' weights as checkpoints have them,
[out, in], and turned, as `tv_jax.load` has them on a CPU. Passes over caches of
as many slots as a GPU's have, and as a CPU's. Numbers of a key, by jax and as
`tv_jax.threefry` writes them out. Verifications of the rows of a batch, one
after the other, both rules' laws and the decision: by the loops over nodes, and
by passes over all nodes. Each in a loop of one program; medians of --rounds
turns, and quartiles of their ratios.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import statistics
import sys
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import common, decisions
from benchmarks.gpu_scale import TOY
from benchmarks.gpu_times import one_pass
from tv_jax import models, threefry, tree
from tv_jax.edge import cli
from tv_jax.edge.reading import BUNDLED
from tv_jax.engine import extents
from tv_jax.engine.sizes import block as block_here
from tv_jax.verifiers import VERIFIERS

_RULES = ("token_level", "traversal")
_SLOTS, _PROMPT = 256, 100


def compare(title: str, what: str, cases: dict, rounds: int) -> common.Table:
  """A table of pairs of functions that return seconds, old and new in turns.

  Args:
    title: Of the table.
    what: The header of its first column.
    cases: By name, the two.
    rounds: How often each has its turn.

  Returns:
    The table.
  """
  lines = []
  for name, pair in cases.items():
    found = common.race(
      {i: lambda turn, run=run: run() for i, run in enumerate(pair)},
      rounds,
      0,
      say=lambda text: None,
    )
    old, new = (np.array(found[i]) for i in range(2))
    lines.append(
      [
        name,
        *(_us(statistics.median(x)) for x in (old, new)),
        common.spread(old / new),
      ]
    )
  header = [what, "us, the other way", "us, here", "times (quartiles)"]
  return common.Table(title=title, header=header, rows=lines)


def _us(seconds):
  return f"{1e6 * seconds:.{0 if seconds > 1e-5 else 1}f}"


def passes(sizes: list[tuple[int, int]]) -> dict:
  """Passes over T tokens of each row, by both ways that weights may lie."""
  target = BUNDLED / "target"
  both = [models.load(target, "float32", turned=way) for way in (False, True)]
  return {
    f"{rows} x {T}": [_pass(model, rows, T, _SLOTS) for model in both]
    for rows, T in sizes
  }


def caches(sizes: list[tuple[int, int]]) -> dict:
  """Passes over T tokens of each row, by the slots for 64 and 128 tokens."""
  model = models.load(BUNDLED / "target", "float32", turned=True)
  both = [
    extents.slots(extents.PLAIN, 64, 128, block)
    for block in (extents.BLOCK, block_here())
  ]
  return {
    f"{rows} x {T}, {both[0]} and {both[1]}": [
      _pass(model, rows, T, slots) for slots in both
    ]
    for rows, T in sizes
  }


def _pass(model, rows, T, slots):
  """What runs a pass of a model, once warm, and gives its seconds."""
  scale = dataclasses.replace(TOY, loops=10, repeats=1)
  run = one_pass(scale, model, rows, T, slots, _PROMPT)
  run(model.params)
  return lambda: run(model.params)


def numbers(counts: list[int], loops: int) -> dict:
  """So many numbers of a key, as floats."""

  def jaxs(key, count):
    return jax.random.uniform(key, (count,), jnp.float32)

  def ours(key, count):
    return threefry.uniform(key, count, jnp.float32)

  def timed(draw, count):
    def step(i, total):
      data = jax.random.key_data(jax.random.key(0)) + i.astype(np.uint32)
      return total + draw(jax.random.wrap_key_data(data), count)

    return _timed(step, jnp.zeros(count), (), loops)

  return {
    str(count): [timed(draw, count) for draw in (jaxs, ours)]
    for count in counts
  }


def verifications(names: list[str], rows: int, V: int, loops: int) -> dict:
  """All laws of both rules, and the traversal's decision, of a batch."""
  cases = {}
  for name in names:
    own = tree.parse(name)
    given = [_draft(own, V, seed) for seed in range(rows)]
    batch = [jnp.stack(column) for column in zip(*given, strict=True)]

    def one(forms, own, tokens, eta, q, p):
      given = own, decisions.PROPOSAL, tokens, q, p
      decide, law = forms[-1].both(*given)
      made, law = decide(eta), law()
      laws = [form.stop_law(*given) for form in forms[:-1]]
      # The whole law is wanted of a decision: a token is drawn from it.
      sums = map(jnp.sum, (*laws, law, made.residual))
      return sum(sums) + made.node.astype(p.dtype)

    def step(forms, own, i, total, *batch):
      del i
      # Other numbers in each round, or it is computed once.
      tokens, eta, q, p = batch
      eta = eta + 1e-9 * total[:1, None]
      q, p = (laws * (1 + 0 * total[0]) for laws in (q, p))
      decide = functools.partial(one, forms, own)
      given = tokens, eta, q, p
      return total + 1e-9 * jax.lax.map(lambda row: decide(*row), given)

    level = [VERIFIERS[rule] for rule in _RULES]
    loop = [VERIFIERS[f"{rule}_loop"] for rule in _RULES]
    cases[name] = [
      _timed(
        functools.partial(step, forms, own),
        jnp.zeros(rows),
        batch,
        loops,
      )
      for forms in (loop, level)
    ]
  return cases


def _draft(own, V, seed):
  drafts = decisions.make_drafts(own, V, 1, seed)
  logits = jnp.asarray(drafts.draft), jnp.asarray(drafts.target)
  q, p = decisions.to_laws(own, *logits)
  eta = np.random.default_rng(seed).random(len(own), np.float32)
  return drafts.tokens[0], eta, q, p


def _timed(step: Callable, carry, more, loops: int) -> Callable:
  """Seconds of a step in a loop of a program."""

  def loop(count, carry, more):
    return jax.lax.fori_loop(0, count, lambda i, x: step(i, x, *more), carry)

  program = jax.jit(loop).lower(jnp.int32(0), carry, more).compile()

  def run():
    begin = time.perf_counter()
    jax.block_until_ready(program(jnp.int32(loops), carry, more))
    return (time.perf_counter() - begin) / loops

  run()
  return run


def main(arguments: list[str]) -> int:
  """The command."""
  parser = argparse.ArgumentParser(
    prog="python -m benchmarks.cpu", description=__doc__
  )
  parser.add_argument("--rounds", type=int, default=9, help="of turns")
  parser.add_argument(
    "--short", action="store_true", help="a case of each, to see that it works"
  )
  flags = parser.parse_args(arguments)
  if flags.rounds < 1:
    parser.error("--rounds: give a positive number")
  sizes = [(1, 1), (1, 2), (1, 4), (1, 6), (1, 8), (1, 16), (1, 26), (1, 63)]
  sizes, counts = [*sizes, (16, 1), (8, 6)], [64, 256, 1024, 4096]
  few = [(1, 1), (1, 6), (1, 26), (16, 1)]
  trees, rows, V, loops = ["chain:5", "eagle", "kary:2x5"], 8, 4096, 20
  if flags.short:
    sizes, counts, trees, rows, V, loops = [(1, 2)], [64], ["chain:2"], 2, 32, 2
    few = sizes
  lines = common.setting("benchmarks.cpu", arguments)
  print("\n".join(lines), flush=True)
  of_rows = f"Verifications of {rows} rows, V = {V}"
  for title, what, cases in (
    ("Passes of the bundled target", "rows x T", passes(sizes)),
    ("Slots of its cache", "rows x T, slots", caches(few)),
    ("Numbers of a key", "how many", numbers(counts, 10 * loops)),
    (of_rows, "tree", verifications(trees, rows, V, loops)),
  ):
    compare(title, what, cases, flags.rounds).show()
  return 0


if __name__ == "__main__":
  cli.until_told(lambda heard: main(sys.argv[1:]))
