"""Record a run's cycles, to be replayed."""

from tv_jax.recording.run import record

__all__ = ["record"]
