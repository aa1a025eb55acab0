"""Lowerings of functions of each element."""
