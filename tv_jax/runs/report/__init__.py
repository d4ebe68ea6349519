"""What a run found: tables, and the page with the tree explorer."""

from tv_jax.runs.report.writing import PAGE, write

__all__ = ["PAGE", "write"]
