"""Generation through the public API: exact, independent of company, checked."""

import dataclasses
import functools
import json
import pickle
import re
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tv_jax
from tests import checkpoints
from tv_jax import models, tree
from tv_jax.edge import reading
from tv_jax.engine import batches, program, programs
from tv_jax.engine import settings as settings_lib
from tv_jax.engine.pair import Pair
from tv_jax.engine.settings import Options
from tv_jax.models import templates
from tv_jax.verifiers import VERIFIERS, Verifier

PROMPTS = [[5], [1, 2, 3], [4, 5, 6, 7, 8, 9, 10, 11], [*range(16)]]


@functools.cache
def pair(kind="independent"):
  target = checkpoints.ours(checkpoints.tiny(), 0)
  if kind == "self":
    return Pair(target=target, draft=target, draft_kind="independent")
  if kind == "eagle":
    draft = checkpoints.ours_head(target)
  else:
    draft = checkpoints.ours(checkpoints.tiny(num_hidden_layers=1), 1)
  return Pair(target=target, draft=draft, draft_kind=kind)


def whole(pair, settings, prompts=PROMPTS, longest=0, filler=0):
  """Arguments of `program.generate` for a batch of prompts, without a plan."""
  longest = max(longest, *map(len, prompts))
  batch = batches.assemble(pair, settings, len(prompts), longest)
  padded = np.full(batch.request.prompts.shape, filler, np.int32)
  for row, prompt in zip(padded, prompts, strict=True):
    row[: len(prompt)] = prompt
  key = jax.random.key(settings.seed)
  request = batch.request._replace(
    prompts=jnp.asarray(padded),
    length=jnp.array([*map(len, prompts)], jnp.int32),
    keys=jax.vmap(jax.random.fold_in, (None, 0))(
      key, jnp.arange(len(prompts), dtype=jnp.uint32)
    ),
    limit=jnp.full(len(prompts), settings.limit, jnp.int32),
  )
  return batch.params, request, batches.caches(pair, batch), batch.new


def generate(kind="independent", prompts=PROMPTS, **options):
  options = {"tree": "kary:2x2", "max_new_tokens": 24, **options}
  return tv_jax.generate(pair(kind), prompts, **options)


@functools.cache
def greedy(tokens=256):
  """Plain greedy decoding, one causal pass over the whole text for a token."""
  target, texts = pair().target, []
  width = max(map(len, PROMPTS)) + tokens
  rows = np.zeros((len(PROMPTS), width), np.int32)
  length = np.array([*map(len, PROMPTS)])
  for row, prompt in zip(rows, PROMPTS, strict=True):
    row[: len(prompt)] = prompt
  for _ in range(tokens):
    logits = np.asarray(target.logits(rows))
    rows[np.arange(len(rows)), length] = logits[
      np.arange(len(rows)), length - 1
    ].argmax(axis=1)
    length += 1
  for row, prompt in zip(rows, PROMPTS, strict=True):
    texts.append(row[len(prompt) : len(prompt) + tokens].tolist())
  return texts


class TestGreedy:
  @pytest.mark.parametrize(
    ("kind", "shape", "verifier"),
    [
      pytest.param("independent", "eagle", "traversal", marks=pytest.mark.long),
      ("eagle", "kary:2x2", "token_level"),
      ("self", "chain:3", "block"),
      pytest.param(
        "self", "branching:2,1,2", "traversal_loop", marks=pytest.mark.long
      ),
    ],
  )
  def test_temperature_0_is_greedy_decoding(self, kind, shape, verifier):
    result = generate(
      kind,
      tree=shape,
      verifier=verifier,
      temperature=0,
      max_new_tokens=256,
      ends=(),
    )
    assert result.tokens == greedy()

  def test_all_rules_expect_the_same(self):
    rules = ["token_level", "traversal"]
    options = {"panel": rules, "max_new_tokens": 32, "ends": ()}
    cold = generate("independent", tree="kary:2x2", temperature=0, **options)
    for ours, theirs in zip(*map(cold.expected.get, rules), strict=True):
      np.testing.assert_array_equal(ours, theirs)

  def test_plain_decoding_too(self):
    result = generate(verifier=None, temperature=0, max_new_tokens=256, ends=())
    assert result.tokens == greedy()
    assert all((own == 1).all() for own in result.accepted)


