"""The import finder for `jax` and its submodules."""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
from collections.abc import Iterable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from kiln.as_jax.environment import apply_environment
from kiln.as_jax.flax_places import place_of
from kiln.as_jax.missing import MissingModule, asked_for
from kiln.as_jax.names import has_submodules, is_module
from kiln.as_jax.private import PrivateModule
from kiln.as_jax.private_functions import GONE
from kiln.as_jax.report import observe
from kiln.as_jax.top_level import top_level, with_missing_names
from kiln.base.errors import three_lines
from kiln.base.options.config import config
from kiln.base.source import current_source

_ELSEWHERE = {"jax.lib": "kiln.as_jax.lib", "jax.version": "kiln.as_jax.version"}
"""Modules of JAX whose counterpart in kiln has a different path."""


class _Loader(Loader):
    """Returns an existing module, unchanged."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.spec = module.__spec__
        self.loader = getattr(module, "__loader__", None)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module."""
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the module's own specification, which the import system replaced."""
        if self.spec is not None:
            module.__spec__ = self.spec
            module.__loader__ = self.loader


class JaxFinder(MetaPathFinder):
    """Finds `jax` and its submodules in kiln, and with `linen` also `flax.linen`.

    Modules that JAX does not have are not found; those that kiln does not have consist of
    placeholders.
    """

    def __init__(self, linen: bool) -> None:
        self.linen = linen

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the specification of a module of JAX, or None."""
        module = self._module(fullname)
        if module is None:
            return None
        observe(fullname, module)
        is_package = fullname == "jax" or hasattr(module, "__path__")
        return ModuleSpec(fullname, _Loader(module), origin="kiln", is_package=is_package)

    def find_distributions(self, context: Any = None) -> Iterable[Any]:
        """Return the distribution `jax` of the release that kiln follows."""
        if context is None or context.name in (None, "jax"):
            # Loading `importlib.metadata` takes half as long as everything else.
            return [importlib.import_module("kiln.as_jax.release").Release()]
        return []

    def _module(self, name: str) -> ModuleType | None:
        if name == "jax":
            return top_level()
        if name.startswith("jax."):
            return _below(name)
        if self.linen and name.startswith("flax."):
            place = place_of(name)
            return None if place is None else _of_flax(name, _existing(place))
        return None


def _of_flax(name: str, module: ModuleType | None) -> ModuleType:
    if module is None:
        return MissingModule(name)

    def private(attribute: str) -> Any:
        # Private names of Flax can be imported, like those of JAX; they raise when they are used.
        if attribute.startswith("_") and not attribute.startswith("__"):
            return asked_for(f"{name}.{attribute}")
        raise AttributeError(f"module {module.__name__!r} has no attribute {attribute!r}")

    vars(module).setdefault("__getattr__", private)
    if not hasattr(module, "__path__"):
        module.__path__ = []
    return module


def _below(name: str) -> ModuleType | None:
    if name == "jax._src" or name.startswith("jax._src."):
        return None if name in GONE else PrivateModule(name)
    if not is_module(name):
        return None
    module = _existing(_ELSEWHERE.get(name, "kiln" + name.removeprefix("jax")))
    if module is None:
        return MissingModule(name)
    with_missing_names(name, module)
    # Only this finder finds submodules of a module that is a single file in kiln.
    if not hasattr(module, "__path__") and has_submodules(name):
        module.__path__ = []
    for attribute, value in [*vars(module).items()]:
        if isinstance(value, ModuleType) and is_module(f"{name}.{attribute}"):
            with_missing_names(f"{name}.{attribute}", value)
    return module


def _existing(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            return None
        raise


def install(*, linen: bool = False) -> None:
    """Make `import jax` import kiln from now on, in this process.

    `linen` does the same for `flax.linen`. Random numbers get the layout of current JAX, and
    environment variables of JAX that kiln supports are applied.

    Raises: ImportError if the real jax, or flax.linen, has been imported already.
    """
    for finder in sys.meta_path:
        if isinstance(finder, JaxFinder):
            _check_not_imported("flax.linen" if linen and not finder.linen else None)
            finder.linen |= linen
            return
    _check_not_imported("jax")
    _check_not_imported("flax.linen" if linen else None)
    config.update("threefry_partitionable", True)
    apply_environment()
    sys.meta_path.insert(0, JaxFinder(linen))


def _check_not_imported(name: str | None) -> None:
    if name in sys.modules:
        raise ImportError(
            three_lines(
                f"import kiln.as_jax at {current_source()}",
                f"{name} has been imported already, from {sys.modules[name].__file__}",
                "import kiln.as_jax first, or run python -m kiln.as_jax PROGRAM",
            )
        )
