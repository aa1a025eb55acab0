"""Conversions between dtypes: convert, bitcast, rounding to fewer bits, complex numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.core.trace import aval_of
from kiln.engines.xla.raising.elementwise import converted, is_complex, plain
from kiln.engines.xla.raising.raiser import NotRaised, Raiser, Raising, repeated
from kiln.engines.xla.stablehlo.operations import Operation
from kiln.ops.elements import conversion as ops
from kiln.ops.reductions.reduction import reduce_precision_p


def _convert(r: Raiser, operation: Operation, x: Any) -> Any:
    dtype = operation.types[0].dtype  # type: ignore[union-attr]
    if is_complex(x) and not dtypes.issubdtype(dtype, np.complexfloating):
        x = ops.real_p.bind(x)
    return converted(x, dtype)


def _bitcast(r: Raiser, operation: Operation, x: Any) -> Any:
    dtype = operation.types[0].dtype  # type: ignore[union-attr]
    if aval_of(x).dtype == dtype:
        return x
    return ops.bitcast_convert_type_p.bind(x, new_dtype=dtype)


def _real(r: Raiser, operation: Operation, x: Any) -> Any:
    return ops.real_p.bind(x) if is_complex(x) else x


def _imaginary(r: Raiser, operation: Operation, x: Any) -> Any:
    if is_complex(x):
        return ops.imag_p.bind(x)
    aval = aval_of(x)
    return repeated(0, aval.dtype, aval.shape)


def _conjugate(r: Raiser, operation: Operation, x: Any) -> Any:
    return ops.conj(x) if is_complex(x) else x


def _reduce_precision(r: Raiser, operation: Operation, x: Any) -> Any:
    return reduce_precision_p.bind(
        x,
        exponent_bits=operation.attributes["exponent_bits"],
        mantissa_bits=operation.attributes["mantissa_bits"],
    )


def _constant(r: Raiser, operation: Operation) -> Any:
    value = operation.attributes["value"]
    if not isinstance(value, np.ndarray):
        raise NotRaised(f"{operation.name} of type {operation.types[0]} has no counterpart")
    return r.constant(value)


RAISINGS: dict[str, Raising] = {
    "stablehlo.constant": _constant,
    "chlo.constant": _constant,
    "stablehlo.convert": _convert,
    "stablehlo.bitcast_convert": _bitcast,
    "stablehlo.reduce_precision": _reduce_precision,
    "stablehlo.complex": plain(ops.complex_p),
    "stablehlo.real": _real,
    "stablehlo.imag": _imaginary,
    "chlo.conj": _conjugate,
}
