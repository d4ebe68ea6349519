def test_placeholder_house_imports():
  import tv_jax

  assert tv_jax.__version__
