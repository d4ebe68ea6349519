"""The C++ product of few rows, against XLA's and against float64."""

import subprocess

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from tests.lib import grids, stores
from tv_jax.models import native, products, sharding

pytestmark = pytest.mark.usefixtures("compiled")

SIZES = ((32, 1), (64, 7), (576, 100), (896, 515), (8960, 49))
BOTH = pytest.mark.parametrize("dtype", ["float32", "bfloat16"])


@pytest.fixture
def fresh():
  """A process that has not looked for the library yet."""
  native._library.cache_clear()
  yield
  native._library.cache_clear()


def made(rows, size, outputs, dtype="float32"):
  rng = np.random.default_rng(rows + size)
  x, w = rng.standard_normal((rows, size)), rng.standard_normal((outputs, size))
  return jnp.asarray(x, dtype), jnp.asarray(w, dtype)


def text(function, *arguments):
  return jax.jit(function).lower(*arguments).as_text()


def multiply(x, w):
  return products.logits(x, w)


@BOTH
@pytest.mark.parametrize(("size", "outputs"), SIZES)
def test_it_is_exact_and_a_row_has_the_same_bits_in_any_number(
  size, outputs, dtype
):
  x, w = made(native.MOST, size, outputs, dtype)
  assert native.fits(x, w)
  y = np.asarray(jax.jit(multiply)(x, w))
  exact_x, exact_w = np.asarray(x, float), np.asarray(w, float)
  # Each of 4 or more lanes adds up at most size / 4 products.
  bound = np.abs(exact_x) @ np.abs(exact_w).T
  bound *= (size / 4 + 5) * np.finfo(np.float32).eps
  assert (np.abs(y - exact_x @ exact_w.T) <= bound).all()
  for rows in range(1, native.MOST):
    assert (np.asarray(jax.jit(multiply)(x[-rows:], w)) == y[-rows:]).all()


@BOTH
@pytest.mark.parametrize("lanes", ["8 lanes"], indirect=True)
def test_it_is_exact_with_the_lanes_of_avx2(lanes, dtype):
  test_it_is_exact_and_a_row_has_the_same_bits_in_any_number(576, 100, dtype)


def test_dense_has_the_dtype_of_its_input():
  x, w = made(3, 64, 40, "bfloat16")
  y = products.dense(x[None], w, None)
  assert (y.shape, y.dtype) == ((1, 3, 40), ml_dtypes.bfloat16)
  assert (y[0] == products.logits(x, w).astype(jnp.bfloat16)).all()


def test_it_works_inside_of_transformations():
  x, w = made(6, 64, 50)
  y = products.logits(x, w)
  assert (jax.vmap(multiply, (0, None))(x[:, None], w)[:, 0] == y).all()

  def loop(x):
    return jax.lax.while_loop(
      lambda carry: carry[0] < 3,
      lambda carry: (carry[0] + 1, multiply(x, w)),
      (0, jnp.zeros_like(y)),
    )[1]

  assert (jax.jit(loop)(x) == y).all()

  def loss(multiply):
    return lambda x, w: jnp.sum(multiply(x, w) ** 2)

  ours, xlas = (
    jax.jit(jax.grad(loss(f), (0, 1)))(x, w) for f in (multiply, native._xla)
  )
  for a, b in zip(ours, xlas, strict=True):
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-3)


def test_where_xla_multiplies(monkeypatch):
  x, w = made(6, 64, 50)
  assert "few_tokens" in text(multiply, x, w)
  many, _ = made(native.MOST + 1, 64, 50)
  odd = made(6, 33, 50)
  mesh = sharding.mesh(jax.devices()[:2])
  assert "few_tokens" not in text(multiply, many, w)
  assert "few_tokens" not in text(multiply, *odd)
  assert "few_tokens" not in text(lambda x, w: products.dense(x, w, mesh), x, w)
  gpu = jax.jit(multiply).trace(x, w).lower(lowering_platforms=("cuda",))
  assert "few_tokens" not in gpu.as_text()
  monkeypatch.setenv(native.SWITCH, "0")
  assert not native.used()
  assert "few_tokens" not in text(lambda x, w: multiply(x, w), x, w)


@pytest.mark.parametrize("compiler", ["", "#!/bin/sh\necho broken >&2; exit 1"])
def test_without_a_compiler_xla_multiplies_and_one_line_says_so(
  fresh, monkeypatch, tmp_path, capfd, compiler
):
  monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
  monkeypatch.setenv("PATH", str(tmp_path))
  monkeypatch.delenv("CXX", raising=False)
  if compiler:
    (tmp_path / "c++").write_text(compiler)
    (tmp_path / "c++").chmod(0o755)
  x, w = made(6, 64, 50)
  y = jax.jit(lambda x, w: products.logits(x, w))(x, w)
  np.testing.assert_allclose(y, native._xla(x, w), rtol=1e-5, atol=1e-5)
  said = capfd.readouterr().err.splitlines()
  why = "broken" if compiler else "there is no C++ compiler"
  assert len(said) == 1
  assert why in said[0]
  assert not native.used()


def test_it_is_compiled_once(fresh, monkeypatch, tmp_path):
  monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
  # It is another library than the one that XLA knows by this name.
  monkeypatch.setattr(jax.ffi, "register_ffi_target", lambda *_, **__: None)
  library = native._library()
  native._library.cache_clear()
  monkeypatch.setattr(subprocess, "run", None)
  assert native._library() == library
  files = [path.name for path in tmp_path.rglob("*") if path.is_file()]
  assert files == [f"{library.name}.so"]  # nothing is left beside it


def test_a_run_is_not_continued_with_the_other_product(monkeypatch, folder):
  with stores.enter(folder) as store:
    store.keep_sources(grids.hashes())
    store.begin(1)
    store.append(stores.item(7))
  monkeypatch.setenv(native.SWITCH, "0")
  changed = r"changed since this run began: TV_JAX_NATIVE: put back"
  with (
    stores.enter(folder) as store,
    pytest.raises(ValueError, match=changed),
  ):
    store.keep_sources(grids.hashes())
