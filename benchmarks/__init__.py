"""Measurements: each script prints one table, from one command."""
