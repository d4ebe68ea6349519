"""Sweeps: from an experiment to finished runs, through crashes, to tables."""