class TestCompany:
  """A row's tokens do not depend on what else is in the batch."""

  @pytest.mark.parametrize(
    "kind", ["independent", pytest.param("eagle", marks=pytest.mark.long)]
  )
  def test_of_other_prompts(self, kind):
    first = generate(kind)
    others = [[40, 41], [7] * 9, [33, 2, 1], [47] * 16]
    for row in range(len(PROMPTS)):
      company = [*others]
      company[row] = PROMPTS[row]
      assert generate(kind, company).tokens[row] == first.tokens[row]

  # In threes the last batch has two rows of padding.
  @pytest.mark.parametrize("size", [3, 1])
  @pytest.mark.long
  def test_of_the_size_of_the_batch(self, size):
    assert generate(batch_size=size).tokens == generate().tokens

  @pytest.mark.long
  def test_of_a_longer_neighbour(self):
    # Another bucket: other shapes, and rounding may differ, but not by much.
    longer = generate(prompts=[*PROMPTS[:3], [*range(40)]])
    assert longer.tokens[:3] == generate().tokens[:3]

  @pytest.mark.long
  def test_of_padding(self):
    how = settings_lib.resolve(pair(), tree="kary:2x2", max_new_tokens=24)
    run = jax.jit(program.generate, static_argnums=(0, 4))
    clean, dirty = (
      run(how.plan, *whole(pair(), how, filler=filler))[0] for filler in (0, 17)
    )
    for name in ("tokens", "accepted", "stops"):
      np.testing.assert_array_equal(getattr(clean, name), getattr(dirty, name))

  def test_of_its_place(self):
    moved = generate(prompts=PROMPTS[::-1], items=[3, 2, 1, 0])
    assert moved.tokens[::-1] == generate().tokens

  def test_but_it_does_on_its_number_and_the_seed(self):
    first = generate()
    assert generate().tokens == first.tokens
    assert generate(seed=1).tokens != first.tokens
    twins = generate(prompts=[PROMPTS[2]] * 4)
    assert len({tuple(own) for own in twins.tokens}) == 4


class TestLengths:
  @pytest.mark.parametrize(
    "limit", [1, 2, 7, 15, 16, pytest.param(17, marks=pytest.mark.long)]
  )
  def test_a_limit_in_the_middle_of_a_path(self, limit):
    result = generate(
      "self", temperature=0, max_new_tokens=limit, ends=(), tree="chain:3"
    )
    assert result.tokens == [own[:limit] for own in greedy()]
    # What is gained is counted before the cut.
    for own, accepted in zip(result.tokens, result.accepted, strict=True):
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
    accepted = [own.sum() for own in result.accepted]
    assert any(a > len(t) for a, t in zip(accepted, expected, strict=True))

  @pytest.mark.long
  def test_the_checkpoints_ends_are_the_default(self):
    own = dataclasses.replace(pair(), ends=(greedy()[0][3],))
    result = tv_jax.generate(
      own, PROMPTS[:1], tree="chain:1", temperature=0, max_new_tokens=24
    )
    place = greedy()[0].index(own.ends[0])
    assert result.tokens == [greedy()[0][: place + 1]]

  @pytest.mark.parametrize("kind", ["independent", "eagle"])
  @pytest.mark.parametrize(
    "lengths",
    [
      (1, 2, 15, 16),
      pytest.param((17, 18, 31, 32), marks=pytest.mark.long),
      pytest.param((33,), marks=pytest.mark.long),
    ],
  )
  def test_prompts_that_fill_their_bucket(self, kind, lengths):
    prompts = [[(7 * i) % 48 for i in range(length)] for length in lengths]
    run = functools.partial(
      generate, kind, prompts, tree="chain:1", temperature=0, ends=()
    )
    plain, speculative = run(verifier=None), run()
    assert plain.tokens == speculative.tokens
    assert {len(own) for own in plain.tokens} == {24}

  @pytest.mark.long
  def test_prompts_that_are_read_in_pieces(self, monkeypatch):
    prompt = [[(5 * i) % 48 for i in range(60)], [3, 4]]
    whole = generate("eagle", prompt)
    monkeypatch.setattr(program, "CHUNK", 16)
    programs.compile.cache_clear()
    pieces = generate("eagle", prompt)
    programs.compile.cache_clear()
    assert pieces.tokens == whole.tokens

  @pytest.mark.parametrize(("length", "read"), [(1, 0), (17, 16), (18, 32)])
  def test_pieces_beyond_the_longest_prompt_are_not_read(
    self, monkeypatch, length, read
  ):
    monkeypatch.setattr(program, "CHUNK", 16)
    how = settings_lib.resolve(pair("eagle"), tree="chain:2")
    asked = whole(pair("eagle"), how, [[3] * length, []], longest=60)
    state = jax.jit(program.prefill, static_argnums=(0, 4))(how.plan, *asked)
    for cache in state.caches:
      written = np.any(np.asarray(cache.keys[0]) != 0, axis=(0, 1, 3))
      assert written.sum() == read
      assert written[:read].all()


