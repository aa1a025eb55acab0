"""The module `jax`, and the names of JAX that a module of kiln lacks."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

import kiln
from kiln.as_jax.missing import missing_name
from kiln.as_jax.names import is_module, is_public
from kiln.as_jax.version import __version__, __version_info__
from kiln.jit.function import JitFunction


def top_level() -> ModuleType:
    """Return the module `jax`: the public names of kiln, with the version of jax.

    It is a separate module, since `kiln.__version__` is kiln's, and `kiln` has submodules that JAX
    does not have.
    """
    # Libraries recognize a jitted function by this part of the repr of its class.
    JitFunction.__qualname__ = "PjitFunction"
    module = ModuleType("jax", kiln.__doc__)
    for name, value in vars(kiln).items():
        # Submodules are imported by the finder, which adds the names that they lack.
        if is_public("jax", name) and not isinstance(value, ModuleType):
            setattr(module, name, value)
    module.__version__ = __version__  # type: ignore[attr-defined]
    module.__version_info__ = __version_info__  # type: ignore[attr-defined]

    def find(name: str) -> Any:
        # Importing JAX imports its private modules, too.
        if name == "_src" or is_module(f"jax.{name}"):
            return importlib.import_module(f"jax.{name}")
        if not is_public("jax", name) or not hasattr(kiln, name):
            return missing_name("jax", name)
        value = getattr(kiln, name)
        setattr(module, name, value)
        return value

    module.__getattr__ = find  # type: ignore[method-assign]
    return module


def with_missing_names(name: str, module: ModuleType) -> None:
    """Make a module of kiln return placeholders for the names of its JAX counterpart that it lacks.

    Its own `__getattr__`, if any, is called first.
    """
    own: Callable[[str], Any] | None = vars(module).get("__getattr__")
    if getattr(own, "_kiln_missing", False):
        return

    def find(attribute: str) -> Any:
        if own is not None:
            try:
                return own(attribute)
            except AttributeError:
                pass
        if is_module(f"{name}.{attribute}"):
            return importlib.import_module(f"{name}.{attribute}")
        return missing_name(name, attribute)

    find._kiln_missing = True  # type: ignore[attr-defined]
    module.__getattr__ = find  # type: ignore[method-assign]
