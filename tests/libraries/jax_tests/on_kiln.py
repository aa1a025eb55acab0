"""A pytest plugin under which `jax` is kiln, and JAX's tests find what they lean on.

The tests import a few files below `jax/_src` that are for tests alone; these are loaded from the
checkout. What those files and the tests ask of private modules is answered by `stand_ins.py`.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import kiln
import kiln.as_jax
from kiln.as_jax.private import PrivateModule
from tests.libraries.jax_tests.pallas_stand_ins import pallas_stand_ins
from tests.libraries.jax_tests.program_stand_ins import program_stand_ins
from tests.libraries.jax_tests.recording import SOURCE, rename_by
from tests.libraries.jax_tests.sizes_stand_ins import sizes_stand_ins
from tests.libraries.jax_tests.stand_ins import Configuration, stand_ins

SUPPORT = (
    "jax.experimental.sparse.test_util",
    "jax._src.deprecations",
    "jax._src.hypothesis_test_util",
    "jax._src.internal_test_util",
    "jax._src.lax_reference",
    "jax._src.pallas.pallas_test_util",
    "jax._src.public_test_util",
    "jax._src.test_loader",
    "jax._src.test_util",
    "jax._src.test_warning_util",
    "jax._src.util",
)
"""What is loaded from the checkout, with all that is below it."""


class _Support(MetaPathFinder):
    """Finds the files that are for tests."""

    def __init__(self, source: Path) -> None:
        self.source = source

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the specification of a module for tests, or None."""
        if not any(fullname == name or fullname.startswith(f"{name}.") for name in SUPPORT):
            return None
        place = self.source.joinpath(*fullname.split("."))
        if place.is_dir():
            return importlib.util.spec_from_file_location(
                fullname, place / "__init__.py", submodule_search_locations=[str(place)]
            )
        return importlib.util.spec_from_file_location(fullname, place.with_suffix(".py"))


class _PrivateWithSupport(PrivateModule):
    """`jax._src`, whose modules for tests are those of the checkout."""

    def __getattr__(self, name: str) -> Any:
        if f"{self.__name__}.{name}" in SUPPORT:
            return importlib.import_module(f"{self.__name__}.{name}")
        return super().__getattr__(name)


def _module(name: str) -> ModuleType:
    """Return a module of jax, or an empty one that tests find by its name."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return sys.modules.setdefault(name, ModuleType(name))


def _as_on_jax(name: str) -> str:
    """Return what a test is called on JAX whose name has the module of a function."""
    return re.sub(r"kiln\.(\w+)(\.\w+)*(?=\.)", r"jax.\1", name)


def _install() -> None:
    kiln.as_jax.install()
    rename_by(_as_on_jax)
    # JAX says nothing of functions that are traced often, and its tests make errors of warnings.
    kiln.config.update("trace_warning", 0)
    sys.meta_path.insert(0, _Support(Path(os.environ[SOURCE])))
    for name in ("jax._src", "jax._src.pallas"):
        importlib.import_module(name).__class__ = _PrivateWithSupport
    importlib.import_module("jax._src.config").__class__ = Configuration
    for name, values in (
        *stand_ins().items(),
        *program_stand_ins().items(),
        *pallas_stand_ins().items(),
        *sizes_stand_ins().items(),
    ):
        module = _module(name)
        vars(module).update(values)
        parent, _, last = name.rpartition(".")
        setattr(importlib.import_module(parent), last, module)


_install()
