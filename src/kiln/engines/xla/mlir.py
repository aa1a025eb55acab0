"""StableHLO text -> jaxlib's module objects. The MLIR bindings load on first use."""

from __future__ import annotations

import importlib
import io
from typing import Any

from jaxlib import _jax

from kiln.base.forks import new_lock
from kiln.base.signals import HeldBack

_lock = new_lock()
_context: Any = None


def parse(text: str) -> Any:
    """Parse StableHLO text into jaxlib's module object, loading the MLIR bindings on first use."""
    global _context
    with HeldBack(), _lock:
        ir = importlib.import_module("jaxlib.mlir.ir")
        if _context is None:
            dialect = importlib.import_module("jaxlib.mlir.dialects.stablehlo")
            chlo = importlib.import_module("jaxlib.mlir.dialects.chlo")
            sdy = importlib.import_module("jaxlib.mlir.dialects.sdy")
            extension = importlib.import_module("jaxlib.mlir._mlir_libs._jax_mlir_ext")
            registry = ir.DialectRegistry()
            extension.register_dialects(registry)
            context = ir.Context()
            context.append_dialect_registry(registry)
            context.load_all_available_dialects()
            dialect.register_dialect(context)
            chlo.register_dialect(context)
            sdy.register_dialect(context)
            _context = context
        with _context:
            return ir.Module.parse(text)


def hlo(text: str) -> Any:
    """Return StableHLO text as jaxlib's HLO computation."""
    return _jax.mlir.mlir_module_to_xla_computation(text)


def bytecode(text: str) -> bytes:
    """Return a module's deterministic binary form."""
    out = io.BytesIO()
    parse(text).operation.write_bytecode(out)
    return out.getvalue()
