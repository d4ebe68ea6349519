"""What merging costs and saves: shifts of expected lengths, bytes a cycle.

    JAX_PLATFORMS=cpu python -m benchmarks.replay

Laws. Two kinds of random rows, made as `benchmarks/verify.py` makes them: the
target's logits are `scale` times a normal variate, the draft's the same plus
`noise` times another. "peaked" is that benchmark's (5 and 0.6); in "flat" (1
and 0.5) the 64 likeliest tokens hold a few percent of the mass, so that nearly
all of it is merged. Tokens are drawn by each proposal, anew for each cycle.

Shifts. Each rule gives its expected length on the whole laws and on the merged
ones; of a rule's two forms, which agree, the loop is run. A cell is the shift
of the mean over cycles, and behind it the largest shift of a single cycle, both
as shares of the expected length.

Bytes. What one more cycle adds to a file, when every cycle has laws of its own.
"""

import functools
import pathlib
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags

from benchmarks import common
from tv_jax import probs, replay
from tv_jax.edge import cli, names
from tv_jax.proposals import INVALID, PROPOSALS
from tv_jax.replay import merging
from tv_jax.verifiers import VERIFIERS, misfit

_VOCAB = flags.DEFINE_integer("vocab", 128256, "Vocabulary.", 256)
_TREES = cli.define_names(
  "trees", "chain:5 kary:2x5 eagle", "As tree.parse reads them."
)
_CYCLES = flags.DEFINE_integer("cycles", 16, "Cycles of each kind.", 1)
_PROPOSALS = cli.define_names("proposals", " ".join(PROPOSALS), "Their names.")
_SEED = flags.DEFINE_integer("seed", 0, "Of laws and tokens.", 0)

# Scale of the target's logits, and of the draft's noise.
KINDS = {"peaked": (5.0, 0.6), "flat": (1.0, 0.5)}
RULES = ("token_level_loop", "traversal_loop", "block")


def make_laws(tree, vocabulary, kind, seed):
  """Random laws q, p [M, V] of the nodes that have children."""
  scale, noise = KINDS[kind]
  rng = np.random.default_rng(seed)
  shape = len(tree.inner), vocabulary
  target = scale * rng.standard_normal(shape, dtype=np.float32)
  draft = target + noise * rng.standard_normal(shape, dtype=np.float32)
  return probs.law(jnp.asarray(draft)), probs.law(jnp.asarray(target))


def draw(tree, proposal, q, cycles, seed):
  """Tokens [cycles, N]."""
  tokens = np.full((cycles, len(tree)), INVALID, np.int32)
  one = jax.jit(jax.vmap(proposal.draw, (0, None, None)), static_argnums=2)
  for place, node in enumerate(tree.inner):
    key = jax.random.fold_in(jax.random.key(seed), place)
    k = int(tree.num_children[node])
    drawn = one(jax.random.split(key, cycles), q[place], k)
    tokens[:, tree.children[node, :k]] = drawn
  return tokens


@functools.partial(jax.jit, static_argnums=(0, 1))
def merge(tree, proposal, tokens, q, p):
  """The cycles over merged alphabets."""
  one = functools.partial(merging.merge, tree, distinct=proposal.distinct)
  return jax.lax.map(lambda own: one(own, q, p), tokens)


def as_cycles(tree, proposal, tokens, q, p):
  """What would be recorded."""
  each = np.arange(len(tokens))
  return replay.Cycles(
    tree=tree,
    proposal=proposal,
    tokens=tokens,
    q=q,
    p=p,
    item=each,
    cycle=each,
  )


def measure(tree, proposal, kind, vocabulary, cycles, seed):
  """{rule: lengths [cycles], whole and merged}; TV(p, q); p that is kept."""
  rule = PROPOSALS[proposal]
  q, p = make_laws(tree, vocabulary, kind, seed)
  tokens = draw(tree, rule, q, cycles, seed)
  merged = jax.device_get(merge(tree, rule, tokens, q, p))
  # All cycles share the whole laws: copies of them are made in use.
  shared = (np.broadcast_to(laws, (cycles, *laws.shape)) for laws in (q, p))
  both = [as_cycles(tree, rule, *own) for own in ((tokens, *shared), merged)]
  lengths = {
    name: [replay.expected_lengths(name, own) for own in both]
    for name in RULES
    if not misfit(VERIFIERS[name], tree, rule)
  }
  distance = float(jnp.abs(q - p).sum(axis=1).mean() / 2)
  top = jax.lax.top_k(jnp.maximum(q, p), merging.KEPT)[1]
  kept = float(jnp.take_along_axis(p, top, axis=1).sum(axis=1).mean())
  return lengths, distance, kept


