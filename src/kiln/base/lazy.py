"""Loading modules on first use, which keeps `import kiln` light."""

from __future__ import annotations
import __future__

import importlib
import types
from collections.abc import Callable, Iterable
from typing import Any

from kiln.base.process.forks import Loads
from kiln.base.process.garbage_collection import Permanent

_loads = Loads()


class LazyModule:
    """A placeholder for a module, which imports it when an attribute is first read."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        with _loads:
            value = getattr(importlib.import_module(self._name), attribute)
        setattr(self, attribute, value)
        return value


class MissingAttribute(AttributeError):
    """A name that a module lacks. Suggestions are computed only when the text is read.

    Python's import statement looks up submodules as attributes before it loads them.
    """

    def __init__(self, module: str, name: str, known: Callable[[], Iterable[str]]) -> None:
        super().__init__(f"module {module!r} has no attribute {name!r}", name=name)
        self._wanted = name
        self._known = known

    def __str__(self) -> str:
        text = super().__str__()
        private = self._wanted.startswith("_")
        close = [] if private else difflib.get_close_matches(self._wanted, self._known(), 3)
        return f"{text}; did you mean {' or '.join(close)}?" if close else text


def on_first_use(
    package: dict[str, Any], *entries: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's `__getattr__` and `__dir__`: its `entries` load on first use.

    An entry is the name of one of the package's modules, or `MODULE: NAME NAME ...`: names from
    another module.
    """
    own = package["__name__"]

    def is_public(name: str, value: Any) -> bool:
        # Importing a submodule makes it an attribute of its package: that does not make it public.
        if isinstance(value, __future__._Feature):
            return False
        return not isinstance(value, types.ModuleType) or value.__name__ != f"{own}.{name}"

    sources: dict[str, str | None] = {}
    for entry in entries:
        module, _, names = entry.partition(":")
        sources |= dict.fromkeys(names.split(), module) if names else {entry: None}

    def __getattr__(name: str) -> Any:
        if name not in sources:
            raise MissingAttribute(own, name, __dir__)
        source = sources[name]
        with Permanent(), _loads:
            if source is None:
                return importlib.import_module(f"{own}.{name}")
            value = package[name] = getattr(importlib.import_module(source), name)
        return value

    def __dir__() -> list[str]:
        return sorted(
            {*sources, *(name for name, value in package.items() if is_public(name, value))}
        )

    return __getattr__, __dir__


def suggest_names(module: dict[str, Any]) -> None:
    """Make a module, given by its `globals()`, suggest one of its names for a name it lacks.

    It is called for its effect: a `__getattr__` that is visible in the source lets type checkers
    accept all names.
    """
    own = module["__name__"]

    def __getattr__(name: str) -> Any:
        raise MissingAttribute(own, name, lambda: module.get("__all__") or _public(module))

    module["__getattr__"] = __getattr__


def _public(module: dict[str, Any]) -> list[str]:
    return [name for name in module if not name.startswith("_")]


def names_on_first_use(
    package: str, module: str, *names: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's `__getattr__` and `__dir__`: `names` load from a module on first use.

    The package has no other names.
    """

    def __getattr__(name: str) -> Any:
        if name in names:
            with _loads:
                return getattr(importlib.import_module(module), name)
        raise MissingAttribute(package, name, __dir__)

    def __dir__() -> list[str]:
        return list(names)

    return __getattr__, __dir__


difflib = LazyModule("difflib")
flatbuffers = LazyModule("flatbuffers")
flatbuffers_table = LazyModule("flatbuffers.table")
fractions = LazyModule("fractions")
grp = LazyModule("grp")
hashlib = LazyModule("hashlib")
blake2 = LazyModule("_blake2")
"""One of the modules of `hashlib`, which itself takes milliseconds to load OpenSSL's."""
heapq = LazyModule("heapq")
high = LazyModule("kiln.jit.high")
high_arguments = LazyModule("kiln.control.high.high_arguments")
high_derivatives = LazyModule("kiln.api.derivatives.high")
html = LazyModule("html")
json = LazyModule("json")
linecache = LazyModule("linecache")
logging = LazyModule("logging")
pathlib = LazyModule("pathlib")
pwd = LazyModule("pwd")
signal = LazyModule("signal")
shared_compilation = LazyModule("kiln.execution.shared_compilation")
traceback = LazyModule("traceback")
scipy_special = LazyModule("scipy.special")
scipy_linalg = LazyModule("scipy.linalg")
scipy_signal = LazyModule("scipy.signal")
scipy_sparse = LazyModule("scipy.sparse")
scipy_sparse_linalg = LazyModule("scipy.sparse.linalg")
opt_einsum = LazyModule("opt_einsum")
zlib = LazyModule("zlib")
loops = LazyModule("kiln.control.loops.loops")
"""Loops that few functions of `kiln.numpy` run."""
key_generators = LazyModule("kiln.ops.random.key_generators")
"""Generators that few programs use; the operations on keys, in a lower layer, call them."""
error_check = LazyModule("kiln.experimental.error_check")
"""Errors that few programs request; functions of `kiln.numpy`, in a lower layer, record them."""
dot_algorithms = LazyModule("kiln.ops.linear.dot_algorithms")
array_display = LazyModule("kiln.core.arrays.display")
array_errors = LazyModule("kiln.core.arrays.errors")
checker = LazyModule("kiln.ir.analysis.checker")
display = LazyModule("kiln.ir.printing.display")
dlpack = LazyModule("kiln.core.arrays.dlpack")
file_writing = LazyModule("kiln.base.files.writing")
jaxpr_html = LazyModule("kiln.ir.printing.jaxpr_html")
sharding_pictures = LazyModule("kiln.ir.shardings.pictures")
discharge = LazyModule("kiln.control.references.discharge")
ref_rows = LazyModule("kiln.control.references.rows")
references = LazyModule("kiln.jit.references")
key_reuse = LazyModule("kiln.execution.key_reuse")
nonfinite = LazyModule("kiln.execution.nonfinite")
resharding = LazyModule("kiln.execution.resharding")
tree_mismatches = LazyModule("kiln.base.tree.mismatches")
memory_text = LazyModule("kiln.core.engines.memory_text")
compiled_sizes = LazyModule("kiln.jit.stages.compiled_sizes")
whole_program = LazyModule("kiln.jit.stages.whole_program")
bessel_series = LazyModule("kiln.ops.elements.bessel_series")
named_axes = LazyModule("kiln.jit.named_axes")
stage_html = LazyModule("kiln.jit.stages.stage_html")
sized = LazyModule("kiln.jit.sized")
target = LazyModule("kiln.jit.stages.target")
traced = LazyModule("kiln.jit.stages.traced")
"""Modules that few programs need, for lower layers, which load them on first use."""
jaxtyping = LazyModule("jaxtyping")
llvmlite = LazyModule("llvmlite")
llvmlite_binding = LazyModule("llvmlite.binding")
llvmlite_ffi = LazyModule("llvmlite.binding.ffi")
msgpack = LazyModule("msgpack")
pyarrow = LazyModule("pyarrow")
rich_console = LazyModule("rich.console")
rich_progress = LazyModule("rich.progress")
rich_table = LazyModule("rich.table")
rich_text = LazyModule("rich.text")
treescope_ndarray_adapters = LazyModule("treescope.ndarray_adapters")
treescope_numpy = LazyModule("treescope.external.numpy_support")
xla_collectives = LazyModule("kiln.engines.xla.launches.collectives")
xla_tracing = LazyModule("kiln.engines.xla.runtime.tracing")
"""What `kiln profile` asks of an engine that may not be installed."""
zipfile = LazyModule("zipfile")
