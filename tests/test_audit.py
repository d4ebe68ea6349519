"""Whole generations have the target's law, and the audit sees when not."""

import dataclasses
import itertools
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import quick
from tv_jax import drafting, probs, tree
from tv_jax.certify.engine import cases, exact, report, statistics
from tv_jax.engine import stages
from tv_jax.proposals import PROPOSALS
from tv_jax.verifiers import DEFAULT, VERIFIERS, Verifier

ROWS, BATCH = 20_000, 1_000


def case(
  draft_kind="independent",
  shape="kary:2x2",
  verifier="traversal",
  proposal="without_replacement",
  temperature=0.5,
  top_p=1.0,
):
  return cases.Case(
    draft_kind=draft_kind,
    tree=tree.parse(shape),
    proposal=PROPOSALS[proposal],
    verifier=VERIFIERS[verifier],
    temperature=temperature,
    top_p=top_p,
  )


def p_value(case, rows=ROWS):
  counts, cycles, faults = cases.count(case, rows, BATCH, seed=7)
  assert counts.sum() == rows
  assert cycles >= report.FEWEST_CYCLES
  assert faults == 0
  return statistics.chi_square(counts, exact.law(case))


@pytest.fixture
def anew():
  """Programs are compiled anew, before and after: one is going to be wrong."""

  def forget():
    cases._program.cache_clear()
    jax.clear_caches()

  forget()
  yield
  forget()


class TestStatistics:
  def test_p_values_of_the_right_law_are_uniform(self):
    rng = np.random.default_rng(0)
    law = rng.dirichlet(np.full(300, 0.3))[None]
    p_values = [
      statistics.chi_square(rng.multinomial(20_000, law), law)
      for _ in range(400)
    ]
    assert statistics.uniform(p_values) > 0.01
    assert statistics.holm(p_values).min() > 0.01

  def test_a_small_shift_of_the_law_is_seen(self):
    rng = np.random.default_rng(1)
    law = rng.dirichlet(np.ones(100))[None]
    other = law.copy()
    other[0, :2] += [0.006, -0.006] if law[0, 1] > 0.006 else [-0.006, 0.006]
    counts = rng.multinomial(200_000, np.abs(other[0]) / np.abs(other).sum())
    assert statistics.chi_square(counts[None], law) < 1e-6

  def test_a_hit_where_there_can_be_none_fails(self):
    law = np.array([[0.5, 0.5, 0.0]])
    assert statistics.chi_square(np.array([[500, 500, 0]]), law) == 1
    assert statistics.chi_square(np.array([[500, 499, 1]]), law) == 0

  def test_rare_cells_are_pooled(self):
    law = np.array([[0.9, *[0.001] * 100]])
    counts = np.array([[900, *[1] * 100]])
    assert statistics.chi_square(counts, law) == pytest.approx(1)
    # 100 hits of one cell that expects one are as many as all of them expect.
    gathered = np.array([[900, 100, *[0] * 99]])
    assert statistics.chi_square(gathered, law) == pytest.approx(1)
    assert statistics.chi_square(10 * gathered, law) < 1e-12

  def test_holm(self):
    p_values = [0.01, 0.04, 0.03, 0.005]
    np.testing.assert_allclose(
      statistics.holm(p_values), [0.03, 0.06, 0.06, 0.02]
    )

  def test_p_values_that_crowd_are_not_uniform(self):
    assert statistics.uniform(np.linspace(0.005, 0.995, 100)) > 0.99
    assert statistics.uniform(np.linspace(0.005, 0.6, 100)) < 1e-6
    # The same test by scipy, whose law is exact.
    from scipy import stats

    p_values = np.random.default_rng(2).random(50) ** 1.3
    theirs = stats.kstest(p_values, "uniform").pvalue
    assert statistics.uniform(p_values) == pytest.approx(theirs, rel=0.1)

  def test_the_chi_square_law_is_scipys(self):
    from scipy import stats

    rng = np.random.default_rng(3)
    law = rng.dirichlet(np.full(50, 5.0))[None]
    counts = rng.multinomial(3_000, rng.dirichlet(np.full(50, 80.0)))[None]
    assert law.min() * 3_000 > statistics.FEWEST
    theirs = stats.chisquare(counts[0], law[0] * 3_000).pvalue
    assert statistics.chi_square(counts, law) == pytest.approx(theirs)