class TestStatistics:
  @pytest.mark.parametrize(
    ("kind", "verifier", "proposal"),
    [
      ("independent", "traversal", "without_replacement"),
      pytest.param(
        "eagle", "token_level", "sample_then_top", marks=pytest.mark.long
      ),
    ],
  )
  def test_realised_and_expected_lengths_agree(self, kind, verifier, proposal):
    result = generate(
      kind,
      [[i, i + 1] for i in range(32)],
      verifier=verifier,
      proposal=proposal,
      max_new_tokens=64,
      batch_size=32,
      panel=["traversal", "token_level"],
      ends=(),
    )
    assert abs(result.check.mean) < 4 * result.check.error
    assert result.check.error < 0.05
    assert {*result.expected} == {"traversal", "token_level"}
    text = repr(result)
    for words in ("realised - expected", verifier, "tokens/s", "compilation"):
      assert words in text

  @pytest.mark.long
  def test_a_draft_that_is_the_target_is_always_right(self):
    # 16 tokens are four whole cycles.
    result = generate("self", tree="chain:3", max_new_tokens=16, ends=())
    assert result.acceptance_length.mean > 3.99
    np.testing.assert_allclose(result.depth_acceptance, 1, atol=0.01)

  def test_counts_by_node_and_depth(self):
    result = generate(tree="kary:2x2")
    assert result.stops.sum() == result.cycles
    shape = tree.parse("kary:2x2")
    gained = result.stops @ (shape.depth + 1)
    assert gained == sum(own.sum() for own in result.accepted)
    assert result.node_acceptance[0] == 1
    assert result.depth_acceptance.sum() == pytest.approx(
      result.acceptance_length.mean
    )

  @pytest.mark.long
  def test_without_a_panel_nothing_is_expected(self):
    bare, full = generate(panel=None), generate()
    assert bare.expected == {}
    assert bare.check is None
    assert bare.tokens == full.tokens

  @pytest.mark.long
  def test_a_rule_of_ones_own(self):
    small = functools.partial(generate, tree="chain:1")
    rule = VERIFIERS["token_level_loop"]
    named = small(verifier="token_level")

    def decide(*draft):
      return rule.decide(*draft)

    bare = small(verifier=decide)
    assert bare.tokens == named.tokens
    assert bare.settings.name.endswith(
      "test_a_rule_of_ones_own.<locals>.decide"
    )
    assert bare.expected == {}  # there is no stop law
    assert bare.settings.name in repr(bare)
    own = small(verifier=Verifier(decide=decide, stop_law=rule.stop_law))
    assert own.check is not None

  @pytest.mark.long
  def test_a_nan_is_said_aloud(self):
    target = pair().target
    params = jax.tree.map(lambda x: x * jnp.nan, target.params)
    broken = dataclasses.replace(
      pair(), target=dataclasses.replace(target, params=params)
    )
    with pytest.warns(RuntimeWarning, match="met a fault"):
      result = tv_jax.generate(
        broken, PROMPTS, tree="kary:2x2", max_new_tokens=24
      )
    assert result.tokens[0]
    # Each gained one token, drawn from nothing known.
    assert result.faults == result.cycles == sum(map(len, result.tokens))
    assert "FAULTS" in repr(result)


