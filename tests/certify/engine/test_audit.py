"""Whole generations have the target's law, and the audit sees when not."""

import dataclasses
import itertools
import json
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.lib import commands, quick, stores
from tv_jax import drafting
from tv_jax.certify.engine import expected, statistics, tiny_pairs
from tv_jax.engine import cycle
from tv_jax.engine.programs import forget_programs
from tv_jax.verifiers import VERIFIERS

ROWS, BATCH = 20_000, 1_000


def case(kind="independent", temperature=0.5, **options):
  return tiny_pairs.case(kind, temperature, **{"tree": "kary:2x2"} | options)


def p_value(case, rows=ROWS):
  counts, cycles, faults = tiny_pairs.count(case, rows, BATCH, seed=7)
  assert counts.sum() == rows
  assert cycles >= statistics.FEWEST_CYCLES
  assert faults == 0
  return statistics.chi_square(counts, expected.law(case))


@pytest.fixture
def anew():
  """Programs are compiled anew, before and after: one is going to be wrong."""

  def forget():
    forget_programs()
    jax.clear_caches()

  forget()
  yield
  forget()


class TestStatistics:
  def test_a_hit_where_there_can_be_none_fails(self):
    law = np.array([[0.5, 0.5, 0.0]])
    assert statistics.chi_square(np.array([[500, 500, 0]]), law) == 1
    assert statistics.chi_square(np.array([[500, 499, 1]]), law) == 0

  def test_rare_cells_are_pooled(self):
    law = np.array([[0.9, *[0.001] * 100]])
    # 100 hits in a cell that expects 1 equal the total that all cells expect.
    gathered = np.array([[900, 100, *[0] * 99]])
    assert statistics.chi_square(gathered, law) == pytest.approx(1)
    assert statistics.chi_square(10 * gathered, law) < 1e-12


@pytest.mark.parametrize(
  "settings",
  [
    "eagle chain:2 block with_replacement 0.5 1.0",
    # Found in this case: laws so sharp that the factors of the residual left
    # the range of float32, and the traversal was far off (p = 1e-50).
    "eagle kary:2x2 traversal without_replacement 1.0 1.0",
    "independent kary:2x2 traversal without_replacement 0.5 0.8",
    "independent branching:3,1 traversal_reference top_k 1.0 1.0",
    # A head that does not know one of the four tokens.
    "eagle3 branching:3,1 token_level_reference sample_then_top 0.5 0.8",
    "eagle3 kary:2x2 traversal without_replacement 1.0 1.0",
    "dspark kary:2x2 traversal without_replacement 1.0 1.0",
    "quantised kary:2x2 traversal without_replacement 1.0 1.0",
    "refilled kary:2x2 traversal without_replacement 1.0 1.0",
  ],
)
@pytest.mark.long
def test_the_law_of_what_is_generated(settings):
  kind, shape, rule, proposal, temperature, top_p = settings.split()
  chosen = case(
    kind,
    float(temperature),
    tree=shape,
    verifier=rule,
    proposal=proposal,
    top_p=float(top_p),
  )
  assert p_value(chosen) > 1e-3
  assert expected.drift(chosen, rows=4) < statistics.LARGEST_DRIFT


def test_the_distributions_of_a_deep_tree():
  deep = case("independent", 1.0, tree="chain:12", verifier="traversal")
  assert expected.drift(deep, rows=2) < statistics.LARGEST_DRIFT


@pytest.mark.parametrize(
  ("shape", "verifier", "proposal"),
  [
    ("branching:3,1", "token_level", "sample_then_top"),
    ("kary:2x2", "traversal", "without_replacement"),
  ],
)
@pytest.mark.long
def test_the_law_where_an_unsure_draft_stops(shape, verifier, proposal):
  whole, chosen = (
    case(
      "dspark",
      1.0,
      tree=shape,
      verifier=verifier,
      proposal=proposal,
      draft_stop=stop,
    )
    for stop in (0.0, 0.6)
  )
  assert p_value(chosen) > 1e-3
  assert expected.drift(chosen, rows=16) < statistics.LARGEST_DRIFT
  cycles = [tiny_pairs.count(x, BATCH, BATCH, 7)[1] for x in (whole, chosen)]
  assert cycles[0] < 0.95 * cycles[1]  # it does stop


def untempered(draft, eta):
  """A rule that draws the bonus token without its temperature, 0.5."""
  decision = VERIFIERS["traversal"].decide(draft, eta)
  hot = decision.residual**0.5
  return dataclasses.replace(decision, residual=hot / jnp.sum(hot))


def one_key_each_cycle(right):
  return lambda state: jax.vmap(jax.random.split)(state.keys)


def one_key_to_draft_and_to_verify(right):
  return lambda state: right(state)[:, [1, 1]]


def stale_rows(right):
  """The rows of the first nodes stay, whatever the accepted path."""

  def compact(cache, start, nodes, count):
    first = jnp.arange(nodes.shape[1], dtype=jnp.int32)
    return right(cache, start, jnp.broadcast_to(first, nodes.shape), count)

  return compact


def skips_a_position(right):
  """The token after the prompt's or the last cycle's is left out."""

  class Skips(right):
    def begin(self, params, committed, length, cache):
      behind = dataclasses.replace(cache, length=cache.length + 1)
      if issubclass(right, drafting.Independent):
        return super().begin(params, committed, length + 1, cache)
      return super().begin(params, committed, length, behind)

  return Skips


