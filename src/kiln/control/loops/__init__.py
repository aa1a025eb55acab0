"""Loops: scan, while, and what is computed by them."""
