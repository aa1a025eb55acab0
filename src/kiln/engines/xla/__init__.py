"""Compiles programs with XLA, through jaxlib and without jax."""
