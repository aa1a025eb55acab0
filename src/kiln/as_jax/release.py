"""The distribution `jax`, for `importlib.metadata`."""

from __future__ import annotations

from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

from kiln.as_jax.version import __version__


class Release(Distribution):
    """The release of JAX that kiln follows: a name and a version."""

    def read_text(self, filename: str) -> str | None:
        """Return the metadata; there are no other files."""
        if filename == "METADATA":
            return f"Metadata-Version: 2.1\nName: jax\nVersion: {__version__}\n"
        return None

    def locate_file(self, path: Any) -> Path:
        """Return the path of a file of kiln."""
        return Path(__file__).parent / str(path)