def forgets(right):
  """The last accepted token is not read again: its row is another's."""

  class Forgets(right):
    def commit(self, cache, tree, root, path, gain):
      made = super().commit(cache, tree, root, path, gain)
      return dataclasses.replace(made, keys=cache.keys, values=cache.values)

  return Forgets


LARGE_DRIFT = 10 * statistics.LARGEST_DRIFT


@pytest.mark.usefixtures("anew")
class TestPlanted:
  @pytest.mark.long
  def test_a_bonus_drawn_without_temperature(self):
    assert p_value(case(verifier=untempered)) < 1e-12

  @pytest.mark.long
  @pytest.mark.parametrize(
    ("name", "fault", "shape", "temperature"),
    [
      ("_keys", one_key_each_cycle, "kary:2x2", 0.5),
      ("_keys", one_key_to_draft_and_to_verify, "chain:2", 1.0),
      ("compact", stale_rows, "kary:2x2", 0.5),
    ],
  )
  def test_a_fault_of_the_engine(
    self, monkeypatch, name, fault, shape, temperature
  ):
    monkeypatch.setattr(cycle, name, fault(getattr(cycle, name)))
    chosen = case(temperature=temperature, tree=shape)
    assert p_value(chosen) < 1e-12
    if name == "compact":
      assert expected.drift(chosen, rows=8) > LARGE_DRIFT

  @pytest.mark.parametrize(
    ("kind", "fault", "shape"),
    quick.shorter(
      [
        ("independent", skips_a_position, "kary:2x2"),
        ("eagle", skips_a_position, "kary:2x2"),
        ("eagle3", skips_a_position, "kary:2x2"),
        ("dspark", skips_a_position, "kary:2x2"),
        ("independent", forgets, "kary:2x3"),
      ]
    ),
  )
  def test_a_draft_is_not_what_it_should_be(
    self, monkeypatch, kind, fault, shape
  ):
    """Lossless all the same, for any draft is: but not the draft's own law."""
    row = drafting.KINDS[kind]
    row = row._replace(drafter=fault(row.drafter))
    monkeypatch.setitem(drafting.KINDS, kind, row)
    chosen = case(kind, 1.0, tree=shape)
    assert expected.drift(chosen, rows=16) > LARGE_DRIFT


def test_the_verdict_names_what_is_wrong():
  good = statistics.CaseResult(
    "independent chain:2 block top_k 1 1", 0.3, 4.0, 0, 1e-6
  )
  assert statistics.failures(good, 1) == []
  for wrong, words in [
    ({"p_value": 1e-5}, "NOT THE TARGET'S LAW"),
    ({"cycles": 2.9}, "shallower tree"),
    ({"faults": 3}, "faults in 3 cycles"),
    ({"drift": 0.1}, "NOT THOSE OF THE TEXT"),
    ({"drift": float("nan")}, "NOT THOSE OF THE TEXT"),
  ]:
    (line,) = statistics.failures(good._replace(**wrong), 1)
    assert words in line
  crowd = [good._replace(p_value=p) for p in np.linspace(0.1, 0.3, 40)]
  assert statistics.uniform(crowd) < statistics.LEVEL


# In a process of its own: commands define flags of the same names.
PLAN = """
import json
from absl import flags
from tv_jax import audit
flags.FLAGS(["audit"])
print(json.dumps([names for names, _ in audit._plan()]))
"""


def test_quantised_weights_are_left_out_where_there_are_none(monkeypatch):
  """As on a GPU, or without a compiler."""
  monkeypatch.setenv("TV_JAX_NATIVE", "0")
  code = [sys.executable, "-c", PLAN]
  done = subprocess.run(code, capture_output=True, check=True, cwd=stores.ROOT)
  assert b"need a CPU and a C++ compiler: their cases are left" in done.stderr
  kinds = {kind for kind, *_ in json.loads(done.stdout)}
  assert kinds == {*tiny_pairs.KINDS} - {"quantised"}


def test_all_pairs_of_options_are_audited():
  code = [sys.executable, "-c", PLAN]
  done = subprocess.run(code, capture_output=True, check=True, cwd=stores.ROOT)
  names = json.loads(done.stdout)
  assert len(names) == 72
  columns = [*zip(*names, strict=True)]
  for one, other in itertools.combinations(columns, 2):
    missing = {*itertools.product(one, other)} - {*zip(one, other, strict=True)}
    assert {rule for _, rule in missing} <= {"block"}  # of chains alone


@pytest.mark.long
def test_the_command():
  done = commands.run(
    "--rows=2000",
    "--verifiers=tv_jax.verifiers.block:RULE",
    "--trees=chain:2",
    "--kinds=independent",
    "--proposals=top_k",
    "--temperatures=1",
    "--top_p=1",
    program="tv_jax.audit",
  )
  assert done.returncode == 0, done.stdout + done.stderr
  assert "1 cases, 2,000 rows in all" in done.stdout
  assert "chain:2 tv_jax.verifiers.block:RULE top_k 1 1: p " in done.stdout


@pytest.mark.parametrize(
  ("flags", "words"),
  quick.shorter(
    [
      (["--kinds=medusa"], "draft 'medusa': not one of independent,"),
      (["--top_p=1.5"], "--top_p=1.5"),
      (["--samples=x.jsonl"], "give --model"),
    ]
  ),
)
def test_a_wrong_flag_is_one_line(flags, words):
  done = commands.run(*flags, program="tv_jax.audit")
  assert done.returncode == 2
  assert words in done.stderr
  assert len(done.stderr.strip().splitlines()) == 1
