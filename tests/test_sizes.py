"""What cannot fit is refused before anything is compiled, with the remedy."""

import dataclasses
import functools
import types

import jax
import numpy as np
import pytest

import tv_jax
from configs import quickstart
from tests import bad, checkpoints
from tv_jax import models, runs, tree
from tv_jax.edge import reading
from tv_jax.engine import batches, program, programs, sizes
from tv_jax.engine import settings as settings_lib
from tv_jax.engine.pair import Pair
from tv_jax.models import memory

PROMPTS = [[1, 2, 3]]


@pytest.fixture(scope="module")
def pair():
  config = checkpoints.tiny(max_position_embeddings=2**30)
  target = checkpoints.ours(config)
  draft = checkpoints.ours(dataclasses.replace(config, num_hidden_layers=1))
  return Pair(target=target, draft=draft, draft_kind="independent")


@pytest.fixture
def nothing_runs(monkeypatch):
  """Whatever would be compiled, or read, is an error."""
  monkeypatch.setattr(programs, "compile", None)
  monkeypatch.setattr(models, "load", None)


def generate(pair, **options):
  defaults = {"tree": "chain:2", "max_new_tokens": 4}
  return tv_jax.generate(pair, PROMPTS, **(defaults | options))


def test_the_estimate_is_what_there_is(pair):
  shape = tree.kary(2, 2)
  settings = settings_lib.resolve(
    pair, tree=shape, max_new_tokens=40, panel=["token_level"], trace=3
  )
  batch = batches.assemble(pair, settings, 5, 3)
  caches = batches.caches(pair, batch)
  found = sizes.estimate(
    pair.target.config,
    pair.draft.config,
    "independent",
    shape,
    sizes.Batch(rows=5, prompt=16, new=batch.new, panel=2, trace=3),
  )

  def size(tree):
    leaves = jax.tree.leaves(tree)
    return sum(np.prod(x.shape) * x.dtype.itemsize for x in leaves)

  assert found["weights"] == size(batch.params)
  lengths = caches.target.length, caches.draft.length
  assert found["caches"] == size(caches) - size(lengths)
  assert found["laws"] == 4 * 5 * (7 + 3) * 48
  assert found["masks"] == 4 * 5 * 16 * batch.slots
  records, _ = jax.eval_shape(
    lambda *arguments: program.generate(settings.plan, *arguments, batch.new),
    batch.params,
    batch.request,
    caches,
  )
  assert found["records"] == pytest.approx(
    size(records) + size(batch.request.prompts), rel=0.05
  )


@pytest.mark.parametrize(
  ("options", "fewer"),
  [
    ({"tree": "chain:2"}, 9),  # the last cycle ends beyond the limit
    ({"verifier": None}, 5),
    pytest.param({"tree": "adaptive:3,2,2"}, 12, marks=pytest.mark.long),
  ],
)
def test_no_slot_is_needed_that_is_not_counted(
  pair, options, fewer, monkeypatch
):
  # Beyond the last slot what is written is moved back, over what is still
  # read: here of the longest prompt and answer. With so many fewer it is seen.
  pair = dataclasses.replace(pair, draft=pair.target)  # whole paths are kept
  texts = [[*range(1, 17)], [5, 3, 2], [7], [1, 2, 3, 4, 5, 6, 7, 8]]

  def found(slots):
    monkeypatch.setattr(sizes, "slots", slots)
    result = tv_jax.generate(
      pair,
      texts,
      max_new_tokens=16,
      temperature=0,
      ends=(),
      batch_size=3,
      **options,
    )
    assert [len(own) for own in result.tokens] == [16] * 4
    return result.tokens

  def counted(tree, prompt, new, ahead=0, *, less=0, cpu=None):
    del cpu
    return sizes.least_slots(tree, prompt + 1, new, ahead) - less

  ample = found(lambda *_, **__: 512)
  assert found(counted) == ample
  assert found(functools.partial(counted, less=fewer)) != ample


@pytest.mark.parametrize(
  ("backend", "multiple"), [("cpu", 16), ("gpu", 128), ("tpu", 128)]
)
def test_slots_come_in_blocks(pair, backend, multiple, monkeypatch):
  monkeypatch.setattr(jax, "default_backend", lambda: backend)
  for limit in (1, 40, 300):
    settings = settings_lib.resolve(pair, tree="chain:2", max_new_tokens=limit)
    batch = batches.assemble(pair, settings, 1, 3)
    least = settings.plan.slots(16 + 1, batch.new)
    assert batch.slots % multiple == 0
    assert least <= batch.slots < least + multiple