@pytest.mark.parametrize(
  "settings",
  [
    "eagle chain:2 block with_replacement 0.5 1.0",
    # Here laws so sharp were met that float32 could not hold what they are
    # multiplied with; the traversal was far off (p = 1e-50).
    "eagle kary:2x2 traversal without_replacement 1.0 1.0",
    "independent kary:2x2 traversal without_replacement 0.5 0.8",
    "eagle branching:3,1 token_level_loop sample_then_top 1.0 1.0",
    "independent branching:3,1 traversal_loop top_k 1.0 1.0",
  ],
)
@pytest.mark.long
def test_the_law_of_what_is_generated(settings):
  *names, temperature, top_p = settings.split()
  chosen = case(*names, float(temperature), float(top_p))
  assert p_value(chosen) > 1e-3
  assert exact.drift(chosen, rows=4) < report.LARGEST_DRIFT


def test_the_enumerated_law_is_a_law():
  chosen = case(temperature=0.5, top_p=0.8)
  law = exact.law(chosen)
  assert law.shape == (2, 4**6)
  np.testing.assert_allclose(law.sum(axis=1), 1, atol=1e-9)
  assert (law == 0).any()
  # The first token's marginal is the model's own.
  target, _ = cases.models("independent")
  prompt = np.array([cases.PROMPTS[1]], np.int32)
  first = probs.law(target.logits(prompt)[0, -1], temperature=0.5, top_p=0.8)
  np.testing.assert_allclose(
    law[1].reshape(4, -1).sum(axis=1), first, atol=1e-6
  )


def untempered(chosen):
  """A rule that draws the bonus token without its temperature."""
  right = chosen.verifier

  def decide(*arguments):
    decision = right.decide(*arguments)
    hot = decision.residual**chosen.temperature
    return dataclasses.replace(decision, residual=hot / jnp.sum(hot))

  return dataclasses.replace(chosen, verifier=Verifier(decide=decide))


@pytest.mark.usefixtures("anew")
class TestPlanted:
  @pytest.mark.long
  def test_a_bonus_drawn_without_temperature(self):
    assert p_value(untempered(case())) < 1e-12

  @pytest.mark.long
  def test_a_key_for_every_cycle_alike(self, monkeypatch):
    def keys(request, state):
      del state
      return jax.vmap(jax.random.split)(request.keys)

    monkeypatch.setattr(stages, "_keys", keys)
    assert p_value(case()) < 1e-12

  @pytest.mark.long
  def test_one_key_to_draft_and_to_verify(self, monkeypatch):
    right = stages._keys

    def keys(request, state):
      return right(request, state)[:, [1, 1]]

    monkeypatch.setattr(stages, "_keys", keys)
    assert p_value(case(shape="chain:2", temperature=1.0)) < 1e-12

  @pytest.mark.long
  def test_a_stale_row_after_commit(self, monkeypatch):
    """The rows of the first nodes stay, whatever the accepted path."""
    right = stages.compact

    def compact(cache, start, nodes, count):
      first = jnp.arange(nodes.shape[1], dtype=jnp.int32)
      return right(cache, start, jnp.broadcast_to(first, nodes.shape), count)

    monkeypatch.setattr(stages, "compact", compact)
    chosen = case()
    assert p_value(chosen) < 1e-12
    assert exact.drift(chosen, rows=8) > 10 * report.LARGEST_DRIFT

  @pytest.mark.parametrize("kind", quick.shorter(["independent", "eagle"]))
  def test_a_draft_that_skips_a_position(self, monkeypatch, kind):
    """Lossless all the same, for any draft is: but not the draft's own law."""
    right = drafting.KINDS[kind]

    class Skips(right):
      def begin(self, params, news, length, cache):
        # The token after the prompt's or the last cycle's is left out.
        behind = dataclasses.replace(cache, length=cache.length + 1)
        if kind == "independent":
          return super().begin(params, news, length + 1, cache)
        return super().begin(params, news, length, behind)

    monkeypatch.setitem(drafting.KINDS, kind, Skips)
    chosen = case(kind, temperature=1.0)
    assert exact.drift(chosen, rows=8) > 10 * report.LARGEST_DRIFT

  @pytest.mark.long
  def test_a_draft_that_forgets_what_was_accepted(self, monkeypatch):
    """The last accepted token is not read again: its row is another's."""

    class Forgets(drafting.Independent):
      def commit(self, cache, tree, root, path, gain):
        right = super().commit(cache, tree, root, path, gain)
        return dataclasses.replace(right, keys=cache.keys, values=cache.values)

    monkeypatch.setitem(drafting.KINDS, "independent", Forgets)
    chosen = case(shape="kary:2x3", temperature=1.0)
    assert exact.drift(chosen, rows=16) > 10 * report.LARGEST_DRIFT


