"""What is named by text or by itself is found, once, and told in one line."""

import sys

import pytest

from tv_jax import proposals, tree, verifiers
from tv_jax.edge import names
from tv_jax.proposals import PROPOSALS
from tv_jax.verifiers import VERIFIERS, Verifier

MODULE = """
import functools

import numpy as np

import my_helper
from tv_jax import tree
from tv_jax.proposals import WITH_REPLACEMENT, Proposal
from tv_jax.verifiers import VERIFIERS, Verifier

traversal = VERIFIERS["traversal"]


def decide(tree, proposal, tokens, q, p, eta):
  return my_helper.same(traversal.decide)(tree, proposal, tokens, q, p, eta)


def make(k):
  def decide(tree, proposal, tokens, q, p, eta):
    return k

  return decide


class Held:
  wide = tree.chain(2)


rule = Verifier(decide=decide, stop_law=traversal.stop_law)
of_factory = make(3)
bound = functools.partial(decide, eta=0)
mine = Proposal(
  draw=lambda key, q, k: WITH_REPLACEMENT.draw(key, q, k),
  laws=WITH_REPLACEMENT.laws,
  following=WITH_REPLACEMENT.following,
)
number = 5
"""
HELPER = "def same(x):\n  return x\n"
BROKEN = {
  "raises": "\n1 / 0\n",
  "leaves": "import sys\nsys.exit(3)\n",
  "lacking": "import no_such_module\n",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
  """A user's own folder, the current one; only `names` puts it on the path."""
  files = {"my_module": MODULE, "my_helper": HELPER, **BROKEN}
  for name, text in files.items():
    (tmp_path / f"{name}.py").write_text(text)
  monkeypatch.chdir(tmp_path)
  monkeypatch.setattr(sys, "path", [p for p in sys.path if p])
  yield tmp_path
  for name in files:
    sys.modules.pop(name, None)


def test_the_same_thing_has_the_same_name_by_text_and_by_itself(folder):
  before = list(sys.path)
  for resolve, texts in (
    (verifiers.resolve, ("rule", "decide", "of_factory", "bound")),
    (proposals.resolve, ("mine",)),
  ):
    for text in texts:
      found = resolve(f"my_module:{text}")
      assert found.name == f"my_module:{text}"
      assert resolve(getattr(sys.modules["my_module"], text)) == found
  assert sys.path == before
  assert tree.parse("my_module:Held.wide") == tree.chain(2)


def test_built_in_ones_are_themselves():
  for module, table in ((verifiers, VERIFIERS), (proposals, PROPOSALS)):
    for name, own in table.items():
      assert module.resolve(name) is own
      assert module.resolve(own) is own


def test_what_no_module_holds_is_called_by_what_it_is(folder):
  verifiers.resolve("my_module:rule")
  make = sys.modules["my_module"].make
  named = [(verifiers.resolve(own).name, own) for own in (make(1), make(2))]
  assert "make.<locals>.decide" in named[0][0]
  with pytest.raises(ValueError, match=r"two verifiers are called .*make"):
    names.unique(named, "verifier")
  rule = Verifier(decide=make(1), name="made")
  assert verifiers.resolve(rule).name == "made"


@pytest.mark.parametrize(
  ("text", "message"),
  [
    ("nothing", "not one of token_level, .*, nor module:name"),
    ("my_module:nothing", "my_module has no 'nothing'"),
    ("my_module:number", "give a name, module:name"),
    ("no_module:decide", "No module named 'no_module'; run from the module's"),
    ("my_module.py:decide", r"named without .py: my_module:\.\."),
    ("my_module:", "write package.module:name"),
    ("raises:decide", r"raises.py, line 2\): ZeroDivisionError: division"),
    ("leaves:decide", "it exits when it is imported"),
    ("lacking:decide", "lacking.py, line 1.*No module named 'no_such_module'"),
  ],
)
def test_what_is_not_found_is_told_in_one_line(folder, text, message):
  with pytest.raises(ValueError, match=message) as raised:
    verifiers.resolve(text)
  assert "\n" not in str(raised.value)
  assert repr(text) in str(raised.value)


@pytest.mark.parametrize(
  ("resolve", "thing"),
  [
    (verifiers.resolve, None),
    (proposals.resolve, Verifier),
    (tree.resolve, 3),
    (tree.resolve, "my_module:rule"),
  ],
)
def test_what_is_none_of_these_is_refused(folder, resolve, thing):
  with pytest.raises(ValueError, match=r"give a|tree 'my_module:rule'"):
    resolve(thing)


class TestSources:
  @pytest.mark.parametrize("file", ["my_module.py", "my_helper.py"])
  def test_a_changed_source_changes_the_hash(self, folder, file):
    rule = verifiers.resolve("my_module:rule")
    before = names.source_hash(rule, rule.name)
    assert before == names.source_hash(rule, rule.name)
    with (folder / file).open("a") as source:
      source.write("# changed\n")
    assert names.source_hash(rule, rule.name) not in ("", before)

  def test_what_is_built_in_or_installed_has_none(self):
    everything = {**VERIFIERS, **PROPOSALS}
    assert names.sources(everything) == {}
    # Of this file's function, but not of pytest's or jax's.
    assert names.sources({"mine": Verifier(decide=lambda: pytest)})
