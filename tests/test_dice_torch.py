"""Programs with torch's random numbers, in the place of which ours stand."""

import re
from fractions import Fraction

import pytest

from tests import commands, documents
from tv_jax import certify
from tv_jax.certify import programs

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.parity

LAW = torch.tensor([0.125, 0.375, 0.5, 0.0])
WANTED = {0: Fraction(1, 8), 1: Fraction(3, 8), 2: Fraction(1, 2)}


def by_multinomial():
  return torch.multinomial(LAW[None], 1).item()


def by_categorical():
  return torch.distributions.Categorical(LAW).sample().item()


def by_race():
  """As vLLM's sampler: noise in place, and the laws divided in place."""
  laws = LAW[None].clone()
  noise = torch.empty_like(laws)
  noise.exponential_()
  return laws.div_(noise).argmax(dim=-1).view(-1).item()


def by_gumbel():
  noise = -torch.log(-torch.log(torch.rand_like(LAW)))
  return torch.argmax(LAW.log() + noise).item()


def by_uniform():
  u = torch.rand(1)
  return (u >= torch.cumsum(LAW, 0)).sum().item()


def by_search():
  return torch.searchsorted(torch.cumsum(LAW, 0), torch.rand(()), right=True)


def by_rows():
  first, second = torch.rand(size=(2, 1))
  if first < LAW[2]:
    return 2
  return 1 if (second.numpy() < 0.75).item() else 0


def by_bernoulli():
  if torch.bernoulli(LAW)[2]:
    return 2
  return 1 if torch.rand(2).tolist()[1] < 0.75 else 0


@pytest.mark.parametrize(
  "program",
  [
    by_multinomial,
    by_categorical,
    by_race,
    by_gumbel,
    by_uniform,
    by_search,
    by_bernoulli,
    by_rows,
  ],
)
def test_a_token_is_drawn_by_its_law(program):
  found = certify.explore(program)
  assert found.distance(WANTED) < 1e-7  # of logarithms in float32
  if program is not by_gumbel:
    assert found.chances == WANTED


def test_torch_is_seen_where_the_function_imports_it(tmp_path):
  (tmp_path / "lazy.py").write_text(
    "from tv_jax import certify\n"
    "def program():\n"
    "  import torch\n"
    "  torch.manual_seed(0)\n"
    "  return int(torch.rand(1) < 0.25)\n"
    "print(certify.explore(program).chances)\n"
  )
  done = commands.run(program="lazy", cwd=tmp_path)
  assert done.stdout == "{0: Fraction(3, 4), 1: Fraction(1, 4)}\n", done.stderr


def changes_a_part():
  laws = LAW.clone()
  laws[:2].exponential_()
  return laws.argmax()


@pytest.mark.parametrize(
  ("program", "told"),
  [
    (lambda: torch.sort(torch.rand(3)), "torch's sort, which cannot be"),
    (lambda: torch.rand(3).cumsum(0), "torch's cumsum, which cannot be"),
    (lambda: torch.randn(3), "draws by torch's randn"),
    (lambda: LAW[torch.rand(1)], "uses a random number as an index"),
    (lambda: str(torch.rand(1)), "prints a random number"),
    (changes_a_part, "changes a part of a tensor"),
    (lambda: torch.rand(2), "the function returns"),
  ],
)
def test_what_cannot_be_explored_is_named(program, told):
  with pytest.raises(certify.ExploreError, match=told) as error:
    certify.explore(program)
  assert "\n" not in str(error.value)


def test_functions_are_as_they_were_after_it():
  before = torch.rand, torch.Tensor.exponential_
  certify.explore(by_race)
  assert before == (torch.rand, torch.Tensor.exponential_)
  assert type(torch.rand(2)) is torch.Tensor
  assert "multinomial" not in vars(torch.Tensor)


@pytest.fixture(scope="module")
def verify():
  """The document's verifier."""
  text = (documents.DOCS / "lossless.md").read_text()
  (content,) = re.findall(r"^```python\n(# test_.*?)^```$", text, re.M | re.S)
  made = {}
  exec(content, made)
  made["test_it_is_lossless"]()
  return made["verify"]


def test_a_verifier_of_tensors(verify):
  def recovers_from_the_target(tree, tokens, q, p, rng):
    path, token = verify(tree, tokens, q, p, rng)
    if len(path) < len(tokens) - 1:
      token = torch.multinomial(p[len(path)], 1)
    return path, token

  settings = programs.Settings(cases=12, tree="chain:2", arrays="torch")
  assert programs.certify(verify, "verify", settings).lossless
  wrong = programs.certify(recovers_from_the_target, "verify", settings)
  assert wrong.verdict == "NOT LOSSLESS"
