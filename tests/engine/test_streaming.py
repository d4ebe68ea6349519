"""An answer cycle by cycle: `generate`'s tokens, and which were drafted."""

import dataclasses
import inspect

import pytest

import tv_jax
from tests.lib.checkpoints import pair
from tests.lib.decoding import ASKED, PROMPTS, bundled
from tv_jax.verifiers import VERIFIERS


@pytest.mark.parametrize(
  ("kind", "options"),
  [
    ("independent", {"verifier": "plain"}),
    pytest.param(
      "eagle",
      {"tree": "chain:3", "verifier": "token_level"},
      marks=pytest.mark.long,
    ),
  ],
)
def test_stream_yields_the_tokens_of_generate(kind, options):
  options = {"max_new_tokens": 23, "seed": 3, **options}
  prompt, item = PROMPTS[2], 7
  free = [*tv_jax.stream(pair(kind), prompt, item=item, ends=(), **options)]
  free = [token for tokens, _ in free for token in tokens]
  ends = (free[10],)
  whole = tv_jax.generate(
    pair(kind), [prompt], items=[item], ends=ends, **options
  )
  same(
    whole, tv_jax.stream(pair(kind), prompt, item=item, ends=ends, **options)
  )
  assert whole.tokens[0] == free[: free.index(free[10]) + 1]
  assert len(free) == 23


@pytest.mark.long
def test_a_text_ends_a_stream_as_it_ends_an_answer():
  options = {"template": "chat", "tree": "chain:3", "max_new_tokens": 40}
  free = tv_jax.generate(bundled(), ASKED[0], **options)
  stop = free.text[0][12:21]
  whole = tv_jax.generate(bundled(), ASKED[0], stop=stop, **options)
  same(whole, tv_jax.stream(bundled(), ASKED[0], stop=stop, **options))
  assert len(whole.tokens[0]) < len(free.tokens[0])


def same(generated, cycles):
  cycles = [*cycles]
  gained = generated.gained[0].tolist()[: len(cycles)]
  told = [token for own, _ in cycles for token in own]
  assert told == generated.tokens[0]
  assert [len(own) for own, _ in cycles][:-1] == gained[:-1]
  # An end token cuts off the bonus token and drafted tokens before it.
  assert [drafted for _, drafted in cycles] == [
    min(gain - 1, len(own))
    for gain, (own, _) in zip(gained, cycles, strict=True)
  ]


def test_faults_are_told_at_the_end():
  def broken(draft, eta):
    found = VERIFIERS["traversal"].decide(draft, eta)
    return dataclasses.replace(found, node=found.node * 0 + 99)

  cycles = tv_jax.stream(
    pair(), [5], verifier=broken, tree="chain:1", max_new_tokens=2, ends=()
  )
  with pytest.warns(RuntimeWarning, match="2 cycles met a fault") as warned:
    assert [drafted for _, drafted in cycles] == [0, 0]
  assert warned[0].filename == __file__  # of the line that asked


def test_wrong_options_are_refused_at_the_call():
  with pytest.raises(ValueError, match="max_new_tokens=0"):
    tv_jax.stream(pair(), [5], max_new_tokens=0)
  with pytest.raises(ValueError, match="prompt 0 is empty"):
    tv_jax.stream(pair(), [])
  assert inspect.isgenerator(tv_jax.stream(pair(), [5]))
