"""Meshes, and functions that all devices of one run."""
