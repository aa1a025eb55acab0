"""Compiles programs with XLA, through jaxlib and without jax."""

import os

from kiln.core.engines.installed import require_installed

# Whoever imports a part of the engine is told what to install.
require_installed("xla", "kiln.engines.xla")
# Read once, when jaxlib's shared library loads: 3 hides messages that are raised as exceptions
# anyway.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
