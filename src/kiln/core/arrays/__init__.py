"""Concrete arrays: their data, shards, places, texts."""
