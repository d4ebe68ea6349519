"""Tests that need more than make installs are skipped, and say why."""

import pytest

from tests import needs


def put(folder, *names):
  """Programs that could be run."""
  for name in names:
    (folder / name).touch(mode=0o755)


@pytest.mark.parametrize(
  ("there", "reason"),
  [
    ((), "chromium is not installed"),
    (("chromium",), "chromedriver is not installed"),
    (("chromedriver",), "chromium is not installed"),
    (("chromium", "chromedriver"), None),
  ],
)
def test_a_browser_is_of_two_parts(monkeypatch, tmp_path, there, reason):
  put(tmp_path, *there)
  monkeypatch.setenv("PATH", str(tmp_path))
  assert needs.missing("browser") == reason


def test_questions_are_of_a_file(monkeypatch):
  monkeypatch.delenv("SPEC_BENCH_QUESTIONS", raising=False)
  assert needs.missing("spec_bench") == "SPEC_BENCH_QUESTIONS names no file"


def test_what_is_needed_may_not_be_missing(monkeypatch, tmp_path):
  monkeypatch.setenv("PATH", str(tmp_path))
  reason = "chromium is not installed"
  with pytest.raises(pytest.skip.Exception, match=reason):
    needs.check({"browser", "long"}, ["parity", "long"])
  with pytest.raises(pytest.fail.Exception, match=reason):
    needs.check({"browser", "long"}, ["parity", "browser"])
  put(tmp_path, "chromium", "chromedriver")
  needs.check({"browser", "long"}, ["browser"])