class TestRefusals:
  """One clear line, before anything is compiled."""

  @pytest.fixture(autouse=True)
  def _nothing_is_compiled(self, monkeypatch):
    def compile(*arguments, **how):
      raise AssertionError("compiled")

    monkeypatch.setattr(programs, "compile", compile)

  @pytest.mark.parametrize(
    ("prompts", "words"),
    [
      ([], "no prompts"),
      (b"hello", "prompts: give a text, messages, or a list"),
      ({"role": "user", "content": "hello"}, "prompts: give a text, messages"),
      ("hello", "no tokenizer"),
      ([{"role": "user", "content": "hello"}], "no tokenizer"),
      ([[1], []], "prompt 1 is empty"),
      ([[1], [2, 48]], "prompt 1 holds token 48: the vocabulary is 0 to 47"),
      ([[-1]], "prompt 0 holds token -1"),
      ([[1] * 489], "prompt 0 of 489 tokens and max_new_tokens=24"),
      ([[1.5]], "prompt 0 is"),
      ([[True, 5]], "prompt 0 is [True, 5]"),
      ([b"ab"], "prompt 0 is"),
      ([["a"]], "prompt 0 is"),
      ([None], "prompt 0 is"),
      ([[[1, 2], [3, 4]]], "prompt 0 is"),
      (["hello"], "no tokenizer"),
    ],
  )
  def test_of_prompts(self, prompts, words):
    with pytest.raises(ValueError, match=r"prompt|tokenizer") as error:
      generate(prompts=prompts)
    assert words in str(error.value)
    assert "\n" not in str(error.value)

  @pytest.mark.parametrize(
    ("options", "words"),
    [
      ({"verifier": "nobody"}, "verifier 'nobody': not one of token_level"),
      ({"proposal": "nothing"}, "proposal 'nothing'"),
      ({"tree": "chain:0"}, "chain:0"),
      ({"tree": 5}, "tree=5"),
      ({"verifier": "block"}, "chains only"),
      ({"temperature": -1}, "temperature=-1"),
      ({"temperature": float("nan")}, "temperature=nan"),
      ({"draft_temperature": 0}, "draft_temperature=0"),
      ({"top_p": 0}, "top_p=0"),
      ({"top_k": -1}, "top_k=-1"),
      ({"max_new_tokens": 0}, "max_new_tokens=0"),
      ({"batch_size": 0}, "batch_size=0"),
      ({"seed": "x"}, "seed='x'"),
      (
        {"seed": 2**32},
        "seed=4294967296: give an integer from 0 to 4294967295",
      ),
      ({"seed": -1}, "seed=-1"),
      ({"panel": ["nobody"]}, "nobody"),
      ({"panel": ["block"]}, "chains only"),
      ({"items": [1]}, "items=[1]"),
      ({"items": [True, 1, 2, 3]}, "items=[True, 1, 2, 3]"),
      ({"items": [0, 1, 2, -3]}, "items="),
      ({"items": [0, 1, 2, 2**32]}, "none negative or above 4294967295"),
    ],
  )
  def test_of_options(self, options, words):
    with pytest.raises(ValueError, match=r"\S") as error:
      generate(**options)
    assert words in str(error.value)

  def test_of_speculation_without_a_draft(self):
    alone = Pair(target=pair().target, draft=None, draft_kind="none")
    with pytest.raises(ValueError, match="no draft"):
      tv_jax.generate(alone, [[1]])

  def test_of_another_vocabulary(self):
    other = checkpoints.ours(checkpoints.tiny(vocab_size=50), 1)
    with pytest.raises(ValueError, match="50 is not the target's"):
      Pair(target=pair().target, draft=other, draft_kind="independent")


class TestProgram:
  def test_it_is_compiled_once(self):
    small = functools.partial(generate, tree="chain:1")
    programs.compile.cache_clear()
    for seed, temperature, limit in [(0, 1.0, 24), (1, 0.7, 20), (2, 1.3, 32)]:
      small(seed=seed, temperature=temperature, max_new_tokens=limit)
    small(prompts=[[3] * 9, [1], [2], [1, 2]])
    assert programs.compile.cache_info().misses == 2
    assert small().compile_seconds < 0.1
    with jax.default_matmul_precision("highest"):
      small()
    assert programs.compile.cache_info().misses == 4

  @pytest.mark.long
  def test_what_it_is_compiled_anew_for(self):
    programs.compile.cache_clear()
    generate()
    generate(tree="chain:2")
    generate(verifier="token_level")
    generate(prompts=[[3] * 17, [1], [2], [1, 2]])
    assert programs.compile.cache_info().misses == 8

  @pytest.mark.parametrize("kind", ["independent", "eagle"])
  def test_its_loop_never_asks_the_host(self, kind):
    settings = settings_lib.resolve(pair(kind), tree="kary:2x2")
    asked = whole(pair(kind), settings)
    jaxpr = jax.make_jaxpr(program.generate, static_argnums=(0, 4))(
      settings.plan, *asked
    ).jaxpr
    names = [equation.primitive.name for equation in jaxpr.eqns]
    assert names.count("while") == 1
    assert not [name for name in _primitives(jaxpr) if "callback" in name]

  def test_a_callback_would_be_seen(self):
    def careless(x):
      return jax.lax.while_loop(
        lambda x: x < 3, lambda x: (jax.debug.print("{}", x), x + 1)[1], x
      )

    jaxpr = jax.make_jaxpr(careless)(0).jaxpr
    assert [n for n in _primitives(jaxpr) if "callback" in n or "print" in n]

  def test_caches_are_used_again(self):
    settings = settings_lib.resolve(pair(), tree="kary:2x2")
    batch = batches.assemble(pair(), settings, 4, 16)
    first = batches.caches(pair(), batch)
    assert batches.caches(pair(), batch, first) is first
    smaller = batches.assemble(pair(), settings, 1, 16)
    assert batches.caches(pair(), smaller, first) is not first


