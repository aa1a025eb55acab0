"""Passes over buffers that several nests write, each a piece."""
