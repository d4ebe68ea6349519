"""Tests that need more than make installs are skipped, and say why."""

import pytest

from tests import needs


def test_what_is_needed_may_not_be_missing(monkeypatch, tmp_path):
  monkeypatch.setenv("PATH", str(tmp_path))
  monkeypatch.delenv("SPEC_BENCH_QUESTIONS", raising=False)
  assert needs.missing("spec_bench") == "SPEC_BENCH_QUESTIONS names no file"
  reason = "chromium is not installed"
  with pytest.raises(pytest.skip.Exception, match=reason):
    needs.check({"browser", "long"}, ["parity", "long"])
  with pytest.raises(pytest.fail.Exception, match=reason):
    needs.check({"browser", "long"}, ["parity", "browser"])
  for name in ("chromium", "chromedriver"):  # a browser is of two parts
    assert needs.missing("browser") == f"{name} is not installed"
    (tmp_path / name).touch(mode=0o755)
  needs.check({"browser", "long"}, ["browser"])