def test_devices_share_what_is_split(pair):
  def of(**how):
    return sizes.estimate(
      pair.target.config,
      pair.draft.config,
      "independent",
      tree.chain(2),
      sizes.Batch(rows=4, prompt=16, new=16, **how),
    )

  alone, split = of(), of(devices=2, split_draft=True)
  assert split["weights"] == pytest.approx(alone["weights"] / 2)
  assert split["caches"] == alone["caches"] / 2
  assert alone["laws"] == split["laws"]
  assert of(devices=2)["caches"] > split["caches"]


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize(
  ("options", "remedy"),
  [
    ({"tree": "kary:2x10", "batch_size": 10**9}, "a smaller batch_size"),
  ],
)
def test_generate_refuses(pair, options, remedy, monkeypatch):
  monkeypatch.setattr(memory, "available", lambda devices: 10**9)
  rows = PROMPTS * 2000
  with pytest.raises(ValueError, match=r"needs .* of memory at least") as error:
    tv_jax.generate(pair, rows, **({"tree": "chain:2"} | options))
  bad.one_line(error, "weights", "caches", remedy)


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize(
  "fields",
  [
    {"batch_size": 10**9},
    {"max_new_tokens": 10**9},
    {"max_new_tokens": 10**6, "explorer": {"per_task": 1, "cycles": 10**9}},
    {"trees": "kary:2x10", "batch_size": 4000},
  ],
)
def test_a_run_refuses_before_it_reads_a_weight(tmp_path, fields):
  settings = runs.from_config(quickstart.get_config().to_dict() | fields)
  with pytest.raises(ValueError, match=r"needs .* of memory at least") as error:
    runs.run(settings, tmp_path / "run")
  bad.one_line(error, "choose")


@pytest.mark.parametrize("draft", ["draft", "eagle"])
def test_a_run_that_fits_is_not_refused(draft, monkeypatch):
  raw = quickstart.get_config().to_dict()
  kind = "eagle" if draft == "eagle" else "independent"
  raw["models"] |= {"draft": f"bundled/{draft}", "draft_kind": kind}
  settings = runs.from_config(raw)
  place = reading.BUNDLED
  check = runs.running.check_memory
  check(settings, str(place / "target"), str(place / draft))
  monkeypatch.setattr(memory, "available", lambda devices: 2 * 10**7)
  with pytest.raises(ValueError, match=r"and there are 20 MB: choose"):
    check(settings, str(place / "target"), str(place / draft))


@pytest.mark.parametrize(
  ("words", "kind", "match"),
  [
    ("RESOURCE_EXHAUSTED: 9\nGB", ValueError, "out of memory .*: choose"),
    ("INTERNAL: x", jax.errors.JaxRuntimeError, "INTERNAL"),
  ],
)
def test_what_runs_out_of_memory(pair, monkeypatch, words, kind, match):
  def run(*_):
    raise jax.errors.JaxRuntimeError(words)

  monkeypatch.setattr(programs, "compile", lambda *_, **__: run)
  with pytest.raises(kind, match=match) as error:
    generate(pair)
  assert "\n" not in str(error.value)


class TestMachine:
  def test_a_device_says_itself(self):
    device = types.SimpleNamespace(
      memory_stats=lambda: {"bytes_limit": 7}, process_index=0
    )
    assert memory.available([device]) == 7

  def test_nobody_knows(self):
    device = types.SimpleNamespace(
      memory_stats=lambda: None, platform="gpu", process_index=0
    )
    assert memory.available([device]) is None
    memory.check({"weights": 10**18}, [device], "it")

  @pytest.mark.parametrize(
    ("group", "file"),
    [("0::/a/b", "a/memory.max"), ("4:memory:/a/b", "memory/a/{}")],
  )
  def test_a_container_allows_less(self, monkeypatch, tmp_path, group, file):
    own, limit = (
      tmp_path / "own",
      tmp_path / file.format("memory.limit_in_bytes"),
    )
    own.write_text(f"1:name=systemd:/x\n{group}\n")
    limit.parent.mkdir(parents=True)
    limit.write_text("123456\n")
    (tmp_path / "memory.max").write_text("max\n")
    monkeypatch.setattr(memory, "_OWN", own)
    monkeypatch.setattr(memory, "_CGROUPS", tmp_path)
    assert memory.host() == 123456
