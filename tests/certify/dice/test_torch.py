"""Programs that draw with torch; certify replaces the random functions."""

import operator
import random

import numpy as np
import pytest

from tests.lib import commands, documents
from tv_jax import certify

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity

LAW = torch.tensor([0.125, 0.375, 0.5, 0.0])


def test_who_imports_torch_too_late_is_told(tmp_path):
  (tmp_path / "lazy.py").write_text(
    "from tv_jax import certify\n"
    "def program():\n"
    "  import torch\n"
    "  return int(torch.rand(1) < 0.25)\n"
    "certify.explore(program)\n"
  )
  done = commands.run(program="lazy", cwd=tmp_path)
  assert "was not seen: import it before" in done.stderr


def changes_a_part():
  laws = LAW.clone()
  laws[:2].exponential_()
  return laws.argmax()


GENERATOR = torch.Generator()


def forks():
  with torch.random.fork_rng():
    return bool(torch.rand(()) < 0.5)


HALF = torch.tensor([0.75, 0.25], dtype=torch.bfloat16)
OUT = torch.zeros(2)


def view_of_noise():
  noise = torch.zeros(1, 4)
  flat = noise.view(-1)
  noise.exponential_()
  return (LAW / flat).argmax()


def view_of_laws():
  laws = LAW.clone()[None]
  first = laws[0]
  laws.div_(torch.empty_like(laws).exponential_())
  return first.argmax()


def array_of_noise():
  noise = torch.zeros(4)
  array = noise.numpy()
  noise.exponential_()
  return (array / LAW.numpy()).argmin()


@pytest.mark.parametrize(
  ("program", "told"),
  [
    (lambda: torch.rand(3).cumsum(0), "torch's cumsum, which cannot be"),
    (lambda: torch.add(torch.rand(3), 2, LAW) < 1, "random numbers to torch's"),
    (lambda: LAW[torch.rand(1)], "uses a random number as an index"),
    (lambda: str(torch.rand(1)), "prints a random number"),
    (changes_a_part, "changes a part of a tensor"),
    (lambda: torch.Generator(), "makes a Generator: its numbers can come"),
    (
      lambda: torch.rand(2, generator=GENERATOR) < 0.5,
      "a torch.Generator: its",
    ),
    (
      lambda: torch.manual_seed(0),
      r"generator \(manual_seed\): its numbers can",
    ),
    (lambda: torch.default_generator.manual_seed(0), "its numbers can come"),
    (lambda: torch.rand(()) < HALF, "rounds random numbers to torch.bfloat16"),
    (lambda: torch.rand(()).item() < HALF[0], "of bfloat16, which rounds it"),
    (lambda: torch.multinomial(HALF, 1), "a law of torch.bfloat16, whose"),
    (forks, r"\(fork_rng\): its numbers can come again"),
    (lambda: torch.randint(3, (2,)), "draws by torch's randint"),
    (lambda: torch.stack([torch.rand(2)]) < 0.5, "numbers to torch's stack"),
    (lambda: torch.rand(1).to(torch.int64), "rounds random numbers to torch.i"),
    (lambda: torch.rand(2, out=OUT) < 0.5, r"fills a tensor by torch's rand"),
    (
      lambda: torch.lt(torch.rand(2), 0.5, out=OUT),
      "random numbers to torch's",
    ),
    (lambda: torch.rand(2).view(torch.int32) < 1, "reads the bits"),
    (lambda: float(torch.rand(())) < 0.5, "a random number into a float"),
    (
      lambda: torch.gather(torch.rand(2), 0, torch.tensor([0, 1]), out=OUT),
      "random numbers to torch's gather",
    ),
    (lambda: torch.full((2,), torch.rand(())) < 0.5, "to torch.full"),
    (lambda: OUT.new_tensor(torch.rand(2)) < 0.5, "to torch.new_tensor"),
    # What nobody thought of reads memory, which is other in the next run.
    (lambda: torch.Tensor(torch.rand(2)) < 0.5, "two runs that drew the same"),
    (lambda: torch.zeros(2).set_(torch.rand(2)) < 0.5, "two runs that drew"),
    (
      lambda: torch.vmap(lambda x: x < 0.5)(torch.rand(2)),
      "two runs that drew",
    ),
    (
      lambda: torch.rand(2).as_subclass(torch.Tensor) < 0.5,
      "two runs that drew",
    ),
    (lambda: torch.zeros(2).uniform_(0, below=1) < 0.5, "the program fails"),
    (lambda: torch.tensor([torch.rand(())]) < 0.5, "gives random numbers to"),
    (lambda: torch.ops.aten.rand([2]) < 2, "torch drew numbers that are not"),
    (view_of_noise, "another tensor or array shares"),
    (view_of_laws, "another tensor or array shares"),
    (array_of_noise, "another tensor or array shares"),
    (lambda: torch.rand(2).numpy() < 0.5, "torch's numpy, which cannot be"),
    (lambda: np.asarray(torch.rand(2)) < 0.5, "which cannot be followed"),
    (lambda: torch.rand(2), "the function returns"),
    (
      lambda: torch.nn.functional.gumbel_softmax(LAW).argmax(),
      "random numbers to torch's",
    ),
    (
      lambda: torch.add(LAW.numpy(), 1),
      r"laws are tensors with --arrays=torch",
    ),
  ],
)
def test_what_cannot_be_explored_is_named(program, told):
  with pytest.raises(certify.ExploreError, match=told) as error:
    certify.explore(program)
  assert "\n" not in str(error.value)


