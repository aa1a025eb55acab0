"""Lowerings of reductions, windows and sorts."""
