"""A pytest plugin under which `jax` is kiln.

Warnings of kiln about speed are not errors, even of libraries that take all warnings for errors.
"""

from __future__ import annotations

from typing import Any

import kiln.as_jax

kiln.as_jax.install()


def pytest_configure(config: Any) -> None:
    """Let functions be compiled again and again."""
    line = "ignore::kiln.errors.RecompilationWarning"
    config.addinivalue_line("filterwarnings", line)
