"""Lowerings of elementwise functions."""
