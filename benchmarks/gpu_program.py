"""Compile a function for a GPU that this machine does not have, and read it.

Needs the packages jax-cuda13-plugin and jax-cuda13-pjrt of jaxlib's version
(installed with --no-deps; no CUDA libraries, no GPU), and JAX_PLATFORMS=cpu.
The targets are descriptions of chips from their published figures.
"""

import collections
import dataclasses
import importlib.util
import math
import pathlib
import re
import tempfile

import jax
from jax.experimental import topologies
from jax.sharding import NamedSharding, PartitionSpec

from tv_jax.engine import programs

TARGETS = pathlib.Path(__file__).parent / "targets"

# What `generate` asks of the compiler on a GPU.
CAPTURE = programs.CAPTURE


def available() -> bool:
  """Whether the CUDA compiler plugin is installed."""
  return (
    importlib.util.find_spec("jax_plugins") is not None
    and importlib.util.find_spec("jax_plugins.xla_cuda13") is not None
  )


def why_not() -> str:
  """What keeps this process from compiling for a GPU that is not there."""
  if not available():
    return (
      "that needs jax-cuda13-plugin and jax-cuda13-pjrt of jaxlib's version,"
      " installed with --no-deps, but no GPU"
    )
  if jax.default_backend() != "cpu":
    return "set JAX_PLATFORMS=cpu to compile for a GPU that is not there"
  return ""


def mesh(target: str = "h200") -> jax.sharding.Mesh:
  """Returns a mesh of a single device that is described, not present."""
  description = topologies.get_topology_desc(
    platform="cuda",
    target_config=(TARGETS / f"{target}.txtpb").read_text(),
    topology="1x1x1",
  )
  return topologies.make_mesh(description, (1,), ("x",))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Program:
  """A program compiled for a GPU.

  Attributes:
    hlo: The optimised module's text.
    thunks: What is to be launched, one line each, nested bodies included.
    launches: The same list after XLA has captured CUDA graphs.
    names: By the number of a thunk, its instruction in the module.
    memory: Compiled memory statistics (temporaries, aliases, arguments).
  """

  hlo: str
  thunks: tuple[str, ...]
  launches: tuple[str, ...]
  names: dict[int, str]
  memory: object

  @property
  def kernels(self) -> tuple[str, ...]:
    """The thunks that launch a kernel."""
    return tuple(
      line
      for line in self.thunks
      if re.search(r"\bk(CustomKernel|Kernel|Gemm|CublasLt|CustomCall)", line)
    )

  @property
  def host_loops(self) -> tuple[str, ...]:
    """The loops that are in no CUDA graph: the host waits in each iteration."""
    loops, around = [], []  # the thunks that the line is nested in
    for line in self.launches:
      match = re.match(r"( *)\d+: k(\w+)", line)
      if not match:
        continue
      indent, kind = len(match[1]), match[2]
      around = [thunk for thunk in around if thunk[0] < indent]
      if kind == "While" and all(of != "CommandBuffer" for _, of in around):
        loops.append(line)
      around.append((indent, kind))
    return tuple(loops)

  def moved(self, at_least: int) -> list[str]:
    """Copies and transposes of `at_least` numbers, in or out of fusions.

    The text shows the size of each result:
    `%name = type[sizes]{layout} copy(`.
    """
    pattern = r"= \w+\[([\d,]+)\]\S* (copy|copy-start|transpose)\("
    return [
      match.group()
      for match in re.finditer(pattern, self.hlo)
      if math.prod(map(int, match[1].split(","))) >= at_least
    ]

  def kernels_by(self, pattern: str) -> collections.Counter[str]:
    """How many kernels there are of each scope.

    Args:
      pattern: What to find in the name of the operation that a kernel ends in,
        such as "jit(generate)/while/body/verify/..": its first group is the
        key, "" where it is not found.
    """
    scopes = dict(re.findall(r'%?([\w.-]+) = .*?op_name="([^"]*)"', self.hlo))
    counts: collections.Counter[str] = collections.Counter()
    for line in self.kernels:
      number = int(line.partition(":")[0])
      match = re.search(pattern, scopes.get(self.names[number], ""))
      counts[match[1] if match else ""] += 1
    return counts


def compile_for(
  function, *arguments, target: str = "h200", options=None, **jit
) -> Program:
  """Compiles `function` for `target`.

  Args:
    function: What `jax.jit` takes.
    *arguments: Pytrees of `jax.ShapeDtypeStruct`.
    target: A file of `benchmarks/targets/`, without its ending.
    options: More compiler options, by name without the leading dashes.
    **jit: Keyword arguments of `jax.jit`.

  Returns:
    The compiled program.
  """
  place = NamedSharding(mesh(target), PartitionSpec())

  def placed(leaf):
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place)

  lowered = jax.jit(function, **jit).lower(*jax.tree.map(placed, arguments))
  with tempfile.TemporaryDirectory() as dump:
    compiled = lowered.compile(
      compiler_options={
        "xla_gpu_autotune_level": "0",
        "xla_dump_to": dump,
        "xla_dump_hlo_as_text": True,
      }
      | (options or {})
    )
    thunks = _dumped(dump, "thunk_sequence")
    # Not written where there is nothing to put into a graph.
    launches = _dumped(dump, "thunk_sequence_after_thunk_passes") or thunks
    metadata = "\n".join(_dumped(dump, "thunk_metadata"))
  names = re.findall(
    r'profile_annotation: "([^"]*)"\s+thunk_id: (\d+)', metadata
  )
  return Program(
    hlo=compiled.as_text() or "",
    thunks=thunks,
    launches=launches,
    names={int(number): name for name, number in names},
    memory=compiled.memory_analysis(),
  )


def _dumped(directory: str, what: str) -> tuple[str, ...]:
  """The lines of the files that XLA wrote of this kind."""
  return tuple(
    line
    for path in sorted(pathlib.Path(directory).glob(f"*.{what}.txt"))
    for line in path.read_text().splitlines()
    if line.strip()
  )
