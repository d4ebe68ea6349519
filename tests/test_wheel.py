"""What an installed wheel can do, in a folder that holds nothing else."""

import subprocess
import sys
import zipfile

import pytest

from tests.lib import commands
from tests.lib.stores import ROOT


def installed(folder):
  """A wheel, unpacked: what else it needs is in this environment."""
  build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d"]
  subprocess.run([*build, folder], cwd=ROOT, check=True, capture_output=True)
  (wheel,) = folder.iterdir()
  zipfile.ZipFile(wheel).extractall(folder / "place")
  return folder / "place"


@pytest.mark.long
def test_a_run_needs_nothing_but_the_wheel(tmp_path):
  """The config, models, questions and the page's parts.

  What decodes is tried elsewhere.
  """
  (tmp_path / "wheel").mkdir()
  # The package's own folders are not importable: `models` is a user's, if any.
  (tmp_path / "mine.py").write_text(
    "import importlib.util\n"
    "from configs import quickstart\n"
    "def get_config(arg=''):\n"
    "  assert importlib.util.find_spec('models') is None\n"
    "  return quickstart.get_config(arg)\n"
  )
  done = commands.run(
    "--compilation_cache=",
    "--config=mine.py",
    "--config.tasks=qa",
    "--config.max_tokens=1",
    cwd=tmp_path,
    package=installed(tmp_path / "wheel"),
  )
  assert done.returncode == 1
  assert "leaves no room for an answer in 1" in done.stdout
  assert (tmp_path / "runs" / "quickstart" / "report.html").exists()
