"""Compile a function for a GPU that this machine does not have, and read it.

Needs the packages jax-cuda13-plugin and jax-cuda13-pjrt of jaxlib's version
(installed with --no-deps; no CUDA libraries, no GPU), and JAX_PLATFORMS=cpu.
The targets are descriptions of chips from their published figures.
"""

import dataclasses
import importlib.util
import pathlib
import re
import tempfile

import jax
from jax.experimental import topologies
from jax.sharding import NamedSharding, PartitionSpec

TARGETS = pathlib.Path(__file__).parent / "targets"


def available() -> bool:
  """Whether the CUDA compiler plugin is installed."""
  return (
    importlib.util.find_spec("jax_plugins") is not None
    and importlib.util.find_spec("jax_plugins.xla_cuda13") is not None
  )


def mesh(target: str = "h200", devices: int = 1) -> jax.sharding.Mesh:
  """A mesh of imagined devices, its one axis named "x"."""
  description = topologies.get_topology_desc(
    platform="cuda",
    target_config=(TARGETS / f"{target}.txtpb").read_text(),
    topology=f"1x{devices}x1",
  )
  return topologies.make_mesh(description, (devices,), ("x",))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Program:
  """A program compiled for a GPU.

  Attributes:
    hlo: The optimised module's text.
    thunks: What the host launches, one line each, nested bodies included.
    memory: Compiled memory statistics (temporaries, aliases, arguments).
  """

  hlo: str
  thunks: tuple[str, ...]
  memory: object

  @property
  def kernels(self) -> tuple[str, ...]:
    """The thunks that launch a kernel."""
    return tuple(
      line
      for line in self.thunks
      if re.search(r"\bk(CustomKernel|Kernel|Gemm|CublasLt|CustomCall)", line)
    )


def compile_for(
  function, *arguments, target: str = "h200", on=None, options=None, **jit
) -> Program:
  """Compiles `function` for `target`.

  Args:
    function: What `jax.jit` takes.
    *arguments: Pytrees of `jax.ShapeDtypeStruct`; one without a sharding is
      replicated over the mesh.
    target: A file of `benchmarks/targets/`, without its ending.
    on: A mesh of `mesh()`; by default one device.
    options: More compiler options, by name without the leading dashes.
    **jit: Keyword arguments of `jax.jit`.

  Returns:
    The compiled program.
  """
  everywhere = NamedSharding(on or mesh(target), PartitionSpec())

  def placed(leaf):
    if getattr(leaf, "sharding", None) is not None:
      return leaf
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=everywhere)

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
    thunks = [
      line
      for path in sorted(pathlib.Path(dump).glob("*.thunk_sequence.txt"))
      for line in path.read_text().splitlines()
      if line.strip()
    ]
  return Program(
    hlo=compiled.as_text(),
    thunks=tuple(thunks),
    memory=compiled.memory_analysis(),
  )
