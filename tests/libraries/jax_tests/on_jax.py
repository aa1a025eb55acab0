"""A pytest plugin under which JAX finds the files for tests that its published package lacks."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

from tests.libraries.jax_tests.recording import SOURCE

PACKAGES = ("jax._src", "jax._src.pallas")

for name in PACKAGES:
    # What is installed is found first.
    importlib.import_module(name).__path__.append(
        str(Path(os.environ[SOURCE]).joinpath(*name.split(".")))
    )
