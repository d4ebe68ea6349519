"""Quantised weights: the gguf package's numbers, kept as they are stored."""

import dataclasses

import gguf
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tv_jax
from tests.lib import bad, checkpoints, gguf_files, grids
from tests.lib.gguf_files import TYPES
from tv_jax import distill, drafting, models, runs
from tv_jax.io import reading
from tv_jax.models import native, parameters, products, quantised, sharding
from tv_jax.models.gguf import packing
from tv_jax.models.quantised import FORMS, Part, Quantised
from tv_jax.runs import store

pytestmark = pytest.mark.usefixtures("compiled")

ROWS = 70  # of x
# Of a vocabulary that fills no whole vectors, heads that do not either, and
# parts of different types: those of a Q4_K_M file among them.
CONFIG = checkpoints.tiny(
  vocab_size=51,
  hidden_size=256,
  intermediate_size=256,
  num_hidden_layers=1,
  head_dim=24,
)
MIXED = {
  "token_embd": TYPES.Q5_K,
  "output": TYPES.Q6_K,
  "attn_q": TYPES.Q4_K,
  "attn_k": TYPES.Q4_0,
  "attn_v": TYPES.Q6_K,
  "ffn_gate": TYPES.Q5_0,
  "ffn_up": TYPES.Q5_1,
  "ffn_down": TYPES.Q4_1,
}


