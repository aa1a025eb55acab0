"""`shard_map` under its former path."""

from kiln.api.shard_map import shard_map

__all__ = ["shard_map"]