def swallows(looks):
  def program():
    try:
      looks(LAW.clone(), torch.rand(2), random.random())
    except Exception:
      return 1
    return 0

  return program


@pytest.mark.parametrize(
  "looks",
  [
    lambda law, u, v: u.exp(),
    lambda law, u, v: u.numpy(),
    lambda law, u, v: torch.tensor(v),
    lambda law, u, v: torch.full((2,), v),
    lambda law, u, v: torch.from_numpy(np.random.rand(2)),
    lambda law, u, v: law * v,
    lambda law, u, v: torch.add(law, v),
    lambda law, u, v: law.clamp(max=v),
    lambda law, u, v: operator.setitem(law, 0, v),
  ],
)
def test_no_error_of_a_stand_in_is_swallowed(looks):
  with pytest.raises(certify.ExploreError, match=r"test_torch\.py, line"):
    certify.explore(swallows(looks))


def test_facts_about_random_tensors_are_known():
  def looks(law, u, v):
    assert not torch.isnan(u).any()
    assert u.isfinite().all()
    assert (law > v).dtype == torch.bool

  assert certify.explore(swallows(looks)).chances == {0: 1}


@pytest.mark.parametrize(
  ("law", "count"),
  [([0, 0], 1), ([-1, 2], 1), ([float("nan"), 1], 1), ([1], 2)],
)
def test_multinomial_raises_as_torch_does(law, count):
  """So that a program can fall back to the target where a residual is 0."""

  def program():
    try:
      torch.multinomial(torch.tensor(law, dtype=torch.float64), count)
    except RuntimeError:
      return 1
    return 0

  assert program() == 1
  assert certify.explore(program).chances == {1: 1}


def coins(law):
  return torch.rand(4) < law


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
  ("compiles", "told"),
  [
    (torch.compile, r"set TORCHDYNAMO_DISABLE=1 for torch\.compile"),
    (torch.jit.script, "set PYTORCH_JIT=0 for TorchScript"),
  ],
)
def test_what_torch_compiles_is_named(compiles, told):
  compiled = compiles(coins)
  with pytest.raises(certify.ExploreError, match=told):
    certify.explore(lambda: compiled(LAW).tolist())


def test_a_comparison_with_a_tensor_is_a_tensor():
  def rejected():
    return "no" if ~(torch.rand(()).item() < torch.tensor(0.75)) else "yes"

  assert certify.explore(rejected).chances == {"yes": 0.75, "no": 0.25}


def test_functions_are_as_they_were_after_it():
  before = torch.rand, torch.Tensor.exponential_
  certify.explore(lambda: (LAW / torch.zeros(4).exponential_()).argmax())
  assert before == (torch.rand, torch.Tensor.exponential_)
  assert type(torch.rand(2)) is torch.Tensor
  assert "multinomial" not in vars(torch.Tensor)


@pytest.fixture(scope="module")
def verify():
  """The document's verifier."""
  text = (documents.DOCS / "samplers.md").read_text()
  made = {}
  exec(documents.files_of(text)["my_sampler"], made)
  return made["verify"]


def test_a_verifier_of_tensors(verify):
  def recovers_from_the_target(tree, tokens, q, p, rng):
    path, token = verify(tree, tokens, q, p, rng)
    if len(path) < len(tokens) - 1:
      token = torch.multinomial(p[len(path)], 1)
    return path, token

  settings = {"cases": 12, "tree": "chain:2", "arrays": "torch"}
  assert certify.check_program(verify, **settings).lossless
  wrong = certify.check_program(recovers_from_the_target, **settings)
  assert wrong.verdict == "NOT LOSSLESS"
