"""What is named by text or by itself is found, and has one name."""

import dataclasses
import sys

import pytest

from tests.lib.decoding import bundled
from tv_jax import proposals, tree, verifiers
from tv_jax.engine.config import Options, decode_config
from tv_jax.io import names
from tv_jax.proposals import PROPOSALS
from tv_jax.verifiers import VERIFIERS, Verifier

MODULE = """
import functools

import numpy as np

import my_helper
from my_constants import SCALE
from tv_jax import tree
from tv_jax.proposals import WITH_REPLACEMENT, Proposal
from tv_jax.verifiers import VERIFIERS, Verifier

traversal = VERIFIERS["traversal"]


def decide(draft, eta, scale=1):
  return my_helper.same(traversal.decide)(draft, eta)


def make(k):
  def decide(draft, eta, scale=1):
    return k

  return decide


class Held:
  wide = tree.chain(2)


rule = Verifier(decision=decide)
of_factory = make(3)
bound = functools.partial(decide, scale=0)
mine = Proposal(
  draw=lambda key, q, k: WITH_REPLACEMENT.draw(key, q, k),
  laws=WITH_REPLACEMENT.laws,
  following=WITH_REPLACEMENT.following,
)
wide = tree.kary(2, 2)
number = 5
"""
HELPER = (
  "def same(x):\n  return x\n\n\ndef bare(scale, draft, eta):\n  return scale\n"
)
CONSTANTS = "SCALE = 1.0\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
  """A user's own folder, the current one; only `names` puts it on the path."""
  files = {"my_module": MODULE, "my_helper": HELPER}
  files["my_constants"] = CONSTANTS
  for name, text in files.items():
    (tmp_path / f"{name}.py").write_text(text)
  monkeypatch.chdir(tmp_path)
  monkeypatch.setattr(sys, "path", [p for p in sys.path if p])
  yield tmp_path
  for name in files:
    sys.modules.pop(name, None)


@pytest.mark.parametrize(
  ("text", "wanted"),
  [
    ("chain:5,kary:2x5", ["chain:5", "kary:2x5"]),
    ("branching:4,2,1, eagle a:b", ["branching:4,2,1", "eagle", "a:b"]),
  ],
)
def test_names_stand_with_spaces_or_commas_between(text, wanted):
  assert names.split(text) == wanted


def test_a_users_rule_proposal_and_tree_are_imported(folder):
  before = list(sys.path)
  rule = verifiers.resolve("my_module:rule")
  assert sys.path == before
  module = sys.modules["my_module"]
  assert rule.decision is module.decide
  assert verifiers.resolve("my_module:decide").decision is module.decide
  assert proposals.resolve("my_module:mine").laws is module.mine.laws
  assert tree.parse("my_module:wide") == tree.kary(2, 2)
  assert tree.parse("my_module:Held.wide") == tree.chain(2)


def test_a_name_is_the_text_or_the_given_one_or_the_functions(folder):
  for text in ("my_module:rule", "my_module:of_factory", "my_module:bound"):
    assert verifiers.resolve(text).name == text
  module = sys.modules["my_module"]
  for thing in (module.rule, module.decide, module.bound):
    assert verifiers.resolve(thing).name == "my_module:decide"
  assert verifiers.resolve(module.of_factory).name.endswith("<locals>.decide")
  named = Verifier(decision=module.bound, name="first")
  assert verifiers.resolve(named).name == "first"
  assert verifiers.resolve(named) == named


def test_nothing_of_ones_own_has_a_built_ins_name(folder):
  """Rules for independent draws know these by name."""
  token_level = VERIFIERS["token_level"]
  mine = dataclasses.replace(token_level, name="traversal")
  with pytest.raises(ValueError, match="your own has the name 'traversal'"):
    verifiers.resolve(mine)
  mine = dataclasses.replace(PROPOSALS["top_k"], name="with_replacement")
  with pytest.raises(ValueError, match="give it another, as in Proposal"):
    proposals.resolve(mine)
  same = dataclasses.replace(VERIFIERS["traversal"])
  assert verifiers.resolve(same) == VERIFIERS["traversal"]
  assert verifiers.resolve("my_module:traversal").name == "my_module:traversal"


def test_two_rules_of_one_name_are_refused():
  rules = [dataclasses.replace(rule, name="x") for rule in VERIFIERS.values()]
  with pytest.raises(ValueError, match="two verifiers are called 'x'"):
    decode_config(bundled(), Options(panel=rules[:2]))


@pytest.mark.parametrize(
  ("text", "message"),
  [
    ("nothing", "not one of .*, nor module:name"),
    ("my_module:number", "give a name, module:name"),
    ("no_module:decide", "No module named 'no_module'; run from the module's"),
  ],
)
def test_a_name_of_nothing_is_refused(folder, text, message):
  for resolve in (verifiers.resolve, proposals.resolve):
    with pytest.raises(ValueError, match=f"{text}.*{message}"):
      resolve(text)


def test_an_object_of_another_type_is_refused(folder):
  for thing in (None, object(), Verifier):
    for module in (verifiers, proposals):
      with pytest.raises(ValueError, match="give a name"):
        module.resolve(thing)
    with pytest.raises(ValueError, match="give a Tree or a text"):
      tree.resolve(thing)
  for text in ("my_module:rule", "my_module:nothing", "kary:x"):
    with pytest.raises(ValueError, match=f"tree '{text}'"):
      tree.resolve(text)


class TestSources:
  @pytest.mark.parametrize(
    "file", ["my_module.py", "my_helper.py", "my_constants.py"]
  )
  @pytest.mark.parametrize("text", ["my_module:rule", "my_module:bound"])
  def test_a_changed_source_changes_the_hash(self, folder, file, text):
    """Also where the functions are the helper's alone."""
    with (folder / "my_module.py").open("a") as source:
      source.write("bound = functools.partial(my_helper.bare, 4)\n")
    rule = verifiers.resolve(text)
    before = names.source_hash(rule.name)
    assert before == names.source_hash(rule.name)
    with (folder / file).open("a") as source:
      source.write("# changed\n")
    assert names.source_hash(rule.name) not in ("", before)

  def test_an_import_that_failed_when_it_was_loaded_is_passed_over(
    self, folder
  ):
    """The file is a package's module and a script."""
    with (folder / "my_module.py").open("a") as source:
      source.write("try:\n  from .my_helper import bare\n")
      source.write("except ImportError:\n  pass\n")
    rule = verifiers.resolve("my_module:rule")
    assert names.source_hash(rule.name)

  def test_what_is_built_in_or_installed_has_none(self):
    for name in (*VERIFIERS, *PROPOSALS, "tv_jax.verifiers:VERIFIERS"):
      assert names.source_hash(name) == ""
