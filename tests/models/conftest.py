"""The library of C++ products."""

import jax
import pytest

from tv_jax.models import native


@pytest.fixture
def compiled(monkeypatch):
  """A process that uses the library."""
  monkeypatch.delenv(native.SWITCH, raising=False)
  if not native.used():
    pytest.skip("there is no C++ compiler")


@pytest.fixture(params=["this machine's lanes", "8 lanes"])
def lanes(request, compiled, monkeypatch):
  """The library for this processor, and for one with AVX2 but no AVX-512.

  That of 4 lanes (NEON) is not run: it needs another processor.
  """
  if request.param == "8 lanes":
    if native.lanes() != 16:
      pytest.skip("it has no AVX-512: the other library has its lanes")
    flags = (*native._FLAGS, "-mno-avx512f")
    monkeypatch.setattr(native, "_FLAGS", flags)
    native._library.cache_clear()
    jax.clear_caches()
    assert native.lanes() == 8
  yield
  native._library.cache_clear()
  jax.clear_caches()
