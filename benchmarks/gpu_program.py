"""Compiles a function for a GPU that this machine does not have.

Needs the packages jax-cuda13-plugin and jax-cuda13-pjrt of jaxlib's version
(installed with --no-deps; no CUDA libraries, no GPU), and JAX_PLATFORMS=cpu.
The files in targets/ describe chips by their published figures.
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

TARGETS = pathlib.Path(__file__).parent / "targets"


def available() -> bool:
  """Returns whether the CUDA compiler plugin is installed."""
  return (
    importlib.util.find_spec("jax_plugins") is not None
    and importlib.util.find_spec("jax_plugins.xla_cuda13") is not None
  )


def mesh(target: str = "h200") -> jax.sharding.Mesh:
  """Returns a mesh of one device, made from the description of a chip."""
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
    hlo: Text of the optimised module.
    thunks: XLA's launches, one line each, with the bodies of loops.
    launches: The same list after XLA has captured CUDA graphs.
    names: The instruction of each thunk, by the thunk's number.
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
    """The loops outside CUDA graphs: the host waits in each iteration."""
    loops, around = [], []  # around: the thunks that contain the line
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
    """Returns copies and transposes of `at_least` numbers, also if fused.

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
    """Counts the kernels of each scope.

    Args:
      pattern: Regular expression for the name of a kernel's last operation,
        such as "jit(generate)/while/body/verify/..". Its first group is the
        scope; "" for kernels that do not match.
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
    function: The function to compile.
    *arguments: Its arguments, as pytrees of `jax.ShapeDtypeStruct`.
    target: A file of `benchmarks/targets/`, without its ending.
    options: More compiler options, by name without the leading dashes.
    **jit: Keyword arguments of `jax.jit`.
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
    # XLA does not write the file if no graph is captured.
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
  """Returns the lines of the files of this kind that XLA wrote."""
  return tuple(
    line
    for path in sorted(pathlib.Path(directory).glob(f"*.{what}.txt"))
    for line in path.read_text().splitlines()
    if line.strip()
  )
