"""What JAX's tests of named sizes ask of private modules, in terms of kiln."""

from __future__ import annotations

from typing import Any

from kiln import export
from kiln.errors import InconclusiveSizeError
from kiln.ir.sizes.decisions import is_surely
from kiln.ir.sizes.size import Dim, Size, maximum, minimum


def _strided(dim: Dim, window: Dim, stride: Dim) -> Dim:
    """Return how many windows there are."""
    return maximum(0, (dim - window) // stride + 1)


def _dilated(dim: Dim, dilation: Dim) -> Dim:
    return dim if dilation == 1 else maximum(0, 1 + dilation * (dim - 1))


def _is_one_of(dim: Dim, others: Any) -> bool:
    return any(is_surely(dim, other) for other in others)


def _is_named(dim: Any) -> bool:
    return isinstance(dim, Size)


def sizes_stand_ins() -> dict[str, dict[str, Any]]:
    """Return the names by module."""
    return {
        "jax._src.export.shape_poly": {
            "DimSize": Dim,
            "SymbolicScope": export.SymbolicScope,
            "_DimExpr": Size,
            "is_symbolic_dim": _is_named,
            "symbolic_args_specs": export.symbolic_args_specs,
            "symbolic_shape": export.symbolic_shape,
        },
        "jax._src.core": {
            "InconclusiveDimensionOperation": InconclusiveSizeError,
            "definitely_equal": is_surely,
            "definitely_equal_one_of_dim": _is_one_of,
            "dilate_dim": _dilated,
            "is_symbolic_dim": _is_named,
            "max_dim": maximum,
            "min_dim": minimum,
            "stride_dim": _strided,
        },
    }
