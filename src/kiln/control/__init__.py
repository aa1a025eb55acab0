"""Primitives that hold programs: call, cond, while, scan, custom derivatives, checkpoint."""
