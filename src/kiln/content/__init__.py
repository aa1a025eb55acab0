"""Deciding when a new function object is a known function."""
