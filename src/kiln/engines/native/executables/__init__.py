"""Compiled programs: calling them, and keeping them as bytes."""
