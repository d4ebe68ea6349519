"""Generation through the public API: exact, independent of company, checked."""

import dataclasses
import functools
import inspect

import jax
import numpy as np
import pytest

import tv_jax
from tests.lib import bad, checkpoints, quick
from tests.lib.checkpoints import pair
from tests.lib.decoding import generate, greedy
from tv_jax.engine import cycle, programs
from tv_jax.engine.config import (
  COLDEST_DRAFT,
  DecodeConfig,
  Options,
  decode_config,
)
from tv_jax.engine.generate import encode_prompts
from tv_jax.engine.pair import Pair
from tv_jax.models import templates


@pytest.mark.parametrize(
  ("kind", "shape", "verifier"),
  quick.shorter(
    [
      ("eagle", "kary:2x2", "token_level"),
      ("independent", "chain:1", "plain"),
      ("independent", "eagle", "traversal"),
      ("eagle3", "chain:3", "traversal"),
      ("self", "branching:2,1,2", "traversal_reference"),
      ("dspark", "kary:2x2", "traversal"),
      ("dspark", "chain:4", "block"),
      ("dflash", "branching:3,1,2", "traversal"),
    ],
    keep=2,
  ),
)
def test_temperature_0_is_greedy_decoding(kind, shape, verifier):
  result = generate(
    kind,
    tree=shape,
    verifier=verifier,
    temperature=0,
    max_new_tokens=64,
    ends=(),
  )
  assert result.tokens == greedy()


class TestLengths:
  @pytest.mark.parametrize("limit", [1, 7, 16])
  def test_a_limit_in_the_middle_of_a_path(self, limit):
    result = generate(
      "self", temperature=0, max_new_tokens=limit, ends=(), tree="chain:3"
    )
    assert result.tokens == [own[:limit] for own in greedy()]
    # What is gained is counted before the cut.
    for own, accepted in zip(result.tokens, result.gained, strict=True):
      assert accepted.sum() >= len(own) > accepted[:-1].sum()

  def test_an_end_inside_an_accepted_path(self):
    texts = [own[:16] for own in greedy()]
    # For each prompt, some token that it reaches in the midst of a path.
    ends = {own[place] for own, place in zip(texts, (5, 6, 9, 14), strict=True)}
    result = generate(
      "self", temperature=0, max_new_tokens=16, ends=[*ends], tree="chain:3"
    )
    cut = [next(i for i, t in enumerate(own) if t in ends) for own in texts]
    expected = [own[: i + 1] for own, i in zip(texts, cut, strict=True)]
    assert result.tokens == expected
    assert len({*map(len, expected)}) > 1  # some rows waited for others
    accepted = [own.sum() for own in result.gained]
    assert any(a > len(t) for a, t in zip(accepted, expected, strict=True))

  @pytest.mark.parametrize("kind", quick.shorter(["independent", "eagle"]))
  def test_prompts_of_one_token_more_than_a_bucket(self, kind):
    prompts = [[(7 * i) % 48 for i in range(length)] for length in (17, 33)]
    options = {"temperature": 0, "max_new_tokens": 8, "ends": ()}
    texts = np.zeros((2, 33 + 8), np.int32)
    result = generate(kind, prompts, tree="chain:1", **options)
    for row, prompt, own in zip(texts, prompts, result.tokens, strict=True):
      row[: len(prompt) + 8] = [*prompt, *own]
    best = np.asarray(pair().target.logits(texts)).argmax(axis=2)
    for row, prompt, own in zip(best, prompts, result.tokens, strict=True):
      assert own == row[len(prompt) - 1 :][:8].tolist()

  @pytest.mark.long
  @pytest.mark.parametrize("kind", ["eagle", "dspark"])
  def test_prompts_that_are_read_in_pieces(self, monkeypatch, kind):
    prompt = [[(5 * i) % 47 for i in range(60)], [3, 4]]
    whole = generate(kind, prompt)
    monkeypatch.setattr(cycle, "CHUNK", 16)
    programs.forget_programs()
    pieces = generate(kind, prompt)
    programs.forget_programs()
    assert pieces.tokens == whole.tokens


