"""`shard_map` under its former path."""

from kiln.api.sharding.shard_map import shard_map

__all__ = ["shard_map"]
