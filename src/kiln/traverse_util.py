"""Nested dicts by paths: keys that are tuples of names, or names joined by a separator."""

from __future__ import annotations
