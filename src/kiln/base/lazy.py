"""The table of modules loaded on first use: it keeps `import kiln` light."""

from __future__ import annotations

import importlib
from typing import Any


class LazyModule:
    """Stands for a module and imports it when an attribute is first read."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(importlib.import_module(self._name), attribute)
        setattr(self, attribute, value)
        return value


fractions = LazyModule("fractions")
scipy_special = LazyModule("scipy.special")
scipy_linalg = LazyModule("scipy.linalg")
opt_einsum = LazyModule("opt_einsum")
