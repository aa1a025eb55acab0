"""Compiles programs with XLA, through jaxlib and without jax."""

import os

# Read once, when jaxlib's shared library loads: 3 hides messages that are raised as exceptions
# anyway.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