def shift(whole, merged) -> tuple[float, float]:
  """Of the mean, and the largest of a cycle's."""
  mean = merged.mean(dtype=np.float64) / whole.mean(dtype=np.float64) - 1
  return float(mean), float(np.abs(merged / whole - 1).max())


def bytes_in_file(tree, kind, vocabulary, seed, cycles=6) -> float:
  """What a cycle adds to a file."""
  rule = PROPOSALS["without_replacement"]
  merged = []
  for own in range(cycles):
    q, p = make_laws(tree, vocabulary, kind, [seed, own])
    tokens = draw(tree, rule, q, 1, own)
    merged.append(jax.device_get(merge(tree, rule, tokens, q, p)))
  sizes = []
  for some in (merged[:1], merged):
    arrays = [np.concatenate(column) for column in zip(*some, strict=True)]
    with tempfile.TemporaryDirectory() as folder:
      path = pathlib.Path(folder, "cycles.npz")
      replay.save(path, as_cycles(tree, rule, *arrays))
      sizes.append(path.stat().st_size)
  return (sizes[1] - sizes[0]) / (cycles - 1)


def row(*cells):
  """Prints a line of a Markdown table."""
  print("|", " | ".join(map(str, cells)), "|", flush=True)


def report(vocabulary, trees, cycles, seed, names):
  """Prints everything, as Markdown."""
  print(
    f"{common.versions()}; V = {vocabulary}, {cycles} cycles a row, seed {seed}"
  )
  largest = 0.0, 0.0
  for kind, (scale, noise) in KINDS.items():
    print(f"\n### {kind}: logits {scale:g}, noise {noise:g}\n")
    row("tree", "proposal", "TV(p, q)", "kept p", *RULES)
    row(*["---"] * (4 + len(RULES)))
    for name, tree in trees.items():
      for proposal in names:
        lengths, distance, kept = measure(
          tree, proposal, kind, vocabulary, cycles, seed
        )
        shifts = {rule: shift(*both) for rule, both in lengths.items()}
        largest = tuple(
          max(abs(a), *(abs(b) for b in column))
          for a, column in zip(
            largest, zip(*shifts.values(), strict=True), strict=True
          )
        )
        cells = [
          f"{shifts[rule][0]:+.4%} ({shifts[rule][1]:.4%})"
          if rule in shifts
          else "-"
          for rule in RULES
        ]
        row(name, proposal, f"{distance:.3f}", f"{kept:.1%}", *cells)
  print(f"\nLargest: {largest[0]:.4%} of a mean, {largest[1]:.4%} of a cycle.")
  print("\n### Bytes a cycle\n")
  row("tree", "N", "M", "W", "whole laws", "merged", *KINDS)
  row(*["---"] * (6 + len(KINDS)))
  for name, tree in trees.items():
    N, M, W = len(tree), len(tree.inner), merging.size(tree, vocabulary)
    files = [bytes_in_file(tree, kind, vocabulary, seed) for kind in KINDS]
    row(
      name,
      N,
      M,
      W,
      f"{(N + M) * vocabulary * 4:,}",
      f"{2 * M * W * 4 + 4 * N:,}",
      *(f"{size:,.0f}" for size in files),
    )


def main(heard, arguments):
  """Reads the flags and runs."""
  del heard
  cli.no_arguments(arguments)
  trees = common.parse_trees(" ".join(_TREES.value), common.tree)
  drawn = cli.split(_PROPOSALS.value)
  for name in drawn:
    names.lookup(PROPOSALS, name, "proposal")
  report(_VOCAB.value, trees, _CYCLES.value, _SEED.value, drawn)


if __name__ == "__main__":
  cli.run("benchmarks.replay", main)