def _primitives(jaxpr):
  """The names of all primitives, those of inner programs too."""
  for equation in jaxpr.eqns:
    yield equation.primitive.name
    for value in equation.params.values():
      for inner in value if isinstance(value, tuple | list) else [value]:
        inner = getattr(inner, "jaxpr", inner)
        if hasattr(inner, "eqns"):
          yield from _primitives(inner)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
  """A target, a draft and a head on disk."""
  folder = tmp_path_factory.mktemp("pair")
  models.save(folder / "target", pair().target)
  models.save(folder / "draft", pair().draft)
  models.save(folder / "head", pair("eagle").draft)
  return folder


class TestLoading:
  @pytest.mark.parametrize(
    ("draft", "kind"),
    [("draft", "independent"), ("head", "eagle")],
  )
  @pytest.mark.long
  def test_a_saved_pair_generates_the_same(self, saved, draft, kind):
    loaded = tv_jax.load(saved / draft, saved / "target", draft_kind=kind)
    assert loaded.ends == (2,)
    assert kind in repr(loaded)
    result = tv_jax.generate(
      loaded, PROMPTS, tree="kary:2x2", max_new_tokens=24, ends=()
    )
    assert result.tokens == generate(kind).tokens

  def test_a_home_is_found(self, saved, monkeypatch):
    monkeypatch.setenv("HOME", str(saved))
    loaded = tv_jax.load("~/draft", "~/target")
    assert loaded.path == str(saved / "target")

  def test_plain_decoding_needs_no_draft(self, saved):
    loaded = tv_jax.load(None, saved / "target", draft_kind="none")
    assert "draft=none" in repr(loaded)
    result = tv_jax.generate(
      loaded, PROMPTS, verifier=None, max_new_tokens=24, ends=()
    )
    assert result.tokens == generate(verifier=None, ends=()).tokens

  @pytest.mark.parametrize(
    ("draft", "kind", "words"),
    [
      ("draft", "medusa", "draft_kind='medusa'"),
      (None, "independent", "needs a draft"),
      ("nowhere", "independent", "neither a directory"),
      ("draft", "eagle", "does not hold|EAGLE"),
    ],
  )
  def test_what_is_wrong_is_said(self, saved, draft, kind, words):
    with pytest.raises(ValueError, match=words):
      tv_jax.load(draft and saved / draft, saved / "target", draft_kind=kind)


