"""Lowerings of primitives that hold programs, run on several devices, or call functions."""
