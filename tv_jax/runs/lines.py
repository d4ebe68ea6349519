"""One row of a batch as a line of the store.

Axes: N nodes.
"""

import functools
from collections.abc import Callable

import jax
import numpy as np

from tv_jax import engine
from tv_jax.engine.plan import Records
from tv_jax.engine.trace import Trace
from tv_jax.proposals import INVALID
from tv_jax.tree import Tree, placed


def line(records: Records, row: int, how: engine.Settings, tokenizer) -> dict:
  """What is kept of an answer: from it, every table is made."""
  cycles = int(records.cycles[row])
  tokens = records.tokens[row, : int(records.kept[row])].tolist()
  drafted = {"drafted": records.drafted[row, :cycles].tolist()}
  return {
    "tokens": tokens,
    "text": tokenizer.decode(tokens, skip_special_tokens=True),
    "accepted": records.accepted[row, :cycles].tolist(),
    **(drafted if how.plan.speculation else {}),
    "expected": {
      name: _numbers(records.expected[name][row, :cycles])
      for name, _ in how.plan.panel
    },
    "stops": records.stops[row].tolist(),
    "faults": int(records.faults[row]),
  }


def pieces(tokenizer) -> Callable[[int], str]:
  """What single tokens look like inside a text."""
  # A piece shows its leading space only after another one.
  before = tokenizer("a", add_special_tokens=False).input_ids

  @functools.cache
  def piece(token):
    text = tokenizer.decode([*before, token])
    return text[len(tokenizer.decode(before)) :]

  return piece


def traced(
  trace: Trace,  # its arrays, [cycles, N]
  how: engine.Settings,
  tokens: list[int],
  piece: Callable[[int], str],
) -> list[dict]:
  """The trees of an answer's first cycles, for somebody to look at."""
  tree = how.plan.speculation.tree
  directions = {rule.name: rule.direction for rule in how.rules}
  cycles, end = [], 0
  for i, node in enumerate(trace.node.tolist()):
    end += int(tree.depth[node]) + 1
    own = jax.tree.map(lambda array, i=i: array[i], trace)
    if isinstance(tree, Tree):
      parents = tree.parents
    else:  # without the places where nothing is
      parents, places = placed(own.parent)
      node = int(np.searchsorted(places, node))
      own = jax.tree.map(lambda x, at=places: x[at] if x.ndim else x, own)
    drawn = own.tokens.tolist()
    # The root was not drawn here.
    missing = np.array([True, *(token == INVALID for token in drawn[1:])])
    laws = {
      name: _numbers(np.where(missing, np.nan, getattr(own, name)))
      for name in ("p", "q", "drawn")
    }
    cycles.append(
      {
        "cycle": i,
        "parents": [*parents],
        "pieces": [None if t == INVALID else piece(t) for t in drawn],
        **laws,
        "coins": _numbers(own.coins),
        "stop": {name: _numbers(law) for name, law in own.stop.items()},
        "direction": {name: directions[name] for name in trace.stop},
        "node": node,
        # Where the end or the limit cut, the bonus was not kept.
        "bonus": piece(tokens[end - 1]) if end <= len(tokens) else None,
      }
    )
  return cycles


def _numbers(values) -> list[float | None]:
  """As few digits as give the same float32 again; None for a NaN."""
  values = np.asarray(values, np.float32)
  return [float(str(x)) if np.isfinite(x) else None for x in values]