class TestRulesOfOnesOwn:
  """A rule is named by text, or is itself, and is the same rule."""

  @pytest.fixture
  def module(self, tmp_path, monkeypatch):
    (tmp_path / "own_rule.py").write_text(
      "from tv_jax.verifiers import VERIFIERS, Verifier\n\n"
      "RULE = VERIFIERS['traversal']\n\n"
      "def decide(*draft):\n  return RULE.decide(*draft)\n\n"
      "rule = Verifier(decide=decide, stop_law=RULE.stop_law)\n"
    )
    monkeypatch.chdir(tmp_path)
    yield "own_rule"
    sys.modules.pop("own_rule", None)

  @pytest.mark.long
  def test_by_text_and_by_itself_it_does_what_it_is(self, module):
    built_in = generate(panel=["token_level"])
    own = generate(verifier="own_rule:rule", panel=["token_level"])
    assert own.tokens == built_in.tokens
    assert own.settings.name == "own_rule:rule"
    assert [*own.expected] == ["own_rule:rule", "token_level"]
    np.testing.assert_allclose(
      np.concatenate(own.expected["own_rule:rule"]),
      np.concatenate(built_in.expected["traversal"]),
      rtol=1e-6,
    )
    rule = sys.modules[module].rule
    again = settings_lib.resolve(pair(), tree="kary:2x2", verifier=rule)
    by_text = settings_lib.resolve(
      pair(), tree="kary:2x2", verifier="own_rule:rule"
    )
    assert again.plan == by_text.plan  # so that nothing is compiled anew

  def test_a_function_among_names(self, module):
    settings_lib.resolve(pair(), verifier="own_rule:rule")
    decide = sys.modules[module].decide
    how = settings_lib.resolve(
      pair(), verifier="traversal", among=[decide, "traversal"]
    )
    assert (how.rule, how.name) == (1, "traversal")
    assert [r.name for r in how.rules] == ["own_rule:decide", "traversal"]

  def test_two_rules_of_one_name_are_refused(self):
    def make(stop_law):
      def decide(*draft):
        return VERIFIERS["traversal"].decide(*draft)

      return Verifier(decide=decide, stop_law=stop_law)

    laws = [VERIFIERS[name].stop_law for name in ("traversal", "token_level")]
    one, two = map(make, laws)
    with pytest.raises(ValueError, match="two verifiers are called"):
      settings_lib.resolve(pair(), verifier=one, panel=[two])
    one, two = (
      dataclasses.replace(rule, name=name)
      for rule, name in ((one, "one"), (two, "two"))
    )
    how = settings_lib.resolve(pair(), verifier=one, panel=[two])
    assert len(how.plan.panel) == 2

  @pytest.mark.parametrize(
    ("options", "message"),
    [
      ({"panel": ["own_rule:decide"]}, "has no stop law to expect lengths"),
      ({"panel": "traversal"}, "give a list of rules"),
      ({"among": "traversal"}, "give a list of rules"),
      ({"among": ["token_level"]}, "'traversal', which is to decide"),
      ({"panel": ["block"]}, "defined for chains only"),
      ({"among": ["traversal", "block"]}, "defined for chains only"),
      ({"verifier": "own_rule:nothing"}, "own_rule has no 'nothing'"),
      ({"proposal": "own_rule:rule"}, "give a name, module:name, or a Prop"),
      ({"tree": "own_rule:rule"}, "it should be a Tree"),
    ],
    ids=str,
  )
  def test_what_serves_nothing_is_refused(self, module, options, message):
    with pytest.raises(ValueError, match=message):
      settings_lib.resolve(pair(), **{"tree": "kary:2x2", **options})


@pytest.mark.long
def test_compiled_programs_can_be_forgotten():
  options = {"prompts": PROMPTS[:1], "tree": "chain:1", "max_new_tokens": 4}
  first = generate(**options)
  assert generate(**options).compile_seconds < 0.1
  tv_jax.forget_programs()
  assert programs.compile.cache_info().currsize == 0
  again = generate(**options)
  assert again.tokens == first.tokens
  assert programs.compile.cache_info().misses == 2


@pytest.mark.long
def test_a_pickled_result_has_its_text_and_not_the_weights():
  bundled = tv_jax.load(reading.BUNDLED / "draft", reading.BUNDLED / "target")
  options = {"tree": "chain:2", "max_new_tokens": 8}
  result = tv_jax.generate(bundled, ["Once"], **options)
  data = pickle.dumps(result)
  assert len(data) < 100_000
  again = pickle.loads(data)
  assert again.pair is None
  assert (again.tokens, again.text) == (result.tokens, result.text)
  assert str(again) == str(result)


@pytest.fixture(scope="module")
def bundled():
  return tv_jax.load(reading.BUNDLED / "draft", reading.BUNDLED / "target")


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
  found = batches.encode(bundled, asked, template, 8)
  chat = templates.encode("chat", bundled.tokenizer, ["What does a fox eat?"])
  assert found[0] == chat
  assert len(found) == count
  assert found[1:] in ([], [bundled.tokenizer("Yes").input_ids, [5]])


def test_messages_are_not_for_another_template(bundled):
  said = [[{"role": "user", "content": "What?"}]]
  with pytest.raises(ValueError, match="the tokenizer's own template is for"):
    tv_jax.generate(bundled, said, template="vicuna")


