"""Compilation for machines that are described: finding compilers, compiling ahead of time."""
