import re

import jax
import numpy as np
import pytest

import tv_jax
from tests import checkpoints, quick
from tv_jax.engine.pair import Pair
from tv_jax.models import eagle
from tv_jax.models.model import Head

PROMPTS = [[1, 5, 9], [7], [3, 4, 5, 6, 7, 8, 9, 10, 11], [2, 30, 31]]


def random_pair(kind):
  small = checkpoints.tiny(num_hidden_layers=1)
  target = checkpoints.ours(small)
  if kind == "independent":
    draft = checkpoints.ours(small, seed=1)
  elif kind == "eagle":
    draft = Head(
      config=small,
      params=eagle.init(jax.random.key(0), small, bias=True),
      apply=eagle.Eagle(small, True).apply,
      bias=True,
      mesh=None,
      source="random",
    )
  else:
    draft = None
  return Pair(target=target, draft=draft, draft_kind=kind)


@pytest.mark.parametrize(
  ("kind", "stages", "options"),
  quick.shorter(
    [
      (
        "eagle",
        ["draft", "target", "verify", "commit", "rest"],
        {"tree": "chain:1", "verifier": "token_level", "panel": None},
      ),
      (
        "independent",
        ["draft", "target", "verify", "commit", "rest"],
        {"tree": "branching:2,1"},
      ),
      ("none", ["target", "draw", "commit", "rest"], {"verifier": None}),
    ]
  ),
)
def test_the_stages_apart_do_what_generate_does(kind, stages, options):
  pair = random_pair(kind)
  options = options | {"max_new_tokens": 9, "batch_size": 3, "seed": 5}
  found = tv_jax.profile(pair, PROMPTS, items=[3, 1, 4, 1], **options)
  same = tv_jax.generate(pair, PROMPTS, items=[3, 1, 4, 1], **options)
  assert found.tokens == same.tokens
  # The fourth prompt takes the seat of whichever row is done first.
  first, *others = sorted(map(len, same.accepted[:3]))
  assert found.cycles == max(first + len(same.accepted[3]), *others)
  assert list(found.milliseconds) == stages
  assert all(ms > 0 for ms in found.milliseconds.values())
  assert sum(found.shares.values()) == pytest.approx(1)
  assert found.staged == pytest.approx(sum(found.milliseconds.values()))
  assert found.prefill > 0
  assert found.compile_seconds > 0
  printed = repr(found)
  for name in (*stages, "staged cycle", "in one program"):
    assert re.search(rf"^{name} +-?[\d.]+ +-?[\d.]+%$", printed, re.MULTILINE)
  assert "compilation" in printed


def test_a_profile_refuses_what_generate_refuses():
  pair = random_pair("none")
  with pytest.raises(ValueError, match="no draft to speculate with"):
    tv_jax.profile(pair, PROMPTS)
  with pytest.raises(ValueError, match="items="):
    tv_jax.profile(pair, PROMPTS, verifier=None, items=[1])
  with pytest.raises(ValueError, match="there are no prompts"):
    tv_jax.profile(pair, np.zeros((0, 1), int), verifier=None)
