"""The best tree for a pair, a rule and a machine: `tv_jax.tune(pair, prompts)`.

The command and the function have one name, so that the module can be called.
"""

import inspect
import sys
import types

from tv_jax.tune.choosing import best, part, places
from tv_jax.tune.files import write
from tv_jax.tune.results import Row, Tuned
from tv_jax.tune.sampling import Sample, worth_of
from tv_jax.tune.tuning import tune, tune_recorded
from tv_jax.tune.widening import wide

__all__ = [
  "Row",
  "Sample",
  "Tuned",
  "best",
  "part",
  "places",
  "tune",
  "tune_recorded",
  "wide",
  "worth_of",
  "write",
]


class _Callable(types.ModuleType):
  """A module that is `tune` when it is called."""

  __call__ = staticmethod(tune)


_this = sys.modules[__name__]
_this.__class__ = _Callable
_this.__signature__ = inspect.signature(tune)  # else without its first argument
