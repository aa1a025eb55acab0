"""The public names of kiln, by the page of the reference that has them."""

from __future__ import annotations

import importlib
import inspect
import re
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

MODULES = {
    "": "Transformations and the top level",
    "numpy": "Arrays: kiln.numpy",
    "numpy.linalg": "Linear algebra",
    "numpy.fft": "Fourier transforms",
    "lax": "Primitives and control flow: kiln.lax",
    "lax.linalg": "Factorizations, as primitives",
    "random": "Random numbers",
    "nn": "Functions of neural networks",
    "nn.initializers": "Initializers",
    "linen": "Modules: kiln.linen",
    "scipy.special": "Special functions",
    "scipy.linalg": "Linear algebra, as in SciPy",
    "scipy.stats": "Statistics",
    "scipy.signal": "Signals",
    "scipy.optimize": "Optimization",
    "scipy.fft": "Cosine transforms",
    "scipy.integrate": "Integration",
    "scipy.interpolate": "Interpolation on grids",
    "scipy.ndimage": "Images as arrays",
    "scipy.cluster.vq": "Vector quantization",
    "scipy.spatial.transform": "Rotations",
    "scipy.sparse.linalg": "Iterative solvers",
    "tree": "Trees",
    "tree_util": "Trees, under JAX's names",
    "image": "Images",
    "sharding": "Devices and shardings",
    "checkpoints": "Checkpoints",
    "data": "Input pipelines",
    "export": "Exported programs",
    "debug": "Debugging",
    "errors": "Errors",
    "quantize": "Quantized weights",
    "serialization": "Serialization",
    "struct": "Dataclasses that are trees",
    "flatten_util": "Trees as vectors",
    "traverse_util": "Nested dicts",
    "distributed": "Several processes",
    "profiler": "Profiles",
    "monitoring": "Events",
    "custom_batching": "Rules of vmap",
    "ref": "References",
    "ffi": "Functions of other languages",
    "dlpack": "Arrays of other libraries",
    "stages": "Stages of compilation",
    "typing": "Types for annotations",
    "experimental.checkify": "Checks as values",
    "experimental.pallas": "Kernels",
}
"""What users import, below `kiln`, with the title of its page."""

DISTRIBUTIONS = "scipy.stats"
"""A module whose public names are modules again, one per distribution."""

# Subjects of large modules, by the folder or file that defines a name, in the order of the pages.
SUBJECTS: dict[str, dict[str, tuple[str, ...]]] = {
    "numpy": {
        "Creating arrays": ("kiln.numpy.creation",),
        "Elementwise functions": ("kiln.numpy.elements", "kiln.ops.elements"),
        "Shapes, joining, repeating": (
            "kiln.numpy.shapes",
            "kiln.numpy.manipulation",
        ),
        "Indexing and updates": ("kiln.numpy.indexing",),
        "Reductions and statistics": ("kiln.numpy.reductions", "kiln.numpy.histograms"),
        "Sorting, searching, sets": (
            "kiln.numpy.sorting",
            "kiln.numpy.search",
            "kiln.numpy.sets",
        ),
        "Products": ("kiln.numpy.products", "kiln.numpy.einsum"),
        "Polynomials and signals": ("kiln.numpy.polynomials", "kiln.numpy.signals"),
        "Functions of functions": ("kiln.numpy.application", "kiln.numpy.ufunc"),
        "Dtypes, printing, the rest": ("",),
    },
    "lax": {
        "Control flow": ("kiln.control",),
        "Elementwise functions": ("kiln.ops.elements", "kiln.lax.mixed", "kiln.lax", "builtins"),
        "Reductions and sorting": ("kiln.ops.reductions", "kiln.ops.collective"),
        "Products and convolutions": ("kiln.ops.linear",),
        "Indexing": ("kiln.ops.indexing",),
        "The rest": ("",),
    },
}


class Name(NamedTuple):
    """A public name: the module that has it, the name, what it names."""

    module: str
    name: str
    value: Any

    @property
    def dotted(self) -> str:
        """The name as users write it."""
        return f"{self.module}.{self.name}"


def listed(module: types.ModuleType) -> list[str]:
    """Return the public names of a module."""
    names = getattr(module, "__all__", None) or [x for x in dir(module) if not x.startswith("_")]
    return sorted(set(names))


def is_documented(name: str, value: Any) -> bool:
    """Tell whether a name is a function or a class of kiln: not a module, a constant or NumPy's."""
    if isinstance(value, types.ModuleType) or not callable(value) or name.endswith("_p"):
        return False
    if isinstance(value, (types.GenericAlias, types.UnionType)):
        return False
    if type(value).__name__ == "ScalarType" or (inspect.isclass(value) and _is_dtype(value)):
        return False
    home = getattr(inspect.unwrap(value), "__module__", None) or ""
    return home.startswith("kiln")


def _is_dtype(value: type) -> bool:
    return value.__module__.partition(".")[0] in ("numpy", "ml_dtypes")


def public(module: str) -> Iterator[Name]:
    """Yield the documented names of a module, given without `kiln.`."""
    holder = importlib.import_module(f"kiln.{module}".rstrip("."))
    for name in listed(holder):
        value = getattr(holder, name)
        if module == DISTRIBUTIONS and isinstance(value, types.ModuleType):
            for inner in listed(value):
                found = getattr(value, inner)
                if is_documented(inner, found) and found.__module__.startswith("kiln.scipy"):
                    yield Name(value.__name__, inner, found)
        elif is_documented(name, value):
            yield Name(holder.__name__, name, value)


def values(module: str) -> Iterator[Name]:
    """Yield the public names of a module that are neither functions nor classes of kiln."""
    holder = importlib.import_module(f"kiln.{module}".rstrip("."))
    is_listed = hasattr(holder, "__all__")
    for name in listed(holder):
        value = getattr(holder, name)
        # Without a list, what a module imports for its own annotations looks public.
        is_own = is_listed or str(type(value).__module__).startswith("kiln") or name.isupper()
        if is_own and not isinstance(value, types.ModuleType) and not is_documented(name, value):
            yield Name(holder.__name__, name, value)


def subject(module: str, value: Any) -> str:
    """Return the heading under which a name of a module stands; empty if it has one page."""
    home = str(getattr(inspect.unwrap(value), "__module__", ""))
    for title, homes in SUBJECTS.get(module, {}).items():
        if any(home == prefix or home.startswith(prefix + ".") or not prefix for prefix in homes):
            return title
    return ""


def pages() -> Iterator[tuple[str, str, str, list[Name]]]:
    """Yield the pages of the reference: module, file name, title, names.

    Large modules have several.
    """
    for module, title in MODULES.items():
        slug = module.replace(".", "_") or "kiln"
        by_subject: dict[str, list[Name]] = {x: [] for x in SUBJECTS.get(module, {"": ()})}
        for name in public(module):
            by_subject[subject(module, name.value)].append(name)
        for heading, names in by_subject.items():
            if heading:
                words = re.sub(r"\W+", "_", heading.lower())
                yield module, f"{slug}_{words}", f"kiln.{module}: {heading.lower()}", names
            else:
                yield module, slug, title, names
