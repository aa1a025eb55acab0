"""Matrix products, convolutions, Fourier transforms, triangular systems."""

from __future__ import annotations

import re
from typing import Any

from kiln.core.trace import aval_of
from kiln.engines.xla.raising.raiser import NotRaised, Raiser, Raising
from kiln.engines.xla.stablehlo.operations import Operation
from kiln.ops.linear.contraction import Precision, dot_general_p
from kiln.ops.linear.convolution import conv_general_dilated_p
from kiln.ops.linear.convolution_numbers import ConvDimensionNumbers
from kiln.ops.linear.fft import FftType, fft_p
from kiln.ops.linear.linalg import cholesky_p, triangular_solve_p
from kiln.ops.linear.matrices import adjoint
from kiln.ops.shape import rev

_CONV = re.compile(r"#stablehlo\.conv<\[(.*)\]x\[(.*)\]->\[(.*)\]>")


def _precision(operation: Operation) -> Any:
    levels = operation.attributes.get("precision_config")
    if not levels:
        return None
    pair = tuple([Precision[level] for level in levels])
    return pair if any(level is not Precision.DEFAULT for level in pair) else None


def _preferred(operation: Operation, *operands: Any) -> Any:
    dtype = operation.types[0].dtype  # type: ignore[union-attr]
    return None if all(aval_of(x).dtype == dtype for x in operands) else dtype


def _dot_general(r: Raiser, operation: Operation, x: Any, y: Any) -> Any:
    numbers = operation.attributes["dot_dimension_numbers"]
    contracted = [tuple(numbers.get(f"{side}_contracting_dimensions", ())) for side in _SIDES]
    batched = [tuple(numbers.get(f"{side}_batching_dimensions", ())) for side in _SIDES]
    return dot_general_p.bind(
        x,
        y,
        dimension_numbers=(tuple(contracted), tuple(batched)),
        precision=_precision(operation),
        preferred_element_type=_preferred(operation, x, y),
    )


_SIDES = ("lhs", "rhs")


def _axes(written: str, special: str) -> tuple[int, ...]:
    names = [name.strip() for name in written.split(",")]
    space = [str(i) for i in range(len(names) - 2)]
    return tuple([names.index(name) for name in (*special, *space)])


def _convolution(r: Raiser, operation: Operation, x: Any, w: Any) -> Any:
    attributes = operation.attributes
    found = _CONV.match(attributes["dimension_numbers"])
    if found is None:
        raise NotRaised(f"stablehlo.convolution of {attributes['dimension_numbers']}")
    lhs, rhs, out = found.groups()
    numbers = ConvDimensionNumbers(_axes(lhs, "bf"), _axes(rhs, "oi"), _axes(out, "bf"))
    rank = aval_of(x).ndim - 2
    ones, flipped = (1,) * rank, attributes.get("window_reversal") or ()
    axes = [numbers.rhs_spec[2 + i] for i, is_flipped in enumerate(flipped) if is_flipped]
    padding = attributes.get("padding") or [[0, 0]] * rank
    return conv_general_dilated_p.bind(
        x,
        rev(w, axes) if axes else w,
        window_strides=tuple(attributes.get("window_strides", ones)),
        padding=tuple([(int(low), int(high)) for low, high in padding]),
        lhs_dilation=tuple(attributes.get("lhs_dilation", ones)),
        rhs_dilation=tuple(attributes.get("rhs_dilation", ones)),
        dimension_numbers=numbers,
        feature_group_count=attributes["feature_group_count"],
        batch_group_count=attributes["batch_group_count"],
        precision=_precision(operation),
        preferred_element_type=_preferred(operation, x, w),
    )


def _fft(r: Raiser, operation: Operation, x: Any) -> Any:
    kind = FftType[operation.attributes["fft_type"]]
    return fft_p.bind(x, fft_type=kind, fft_lengths=tuple(operation.attributes["fft_length"]))


def _cholesky(r: Raiser, operation: Operation, x: Any) -> Any:
    if operation.attributes.get("lower", False):
        return cholesky_p.bind(x)
    return adjoint(cholesky_p.bind(adjoint(x)))


def _triangular_solve(r: Raiser, operation: Operation, a: Any, b: Any) -> Any:
    attributes = operation.attributes
    mode = attributes["transpose_a"]
    return triangular_solve_p.bind(
        a,
        b,
        left_side=attributes["left_side"],
        lower=attributes["lower"],
        transpose_a=mode != "NO_TRANSPOSE",
        conjugate_a=mode == "ADJOINT" and aval_of(a).dtype.kind == "c",
        unit_diagonal=attributes["unit_diagonal"],
    )


RAISINGS: dict[str, Raising] = {
    "stablehlo.dot_general": _dot_general,
    "stablehlo.convolution": _convolution,
    "stablehlo.fft": _fft,
    "stablehlo.cholesky": _cholesky,
    "stablehlo.triangular_solve": _triangular_solve,
}