def test_realised_and_expected_lengths_agree():
  prompts = [[i, i + 1] for i in range(32)]
  options = {
    "max_new_tokens": 64,
    "batch_size": 32,
    "panel": ["token_level"],
    "ends": (),
  }
  result = generate(prompts=prompts, **options)
  assert abs(result.check.mean) < 4 * result.check.error
  assert result.check.error < 0.05
  assert {*result.expected} == {"traversal", "token_level"}
  text = repr(result)
  for words in ("realised - expected", "traversal", "tokens/s", "compilation"):
    assert words in text
  # Counts by node and by depth.
  gained = result.stops @ (result.tree.depth + 1)
  assert result.stops.sum() == result.cycles
  assert gained == sum(row.sum() for row in result.gained)
  assert result.depth_acceptance.sum() == pytest.approx(
    result.acceptance_length.mean
  )
  # A row depends on its number and the seed.
  again = generate(prompts=prompts, **options)
  assert again.tokens == result.tokens
  assert generate(prompts=prompts, seed=1, **options).tokens != result.tokens
  twins = generate(prompts=[prompts[0]] * 32, **options)
  assert len({tuple(row) for row in twins.tokens}) == 32


class TestRefusals:
  """One clear line, before anything is compiled."""

  @pytest.fixture(autouse=True)
  def _nothing_is_compiled(self, monkeypatch):
    def compile(*arguments, **options):
      raise AssertionError("compiled")

    monkeypatch.setattr(programs, "program", compile)

  @pytest.mark.parametrize(
    ("prompts", "words"),
    [
      ([], "no prompts"),
      ([{"role": "user", "content": "hello"}], "no tokenizer"),
      ([[1], [2, 48]], "prompt 1=48: give an integer from 0 to 47"),
      ([[1] * 489], "prompt 0 of 489 tokens and max_new_tokens=24"),
    ],
  )
  def test_of_prompts(self, prompts, words):
    with bad.refused(words):
      generate(prompts=prompts)

  @pytest.mark.parametrize(
    ("options", "words"),
    [
      ({"verifier": "block"}, "chains only"),
      ({"tree": "chain:512"}, "the pair has only 512 positions"),
      ({"draft_temperature": -1}, "draft_temperature=-1"),
      ({"ends": [48]}, "ends="),
      ({"stop": 3}, "stop=3: give"),
      ({"stop": [""]}, "stop=['']: give texts"),
      ({"stop": "x"}, "no tokenizer to find texts with"),
      ({"seed": 2**32}, "seed=4294967296: give an integer from 0 to 42949672"),
      (
        {"verifier": "plain", "among": ["block"]},
        "plain decoding has no rules",
      ),
      (
        {"panel": [lambda *draft: None]},
        "has no stopping distribution to compute",
      ),
    ],
  )
  def test_of_options(self, options, words):
    with bad.refused(words):
      generate(**options)

  def test_of_speculation_without_a_draft(self):
    with pytest.raises(ValueError, match="no draft"):
      tv_jax.generate(pair("none"), [[1]])

  def test_of_another_vocabulary(self):
    other = checkpoints.ours(checkpoints.tiny(vocab_size=50), 1)
    with pytest.raises(ValueError, match="50 is not the target's"):
      Pair(target=pair().target, draft=other)


def test_the_options_stand_in_the_signatures():
  """With the same types and defaults in all functions."""
  options = inspect.signature(Options).parameters
  ours = inspect.signature(tv_jax.generate).parameters
  assert {name: ours[name] for name in options} == options
  theirs = inspect.signature(tv_jax.stream).parameters
  shared = options.keys() & theirs.keys()
  assert {name: theirs[name] for name in shared} == {
    name: options[name] for name in shared
  }
  for name in ours.keys() - {"pair", "prompts"}:
    assert ours[name].kind is inspect.Parameter.KEYWORD_ONLY
    assert f"    {name}: " in tv_jax.generate.__doc__
  with pytest.raises(TypeError, match=r"^generate\(\) .* 'max_tokens'"):
    tv_jax.generate(pair(), [[1]], max_tokens=4)