def test_every_option_is_told_of():
  assert Options.__annotations__.keys() > {"tree", "verifier", "trace"}
  for option in Options.__annotations__:
    assert re.search(rf"\b{option}( \(|:)", tv_jax.generate.__doc__)


COOL = "bundled/trees/draft_weak_cool-traversal.25.json"  # tuned at 1 and 0.55
SHAPED = "adaptive:2,2@bundled/calibrations/draft_weak_cool.json"


@pytest.mark.parametrize(
  ("options", "drawn"),
  [
    ({"tree": COOL}, 0.55),
    ({"tree": SHAPED}, 0.55),
    ({"tree": COOL, "temperature": 0.6}, 0.6 * 0.55),
    ({"tree": COOL, "temperature": 0}, settings_lib.COLDEST_DRAFT),
    ({"tree": COOL, "draft_temperature": 1.0}, 1.0),  # who says it, has it
    ({"tree": COOL, "proposal": "top_k", "temperature": 0.6}, 1.0),
    ({"tree": tree.parse(COOL)}, 1.0),
    ({"tree": "bundled/trees/draft-traversal.25.json"}, 1.0),
    ({"tree": "eagle", "temperature": 0.6}, 0.6),
    ({"verifier": None, "temperature": 0.6}, 0.6),
  ],
  ids=str,
)
def test_a_draft_is_as_cool_as_the_tree_was_tuned_for(options, drawn):
  settings = settings_lib.resolve(pair(), **options)
  assert settings.draft_temperature == pytest.approx(drawn, rel=1e-15)


def test_of_greedy_decoding_nothing_is_in_proportion(tmp_path):
  path = tmp_path / "own.json"
  told = {"parents": [-1, 0], "draft_temperature": 0.8, "temperature": 0}
  path.write_text(json.dumps(told))
  for asked, drawn in ((0, 0.8), (0.1, 0.8), (1.0, 1.0)):
    how = settings_lib.resolve(pair(), tree=str(path), temperature=asked)
    assert how.draft_temperature == drawn


def test_what_would_be_no_temperature_is_refused(tmp_path):
  path = tmp_path / "own.json"
  told = {"parents": [-1, 0], "draft_temperature": 1e20, "temperature": 1}
  path.write_text(json.dumps(told))
  with pytest.raises(ValueError, match="draft_temperature=1e"):
    settings_lib.resolve(pair(), tree=str(path), temperature=1e20)


def test_plain_decoding_reads_no_tree():
  how = settings_lib.resolve(pair(), tree="missing.json", verifier=None)
  assert how.draft_temperature == 1.0


def test_a_file_that_says_nothing_new_changes_nothing(tmp_path):
  """Its draft is at the target's temperature, at any."""
  path = tmp_path / "own.json"
  for own, target in ((0.1, 0), (0.1, 0.05), (0.7, 0.7)):
    told = {"draft_temperature": own, "temperature": target}
    path.write_text(json.dumps({"parents": [-1, 0]} | told))
    for asked in (0, 0.05, 0.7, 1.3):
      by_file, by_name = (
        settings_lib.resolve(pair(), tree=named, temperature=asked)
        for named in (str(path), "chain:1")
      )
      assert by_file.draft_temperature == by_name.draft_temperature


@pytest.mark.parametrize("name", ["generate", "profile", "record"])
@pytest.mark.parametrize(
  ("option", "meant"),
  [
    ("max_tokens", "max_new_tokens"),
    ("temp", "temperature"),
    ("topk", "top_k"),
    ("n_samples", "template"),  # whatever is nearest, or all there are
    ("zzz", "max_new_tokens"),
  ],
)
def test_an_option_that_there_is_not_is_named(name, option, meant):
  arguments = (pair(), PROMPTS) + (("x.npz",) if name == "record" else ())
  with pytest.raises(TypeError, match=r"^no option") as error:
    getattr(tv_jax, name)(*arguments, **{option: 1})
  message = str(error.value)
  assert repr(option) in message
  assert meant in message.partition(": ")[2]


def test_a_warning_is_of_the_line_that_asked():
  target = pair().target
  params = jax.tree.map(lambda x: x * jnp.nan, target.params)
  broken = Pair(
    target=dataclasses.replace(target, params=params),
    draft=None,
    draft_kind="none",
  )
  with pytest.warns(RuntimeWarning, match="met a fault") as told:
    tv_jax.generate(broken, PROMPTS[:1], verifier=None, max_new_tokens=1)
  assert told[0].filename == __file__