def matrix(groups, *parts, columns=512):
  """A matrix, and the package's float32 weights; parts are types and rows."""
  words, weights, L, K = [], [], native.lanes(), columns
  for seed, (kind, rows) in enumerate(parts):
    raw = gguf_files.blocks(TYPES[kind], (rows, K), seed)
    weights.append(
      gguf.dequantize(raw, TYPES[kind]).reshape(groups, -1, columns)
    )
    raw = raw.reshape(rows, K // FORMS[kind].group, -1)
    packed = packing.pack(kind, raw).reshape(rows, -1)
    packed = np.pad(packed, ((0, -rows % L), (0, 0)))
    words.append(packed.reshape(-1, L, packed.shape[1]).swapaxes(1, 2).ravel())
  forms = tuple(Part(FORMS[kind], rows) for kind, rows in parts)
  words = jnp.asarray(np.concatenate(words))
  weights = np.concatenate(weights, axis=1).reshape(-1, K)
  return Quantised(words, forms, K, groups), weights


CASES = [(40, (kind, 40)) for kind in FORMS]
CASES += [(10, ("Q4_K", 40), ("Q6_K", 10), ("Q8_0", 10)), (3, ("Q5_1", 3))]


@pytest.mark.usefixtures("lanes")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_weights_are_the_packages_and_products_are_exact(case):
  made, weights = matrix(*case)
  whole = np.asarray(quantised.dequantised(made))
  np.testing.assert_array_equal(whole, weights)
  x = np.random.default_rng(0).standard_normal((ROWS, 512), np.float32)
  multiply = jax.jit(products.logits)
  y = np.asarray(multiply(x, made))
  bound = np.abs(x).astype(float) @ np.abs(weights.T).astype(float)
  # Codes are large beside the weights: offsets cancel most of a product.
  spread = np.abs(weights).max() * np.abs(x).sum(1, dtype=float)[:, None]
  assert (
    np.abs(y - x.astype(float) @ weights.T) <= 1e-6 * (bound + spread)
  ).all()
  for rows in (1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 17, 26, 33):
    assert (np.asarray(multiply(x[-rows:], made)) == y[-rows:]).all(), rows
  assert multiply(x[:0], made).shape == (0, len(weights))


def test_every_code_was_there():
  """So the test above compares every code of every type."""
  for kind, form in FORMS.items():
    made, _ = matrix(1, (kind, 40))
    (words,) = made.split()
    words = np.asarray(words.swapaxes(1, 2)).reshape(-1, form.words)
    codes = words[:, form.factors + form.scales :, None]
    codes = codes >> np.arange(0, 32, form.bits, dtype=np.uint32)
    found = {*np.unique(codes & np.uint32(2**form.bits - 1)).tolist()}
    assert {*range({"5": 32, "6": 64}.get(kind[1], 2**form.bits))} <= found


def test_some_of_the_rows():
  made, weights = matrix(40, ("Q4_K", 40))
  index = np.array([[3, 39, 0], [17, 16, 100]])
  wanted = weights[np.minimum(index, 39)]
  got = products.rows(made, jnp.asarray(index), None)
  np.testing.assert_array_equal(got, wanted)
  few = products.take(made, index[0])
  np.testing.assert_array_equal(quantised.dequantised(few), weights[index[0]])
  x = jnp.ones((2, 512))
  got = products.logits(x, few)
  assert (got == products.logits(x, made)[:, index[0]]).all()


def test_dense_in_a_loop_and_under_vmap():
  made, _ = matrix(40, ("Q8_0", 40))
  x = jnp.ones((3, 512), jnp.bfloat16)
  y = products.dense(x[None], made, None)
  assert (y.shape, y.dtype) == ((1, 3, 40), jnp.bfloat16)
  rows = jax.vmap(lambda x: products.dense(x[None], made, None)[0])(x)
  assert (rows == y[0]).all()


@pytest.mark.parametrize("kind", ["mixed", "Q8_0", "Q4_1"])
@pytest.mark.parametrize("family", ["llama", "qwen2", "tied"])
def test_a_file_stays_quantised_and_is_the_same_model(
  tmp_path, kind, family, monkeypatch
):
  monkeypatch.setattr(parameters, "_PACKED", 70 * 256)  # several pieces
  tied = family == "tied"
  changes = {"tie_word_embeddings": tied, "num_hidden_layers": 2}
  changes |= {} if tied else {"model_type": family}
  config = dataclasses.replace(CONFIG, **changes)
  kind = MIXED if kind == "mixed" else TYPES[kind]
  path = gguf_files.save(tmp_path / "x.gguf", checkpoints.ours(config), kind)
  kept, arrays = (
    models.load(path, "float32", weights=x) for x in ("stored", "dequantised")
  )
  assert isinstance(kept.params["embedding"], Quantised)
  assert ("unembedding" in kept.params) != tied
  layer = kept.params["layers_1"]
  fused = layer["qkv"]["kernel"], layer["gate_up"]["kernel"]
  assert [len(x.parts) for x in fused] == [3, 2]
  jax.tree.map(
    np.testing.assert_array_equal,
    quantised.dequantised(kept.params),
    arrays.params,
  )
  size = sum(x.nbytes for x in jax.tree.leaves(kept.params))
  assert size < 0.45 * sum(x.nbytes for x in jax.tree.leaves(arrays.params))
  tokens = checkpoints.tokens(2, 12, config.vocab_size)
  assert checkpoints.error(kept.logits(tokens), arrays.logits(tokens)) < 1e-5
  texts = [
    tv_jax.generate(
      tv_jax.engine.Pair(target=x, draft=x),
      [[5, 6, 7]],
      temperature=0.0,
      tree="kary:2x2",
      max_new_tokens=12,
      panel=None,
    ).tokens
    for x in (kept, arrays)
  ]
  assert texts[0] == texts[1]
  models.save(tmp_path / "saved", kept)
  saved = models.load(tmp_path / "saved")
  jax.tree.map(np.testing.assert_array_equal, saved.params, arrays.params)


def test_no_weight_is_copied_in_a_pass(tmp_path):
  """Neither on the way to the products, nor by a lookup of rows."""
  path = gguf_files.save(tmp_path / "x.gguf", checkpoints.ours(CONFIG), MIXED)
  model = models.load(path, "float32")
  tokens = jnp.zeros((1, 2), jnp.int32)

  def some(params, cache):
    def one(_, carry):
      logits, _, after = models.causal_pass(
        model.module, params, (tokens,), carry[1]
      )
      return logits, dataclasses.replace(after, length=cache.length)

    start = jnp.zeros((1, 2, CONFIG.vocab_size)), cache
    return jax.lax.fori_loop(0, 3, one, start)

  program = jax.jit(some).lower(model.params, model.init_cache(1, 8)).compile()
  leaves = jax.tree.leaves(model.params)
  least = min(x.nbytes for x in leaves if x.dtype == jnp.uint32)
  assert program.memory_analysis().temp_size_in_bytes < least


def is_kept(model):
  return isinstance(model.params["layers_0"]["qkv"]["kernel"], Quantised)


def test_where_weights_are_dequantised(tmp_path, monkeypatch):
  config = dataclasses.replace(CONFIG, vocab_size=52)
  path = gguf_files.save(
    tmp_path / "x.gguf", checkpoints.ours(config), TYPES.Q8_0
  )
  assert is_kept(models.load(path, "float32"))
  assert not is_kept(models.load(path, "bfloat16"))
  assert not is_kept(models.load(path, "float32", weights="dequantised"))
  mesh = sharding.mesh(jax.devices()[:2])
  assert not is_kept(models.load(path, "float32", mesh))
  with bad.refused("weights='int4' is not one of stored, dequantised"):
    models.load(path, "float32", weights="int4")
  monkeypatch.setenv(native.SWITCH, "0")
  assert not is_kept(models.load(path, "float32"))


def test_types_without_a_form_are_dequantised_and_a_line_says_so(
  tmp_path, capfd, monkeypatch
):
  monkeypatch.delitem(FORMS, "Q5_0")
  model = checkpoints.ours(CONFIG)
  path = gguf_files.save(tmp_path / "x.gguf", model, TYPES.Q5_0)
  assert not is_kept(models.load(path, "float32"))
  said = capfd.readouterr().err.splitlines()
  assert said == [f"{path}: Q5_0 weights are dequantised"]
  path = gguf_files.save(tmp_path / "y.gguf", model, TYPES.BF16)
  assert not is_kept(models.load(path, "float32"))
  assert not capfd.readouterr().err


def test_a_factor_that_is_not_finite_is_refused(tmp_path):
  path = gguf_files.save(
    tmp_path / "x.gguf", checkpoints.ours(CONFIG), TYPES.Q8_0
  )
  data = bytearray(path.read_bytes())
  at = int(gguf.GGUFReader(path).tensors[0].data_offset)
  data[at : at + 2] = np.array(np.inf, np.float16).tobytes()
  path.write_bytes(data)
  with bad.refused("x.gguf", "not finite", "get it again"):
    models.load(path, "float32")


@pytest.fixture
def targets(tmp_path):
  """A target with quantised weights, and the same with arrays."""
  model = checkpoints.ours(CONFIG)
  path = gguf_files.save(tmp_path / "target.gguf", model, MIXED)
  return [
    models.load(path, "float32", weights=x) for x in ("stored", "dequantised")
  ]


def test_a_head_reads_a_quantised_targets_embedding(targets, tmp_path):
  _, arrays = targets
  models.save(tmp_path / "head", checkpoints.ours_head(arrays))
  tokens = checkpoints.tokens(1, 7, CONFIG.vocab_size)
  features = np.ones((1, 7, CONFIG.hidden_size), np.float32)
  logits = []
  for target in targets:
    head = drafting.load(tmp_path / "head", target)
    assert head.params["embedding"] is target.params["embedding"]
    rows = jnp.asarray(tokens), jnp.asarray(features)
    cache = head.init_cache(1, 8)
    logits.append(models.causal_pass(head.module, head.params, rows, cache)[0])
  assert checkpoints.error(*logits) < 1e-5


def test_a_draft_that_knows_few_tokens_of_a_quantised_target(targets, tmp_path):
  few = [50, 3, 17, 4]
  config = dataclasses.replace(
    CONFIG, shares_embedding=True, draft_vocab_size=len(few)
  )
  made = checkpoints.ours(config)
  place = np.full(CONFIG.vocab_size, len(few), np.int32)
  place[few] = np.arange(len(few))
  made = dataclasses.replace(made, params=made.params | {"place": place})
  models.save(tmp_path / "draft", made)
  tokens = checkpoints.tokens(1, 7, CONFIG.vocab_size)
  logits = []
  for target in targets:
    draft = drafting.load(tmp_path / "draft", target)
    logits.append(np.asarray(draft.logits(tokens))[..., few])
  assert isinstance(draft.params["unembedding"], jax.Array)
  assert checkpoints.error(*logits) < 1e-5


@pytest.mark.parametrize("kind", ["independent", "eagle"])
def test_scores_and_new_drafts_are_those_of_arrays(kind, tmp_path):
  """Of a quantised target; an independent draft is quantised, too."""
  model = checkpoints.ours(CONFIG)
  path = gguf_files.save(tmp_path / "target.gguf", model, MIXED)
  text = [
    distill.Conversation(prompt=(1, 2, i + 3), answer=(5, 6, 7 + i, 2))
    for i in range(6)
  ]
  training = distill.Training(kind=kind, depth=2, vocabulary=40, rows=2)
  training = dataclasses.replace(training, steps=3, held_out=2)
  found = []
  for form in ("stored", "dequantised"):
    draft = path if kind == "independent" else None
    pair = tv_jax.load(path, draft, weights=form)
    assert pair.target.is_quantised == (form == "stored")
    folder = tmp_path / form
    made = distill.distill(
      pair, folder / "draft", training, data_folder=folder, text=text
    )
    scores = [made]
    if draft:
      scores.append(distill.score(pair, text, depth=2))
    else:
      pair = tv_jax.load(path, folder / "draft", weights=form)
      scores.append(distill.score(pair, text, depth=2))
    found.append(
      [x.mean for y in scores for rule in y.lengths.values() for x in rule]
    )
  np.testing.assert_allclose(*found, rtol=1e-4)


def test_a_run_records_what_its_weights_are(tmp_path, monkeypatch):
  """It is not continued with others, whose logits differ in last digits."""
  path = gguf_files.bundled(tmp_path, TYPES.Q8_0)
  config = grids.config(
    models__target=str(path), models__draft="", tasks="qa", max_new_tokens=2
  )

  def interrupt(what, done=0, _=None):
    if (what, done) == ("answers", 1):
      raise KeyboardInterrupt

  folder = tmp_path / "run"
  with pytest.raises(KeyboardInterrupt):
    runs.run(config, folder, interrupt)
  sources = reading.json_object(folder / "sources.json")
  assert sources["weights"] == "quantised"
  with monkeypatch.context() as patch:
    patch.delitem(FORMS, "Q8_0")
    with bad.refused("changed since this run began: weights"):
      runs.run(config, folder)
  runs.run(config, folder)
  assert len(store.read(folder).items) == 2
