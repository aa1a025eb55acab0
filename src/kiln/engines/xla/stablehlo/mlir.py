"""StableHLO text -> jaxlib's module objects; portable artifacts -> module objects, and back.

The MLIR bindings load on first use.
"""

from __future__ import annotations

import contextlib
import importlib
import io
from collections.abc import Iterator
from typing import Any

from jaxlib import _jax

from kiln.base.process.forks import new_lock
from kiln.base.signals import HeldBack
from kiln.engines.xla.stablehlo.artifact_reader import new_context, read

_lock = new_lock()
_context: Any = None


@contextlib.contextmanager
def bindings() -> Iterator[Any]:
    """Yield the MLIR bindings with kiln's context active, to one thread at a time."""
    global _context
    with HeldBack(), _lock:
        ir = importlib.import_module("jaxlib.mlir.ir")
        if _context is None:
            _context = new_context()
        with _context, ir.Location.unknown(_context):
            yield ir


def parse(text: str) -> Any:
    """Parse StableHLO text into jaxlib's module object, loading the MLIR bindings on first use."""
    with bindings() as ir:
        return ir.Module.parse(text)


def parse_alone(text: str) -> Any:
    """Parse StableHLO text in a context of its own, for XLA to compile.

    XLA loads dialects into the context of a module that it compiles while another thread may be
    parsing; contexts are not locked against that.
    """
    ir = importlib.import_module("jaxlib.mlir.ir")
    with HeldBack(), new_context() as context, ir.Location.unknown(context):
        return ir.Module.parse(text)


def hlo(text: str) -> Any:
    """Return StableHLO text as jaxlib's HLO computation."""
    return _jax.mlir.mlir_module_to_xla_computation(text)


def bytecode(text: str) -> bytes:
    """Return a module's deterministic binary form."""
    out = io.BytesIO()
    parse(text).operation.write_bytecode(out)
    return out.getvalue()


def to_artifact(text: str) -> bytes:
    """Return StableHLO text as a portable artifact, for XLA releases from four weeks ago on.

    Raises: ValueError for anything but StableHLO.
    """
    with bindings() as ir:
        try:
            module = ir.Module.parse(text)
        except ir.MLIRError as error:
            raise ValueError(str(error)) from None
        stablehlo = importlib.import_module("jaxlib.mlir.dialects.stablehlo")
        four_weeks = stablehlo.StablehloCompatibilityRequirement.WEEK_4
        version = stablehlo.get_version_from_compatibility_requirement(four_weeks)
        stored: bytes = _jax.mlir.serialize_portable_artifact(module, version, True)
    return stored


def from_artifact(stored: bytes) -> Any:
    """Return the module object of a portable artifact; call it inside `bindings()`.

    The artifact is from this process, or was checked (`untrusted.py`): a damaged one may crash it.
    """
    return read(stored, _context)


def refined(module: Any) -> Any:
    """Return a module with static shapes inferred from the types of its main function.

    Call it inside `bindings()`.
    """
    out = io.BytesIO()
    module.operation.write_bytecode(out)
    found = _jax.mlir.refine_polymorphic_shapes(
        out.getvalue(),
        enable_shape_assertions=True,
        validate_static_shapes=True,
        enable_shardy=True,
    )
    return type(module).parse(found)
