"""Access to jaxlib: checks for the names that kiln uses, and prevents it from importing jax.

jaxlib's C++ imports `jax` on a few paths if it is installed; those calls run under a veto, so kiln
never imports jax.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from jaxlib import _jax, xla_client

from kiln import _runtime
from kiln.base.errors import JaxRuntimeError, OutOfMemoryError, three_lines
from kiln.base.process.forks import in_child
from kiln.base.process.lifetimes import never_freed
from kiln.base.weak import WeakSet
from kiln.control.effects.host_call import raise_failure
from kiln.engines.xla.stablehlo.callbacks import failure_in

XlaError = xla_client.XlaRuntimeError

_REQUIRED: Mapping[Any, tuple[str, ...]] = {
    xla_client: (
        "make_cpu_client",
        "CompileOptions",
        "DeviceAssignment",
        "HloSharding",
        "HostBufferSemantics",
        "OpSharding",
        "XlaRuntimeError",
        "batched_device_put",
        "register_custom_call_target",
    ),
    _jax: (
        "ArrayCopySemantics",
        "ArrayImpl",
        "DeviceList",
        "Sharding",
        "array_result_handler",
        "batched_copy_array_to_devices_with_sharding",
        "collect_garbage",
        "get_topology_for_devices",
        "hlo_module_cost_analysis",
        "set_tracebacks_enabled",
    ),
    _jax.ArrayImpl: (
        "_arrays",
        "_rewrap_with_aval_and_sharding",
        "_single_device_array_to_np_array_did_copy",
        "block_until_ready",
        "delete",
        "is_deleted",
        "is_ready",
        "unsafe_buffer_pointer",
    ),
    _jax.LoadedExecutable: ("execute_sharded", "get_hlo_text", "cost_analysis", "hlo_modules"),
    _jax.ExecuteResults: ("consume_with_handlers", "consume_token"),
    _jax.mlir: ("mlir_module_to_xla_computation",),
}


def _check_version() -> None:
    missing = [
        f"{getattr(owner, '__name__', owner)}.{name}"
        for owner, names in _REQUIRED.items()
        for name in names
        if not hasattr(owner, name)
    ]
    if missing:
        raise ImportError(
            three_lines(
                f"kiln's xla engine was loaded with jaxlib at {_jax.__file__}",
                f"this version of jaxlib lacks {', '.join(missing)}",
                "install jaxlib>=0.10.0,<0.11",
            )
        )


_check_version()


class _Veto(threading.local):
    active = False


_veto = _Veto()


class _NoJax:
    """Makes `import jax` fail on threads inside jaxlib calls that would import it.

    If other code imports jax, jaxlib is in the expected state.
    """

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if _veto.active and name.partition(".")[0] == "jax":
            raise ModuleNotFoundError(name)
        if name == "jax":
            _jax.set_tracebacks_enabled(True)


sys.meta_path.insert(0, _NoJax())

# jaxlib records the Python stack of every transfer and run, and leaves freeing these to the garbage
# collector, which a loop of calls may never trigger. kiln reports call sites itself.
if "jax" not in sys.modules:
    _jax.set_tracebacks_enabled(False)


# jaxlib puts the Python objects of destroyed executables (callbacks) on a list that must be
# emptied. Exceptions such as Ctrl-C in a Python callback would be lost, so it is not a Python
# function.
_collect_garbage = _runtime.without_arguments(_jax.collect_garbage)
gc.callbacks.append(_collect_garbage)


_clients: WeakSet[Any] = WeakSet()


def cpu_client(**given: Any) -> Any:
    """Return jaxlib's client of this CPU, which no forked child frees."""
    made = xla_client.make_cpu_client(**given)
    _clients.add(made)
    return made


@in_child
def _keep() -> None:
    """Do not call jaxlib in a forked child: another thread may have held its locks.

    A client that is freed waits for its threads, which a child does not have.
    """
    for client in _clients:
        never_freed(client)
    if _collect_garbage in gc.callbacks:
        gc.callbacks.remove(_collect_garbage)


@contextlib.contextmanager
def without_jax() -> Iterator[None]:
    """Allow calls to jaxlib that would import jax if it is installed."""
    previous, _veto.active = _veto.active, True
    try:
        yield
    finally:
        _veto.active = previous


_IN_JAX = "jax._src.sharding_impls"


def parts_of(buffer: Any) -> list[Any] | None:
    """Return the single-device arrays of a buffer; None if it is deleted.

    For each of them jaxlib looks up a module of jax, which takes longer than everything else:
    unless jax has been imported, the result is cached.
    """
    hides = "jax" not in sys.modules
    with without_jax():
        if hides:
            sys.modules[_IN_JAX] = None  # type: ignore[assignment]
        try:
            found: list[Any] | None = buffer._arrays
        finally:
            if hides and sys.modules.get(_IN_JAX) is None:
                sys.modules.pop(_IN_JAX, None)
    return found


def _kind(text: str) -> type[JaxRuntimeError]:
    lacks_memory = text.startswith("RESOURCE_EXHAUSTED") and "memory" in text.lower()
    return OutOfMemoryError if lacks_memory else JaxRuntimeError


def failed(error: BaseException, doing: str) -> NoReturn:
    """Raise kiln's error for jaxlib's; the exception of a host callback becomes its cause."""
    text = str(error)
    found = failure_in(text)
    if found is None:
        raise _kind(text)(f"{doing}\n{text}") from None
    raise_failure(found, doing)
