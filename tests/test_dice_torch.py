"""Programs with torch's random numbers, in the place of which ours stand."""

import re
from fractions import Fraction

import pytest

from tests import documents
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


def by_rows():
  first, second = torch.rand(size=(2, 1))
  if first < LAW[2]:
    return 2
  return 1 if second.item() < 0.75 else 0


def by_attributes():
  u = torch.rand(2, 1)
  first, second = u.data.T[0]
  return 2 if first < 0.5 else int(second >= 0.25)


def by_race_of_doubles():
  laws = LAW.double()
  laws /= torch.empty_like(laws).exponential_()
  return laws.argmax()


def by_list():
  first, second = torch.rand(2).tolist()
  return 2 if first < LAW[2] else int(second < 0.75)


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


def by_parts():
  noise = torch.zeros(4)
  noise[:2].exponential_()
  noise[2:].exponential_()
  return (LAW / noise).argmax()


BUFFER = torch.empty(4)


def by_buffer():
  with torch.inference_mode():
    return (LAW / BUFFER.exponential_()).argmax()


@pytest.mark.parametrize(
  "program",
  [
    by_multinomial,
    by_categorical,
    by_race,
    by_gumbel,
    by_uniform,
    by_list,
    view_of_noise,
    view_of_laws,
    by_parts,
    by_buffer,
    by_rows,
    by_attributes,
    by_race_of_doubles,
  ],
)
def test_a_token_is_drawn_by_its_law(program):
  law = certify.explore(program)
  assert law.distance(WANTED) < 1e-7  # of logarithms in float32
  if program is not by_gumbel:
    assert law.chances == WANTED


def row_of_uniforms():
  u = torch.rand(2, 2)
  first = u[0]
  u.mul_(2)
  return first < 0.5


def rows_of_uniforms():
  u = torch.rand(1, 2)
  for row in u:
    row.unsqueeze_(0).mul_(2)
  return (u < 0.5)[0]


def copy_of_uniforms():
  u = torch.rand(2)
  u[[0, 1]].mul_(2)
  u.clone().mul_(2)
  return u < 0.25


def shared_memory():
  u = torch.zeros(2).set_(torch.Tensor(torch.rand(2)))
  u.as_subclass(torch.Tensor).mul_(2)
  return torch.vmap(lambda x: x < 0.5)(u)


@pytest.mark.parametrize(
  "program",
  [row_of_uniforms, rows_of_uniforms, copy_of_uniforms, shared_memory],
)
def test_views_share_memory_and_copies_do_not(program):
  chances = certify.explore(program).chances
  assert chances[True, True] == Fraction(1, 16)


GENERATOR = torch.Generator()


def forks():
  with torch.random.fork_rng():
    return bool(torch.rand(()) < 0.5)


OUT = torch.zeros(2)


def array_of_noise():
  noise = torch.zeros(4)
  array = noise.numpy()
  noise.exponential_()
  return (array / LAW.numpy()).argmin()


def writes_by_an_array():
  noise = torch.zeros(4)
  array = noise.numpy()
  noise.exponential_()
  array[0] = 5
  return (LAW / noise).argmax()


KEPT = []


def keeps():
  if KEPT:
    return bool(KEPT[0] < 0.5)
  KEPT.append(torch.rand(()))
  return False


@pytest.mark.parametrize(
  ("program", "message"),
  [
    (lambda: torch.sort(torch.rand(3)), "torch's sort, which cannot be"),
    (lambda: torch.randn(3), "draws by torch's randn"),
    (lambda: torch.nn.functional.dropout(LAW), "draws by torch's bernoulli"),
    (lambda: LAW[torch.rand(1)], "gives random numbers to torch's index"),
    (lambda: str(torch.rand(1)), r"takes format\(\) of a random number"),
    (lambda: torch.rand(2, generator=GENERATOR) < 0.5, "a torch.Generator: it"),
    (lambda: torch.manual_seed(0), r"\(manual_seed\): its numbers can"),
    (lambda: torch.cuda.manual_seed(0), "its numbers can come again"),
    (lambda: torch.set_rng_state(torch.get_rng_state()), "get_rng_state"),
    (lambda: torch.default_generator.manual_seed(0), "its numbers can come"),
    (forks, r"\(fork_rng\): its numbers can come again"),
    (lambda: torch.rand(1).to(torch.int64), "rounds random numbers to torch.i"),
    (lambda: torch.rand(1).half() < 0.5, "rounds random numbers to torch.flo"),
    (lambda: torch.rand(2, out=OUT) < 0.5, "draws by torch's rand"),
    (lambda: torch.lt(torch.rand(2), 0.5, out=OUT), "numbers to torch's lt"),
    (lambda: torch.rand(2).view(torch.int32) < 1, "reads the bits"),
    (lambda: torch.rand(2).view(torch.float64) < 0.5, "reads the bits"),
    (lambda: float(torch.rand(())) < 0.5, "makes a Python number of a random"),
    (lambda: torch.full((2,), torch.rand(())) < 0.5, "makes a Python number"),
    (lambda: torch.rand(2).numpy() < 0.5, "makes an array of a tensor"),
    # What nobody thought of reads memory, which is other in the next run.
    (array_of_noise, "two runs that drew the same"),
    (lambda: torch.tensor([torch.rand(())]) < 0.5, "two runs that drew"),
    (writes_by_an_array, "past torch's functions"),
    (keeps, "from run to run"),
    (lambda: torch.rand(2), "the function returns"),
  ],
)
def test_what_cannot_be_explored_is_named(program, message):
  with pytest.raises(certify.ExploreError, match=message) as error:
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
  assert programs.certify(verify, settings).lossless
  wrong = programs.certify(recovers_from_the_target, settings)
  assert wrong.verdict == "NOT LOSSLESS"