def test_the_verdict_names_what_is_wrong():
  names = ("independent", "chain:2", "block", "top_k", "1", "1")
  good = report.Row(names, 4.0, 0.3, 0)
  fine = report.Drift(("chain:2", "independent"), 1e-6)
  assert report.failures([good], [fine]) == []
  for row, drift, words in [
    (good._replace(p_value=1e-5), fine, "NOT THE TARGET'S LAW"),
    (good._replace(cycles=2.9), fine, "shallower tree"),
    (good._replace(faults=3), fine, "faults in 3 cycles"),
    (good, fine._replace(largest=0.1), "NOT THOSE OF THE TEXT"),
    (good, fine._replace(largest=float("nan")), "NOT THOSE OF THE TEXT"),
  ]:
    (line,) = report.failures([row], [drift])
    assert words in line
  crowd = [good._replace(p_value=p) for p in np.linspace(0.1, 0.3, 40)]
  assert "not uniform" in report.failures(crowd, [fine])[-1]


def run(*flags):
  return subprocess.run(
    [sys.executable, "-m", "tv_jax.audit", *flags],
    capture_output=True,
    text=True,
    timeout=300,
    check=False,
  )


@pytest.mark.long
def test_the_command(tmp_path):
  page = tmp_path / "audit.md"
  done = run(
    "--rows=2000",
    "--verifier=tv_jax.verifiers.block:RULE",
    "--trees=chain:2",
    "--drafts=independent",
    "--proposals=top_k",
    "--temperatures=1",
    "--top_p=1",
    f"--markdown={page}",
  )
  assert done.returncode == 0, done.stdout + done.stderr
  assert "1 cases of 2,000 rows" in done.stdout
  assert "| independent | chain:2 | tv_jax.verifiers.block:RULE |" in (
    page.read_text().replace(
      "| chain:2 | independent |", "| independent | chain:2 |"
    )
  )


@pytest.mark.parametrize(
  ("flag", "words"),
  quick.shorter(
    [
      ("--verifier=nobody", "verifier 'nobody'"),
      ("--trees=chain:zero", "chain:zero"),
      ("--drafts=medusa", "draft 'medusa': not one of independent, eagle"),
      ("--top_p=1.5", "--top_p=1.5"),
      ("--temperatures=0", "--temperatures=0"),
      ("--markdown=/nowhere/at/all.md", "no folder /nowhere/at"),
      ("--rowz=3", "rowz"),
    ]
  ),
)
def test_a_wrong_flag_is_one_line(flag, words):
  done = run(flag)
  assert done.returncode == 2
  assert words in done.stderr
  assert len(done.stderr.strip().splitlines()) == 1


def test_the_grid_holds_every_combination():
  trees = {text: tree.parse(text) for text in ("chain:2", "kary:2x2")}
  plan = cases.grid(
    drafts=["independent", "eagle"],
    trees=trees,
    verifiers={name: VERIFIERS[name] for name in DEFAULT},
    proposals=PROPOSALS,
    temperatures=[0.5, 1.0],
    top_ps=[1.0, 0.8],
  )
  every = itertools.product(
    ["independent", "eagle"],
    trees,
    DEFAULT,
    PROPOSALS,
    ["0.5", "1"],
    ["1", "0.8"],
  )
  every = {names for names in every if names[1:3] != ("kary:2x2", "block")}
  assert {names for names, _ in plan} == every
  assert len(plan) == len(every) == 288