def test_a_config_prints_as_its_docstring_says():
  chain = {"tree": "chain:5", "verifier": "block"}
  for options in (chain, {"verifier": "plain", "top_p": 0.9}):
    line = str(decode_config(pair(), Options(**options)))
    assert f'"{line}"' in " ".join(DecodeConfig.__str__.__doc__.split())


def test_a_summary_shows_every_option_of_the_sampling():
  options = {"temperature": 0.6, "top_p": 0.9, "top_k": 5}
  options |= {"draft_temperature": 0.8, "draft_stop": 0.3}
  result = generate("dspark", [[5]], max_new_tokens=1, **options)
  (line,) = [x for x in repr(result).splitlines() if x.startswith("decoding")]
  for name, value in options.items():
    assert f"{name} {value}" in line


@pytest.mark.parametrize("verifier", ["plain", "traversal"])
def test_after_a_nan_all_methods_draw_from_the_finite_entries(verifier):
  whole = pair()
  embedding = whole.target.params["embedding"] * np.nan
  params = whole.target.params | {"embedding": embedding}
  target = dataclasses.replace(whole.target, params=params)
  broken = dataclasses.replace(whole, target=target)
  options = {"tree": "chain:1", "max_new_tokens": 24, "ends": ()}
  with pytest.warns(RuntimeWarning, match="cycles met a fault"):
    result = tv_jax.generate(broken, [[5]], verifier=verifier, **options)
  assert result.faults == result.cycles == 24
  assert len({*result.tokens[0]}) > 8  # no entry is finite: all are as likely


def test_an_independent_drafts_positions_limit_an_answer():
  draft = checkpoints.ours(checkpoints.tiny(max_position_embeddings=32), 1)
  short = dataclasses.replace(pair(), draft=draft)
  with bad.refused("prompt 0 of 9 tokens and", "in the 32 positions"):
    tv_jax.generate(short, [[1] * 9], tree="chain:1", max_new_tokens=24)
  tv_jax.generate(short, [[1] * 9], verifier="plain", max_new_tokens=24)


def test_a_program_is_compiled_once():
  small = functools.partial(generate, verifier="plain")
  programs.forget_programs()
  for seed, temperature, limit in [(0, 1.0, 24), (1, 0.7, 20), (2, 1.3, 32)]:
    small(seed=seed, temperature=temperature, max_new_tokens=limit)
  small(prompts=[[3] * 9, [1], [2], [1, 2]])
  assert programs._compile.cache_info().misses == 2
  with jax.default_matmul_precision("highest"):
    small()
  assert programs._compile.cache_info().misses == 4


def test_each_of_several_rules_has_the_same_program():
  first, second = (
    decode_config(
      pair(),
      Options(tree="chain:2", verifier=rule, among=["traversal", "block"]),
    )
    for rule in ("traversal", "block")
  )
  assert first.static == second.static
  assert first.name == "traversal" != second.name


@pytest.mark.parametrize(
  ("asked", "count"),
  [
    ("What does a fox eat?", 1),
    ([{"role": "user", "content": "What does a fox eat?"}], 1),
    ([[{"role": "user", "content": "What does a fox eat?"}], "Yes", [5]], 3),
  ],
)
def test_prompts_may_be_messages_and_a_single_one(bundled, asked, count):
  template = "chat" if count == 1 else "raw"
  found = encode_prompts(bundled, asked, template, 8)
  chat = templates.encode("chat", bundled.tokenizer, ["What does a fox eat?"])
  assert found[0] == chat
  assert len(found) == count
  assert found[1:] in ([], [bundled.tokenizer("Yes").input_ids, [5]])


@pytest.mark.parametrize(
  ("options", "drawn"),
  [
    ({"temperature": 0.6}, 0.6),
    ({"temperature": 0}, COLDEST_DRAFT),
    ({"temperature": 0.6, "draft_temperature": 1.0}, 1.0),
    ({"proposal": "top_k", "temperature": 0.6}, 1.0),
    ({"verifier": "plain", "tree": "missing.json"}, 1.0),  # it is not read
  ],
  ids=str,
)
def test_the_default_temperature_of_a_draft(options, drawn):
  assert decode_config(pair(), Options(**options)).draft_temperature == drawn
