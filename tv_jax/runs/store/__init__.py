"""The crash-safe store of a run: a folder.

    config.json   what was asked for
    env.json      every environment that wrote here
    sources.json  hashes of what was read
    items.jsonl   one line for each finished item
    timing.json   speed, once it was measured
    COUNT         how many items there will be
    DONE          there when nothing is left to do
    lock          who writes: host and process

One process writes, any number read. What is told to be written is on the disk:
after a crash at any moment the same command continues with the next item.
"""

from tv_jax.edge.disk import StoreError
from tv_jax.runs.store.unit import Unit, read, read_many
from tv_jax.runs.store.writer import Store

__all__ = ["Store", "StoreError", "Unit", "read", "read_many"]
