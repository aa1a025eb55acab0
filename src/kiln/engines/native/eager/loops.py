"""The loops that compute a primitive: NumPy's if its NumPy rule is one of them, otherwise kiln's.

A loop gives the same result as the NumPy rule, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln import _runtime
from kiln.base.records import Record
from kiln.ir.operation import Operation
from kiln.ops import shape
from kiln.ops.elements import conversion, elementwise, rounding
from kiln.ops.elements.families import Accurate, Comparison, Elementwise
from kiln.ops.reductions import cumulative, product, reduction

Dtype = np.dtype[Any]


class Step(Record):
    """A step: a loop that computes a value from earlier ones, which are operands and results of
    steps.

    Negative numbers denote constants, from the end of `constants`.
    """

    loop: Any
    operands: Sequence[int]
    dtype: Dtype
    constants: Sequence[np.ndarray] = ()


def loop_for(ufunc: Any, operands: Sequence[Dtype], result: Dtype) -> Any:
    """Return NumPy's loop for operands and a result of these dtypes, or None."""
    if not isinstance(ufunc, np.ufunc) or not all(map(_is_plain, [*operands, result])):
        return None
    return _runtime.loop_of_ufunc(ufunc, "".join(d.char for d in [*operands, result]))


_BY_SIZE = {1: "B", 2: "H", 4: "I", 8: "L", 16: "D"}


def named_loop(name: str, operands: Sequence[Dtype], result: Dtype) -> Any:
    """Return kiln's loop of a name for operands and a result of these dtypes, or None."""
    if not all(map(_is_plain, [*operands, result])):
        return None
    return _runtime.loop_named(name, "".join(d.char for d in [*operands, result]))


def copy_loop(dtype: Dtype) -> Any:
    """Return the loop that copies elements of a dtype, or None."""
    char = _char_by_size(dtype)
    return char and _runtime.loop_named("copy", char * 2)


def select_loop(dtype: Dtype) -> Any:
    """Return the loop that selects between elements of a dtype, or None."""
    char = _char_by_size(dtype)
    return char and _runtime.loop_named("select", f"?{char * 3}")


def _char_by_size(dtype: Dtype) -> str | None:
    """Return a type whose elements can be copied in place of those of a dtype."""
    return _BY_SIZE.get(dtype.itemsize) if dtype.kind != "O" else None


def _is_plain(dtype: Dtype) -> bool:
    return dtype.kind in "biufc" and dtype.isnative and len(dtype.char) == 1


class Reduction(Record):
    """A reduction by a ufunc, from an identity."""

    ufunc: np.ufunc
    identity: Callable[[Any], Any]


def _zero(dtype: Any) -> Any:
    return 0


REDUCTIONS: dict[Operation, Reduction] = {
    shape.reduce_sum_p: Reduction(np.add, _zero),
    **{
        p: Reduction(p.ufunc, p.identity)
        for p in (
            product.reduce_prod_p,
            reduction.reduce_max_p,
            reduction.reduce_min_p,
            reduction.reduce_and_p,
            reduction.reduce_or_p,
            reduction.reduce_xor_p,
        )
    },
}
"""Reductions that loops compute."""

RUNNING: dict[Operation, np.ufunc] = {
    cumulative.cumsum_p: np.add,
    cumulative.cumprod_p: np.multiply,
    cumulative.cummax_p: np.maximum,
    cumulative.cummin_p: np.minimum,
}
"""Running reductions that loops compute."""


def matrix_loop(dtype: Dtype) -> Any:
    """Return NumPy's loop that multiplies batches of matrices of a dtype, or None."""
    return _runtime.loop_of_ufunc(np.matmul, dtype.char * 3) if _is_plain(dtype) else None


def _named(name: str) -> Callable[..., list[Step] | None]:
    def steps(operands: Sequence[Dtype], result: Dtype) -> list[Step] | None:
        loop = named_loop(name, operands, result)
        return loop and [Step(loop, range(len(operands)), result)]

    return steps


def _integers(name: str, ufunc: np.ufunc) -> Callable[..., list[Step] | None]:
    """Integers by kiln's loop, floats by NumPy's."""

    def steps(operands: Sequence[Dtype], result: Dtype) -> list[Step] | None:
        loop = (
            named_loop(name, operands, result)
            if result.kind in "iu"
            else loop_for(ufunc, operands, result)
        )
        return loop and [Step(loop, range(len(operands)), result)]

    return steps


def _power(operands: Sequence[Dtype], result: Dtype) -> list[Step] | None:
    x, y = operands
    if x == y and x.kind != "f":
        return _integers("pow", np.power)(operands, result)
    # Exponents are stored one by one: NumPy's loop takes the square root for a single exponent of
    # 0.5, which differs at -inf and -0.
    convert = copy_loop(x) if x == y else named_loop("convert", [y], x)
    power = loop_for(np.power, [x, x], result)
    if convert is None or power is None or x.kind != "f":
        return None
    return [Step(convert, [1], x), Step(power, [0, 2], result)]


def _integer_power(operands: Sequence[Dtype], result: Dtype, *, y: int) -> list[Step] | None:
    (x,) = operands
    if x.kind in "iu":
        info = np.iinfo(x)
        loop = named_loop("pow", [x, x], x)
        if loop is None or not info.min <= y <= info.max:
            return None
        return [Step(loop, [0, -1], x, [np.asarray(y, x)])]
    if y == 2:
        loop = loop_for(np.multiply, [x, x], x)
        return loop and [Step(loop, [0, 0], x)]
    loop = loop_for(np.power, [x, x], x)
    return loop and [Step(loop, [0, -1], x, [np.asarray(x.type(y))])]


def _copy(operands: Sequence[Dtype], result: Dtype) -> list[Step] | None:
    loop = copy_loop(result)
    return loop and [Step(loop, [0], result)]


def _convert(
    operands: Sequence[Dtype], result: Dtype, *, new_dtype: Any, weak_type: bool
) -> list[Step] | None:
    (x,) = operands
    loop = copy_loop(result) if x == result else named_loop("convert", [x], result)
    return loop and [Step(loop, [0], result)]


def _select(operands: Sequence[Dtype], result: Dtype) -> list[Step] | None:
    loop = select_loop(result)
    if loop is None or operands[0] != np.bool_ or len(operands) != 3:
        return None
    return [Step(loop, range(3), result)]


def _round(operands: Sequence[Dtype], result: Dtype, *, rounding_method: Any) -> Any:
    if rounding_method == rounding.RoundingMethod.TO_NEAREST_EVEN:
        loop = loop_for(np.rint, operands, result)
    else:
        loop = named_loop("round_half_away", operands, result)
    return loop and [Step(loop, [0], result)]


def _reciprocal_root(operands: Sequence[Dtype], result: Dtype) -> list[Step] | None:
    root, divide = loop_for(np.sqrt, operands, result), loop_for(np.divide, [result] * 2, result)
    if root is None or divide is None or result.kind != "f":
        return None
    return [Step(root, [0], result), Step(divide, [-1, 1], result, [np.asarray(result.type(1))])]


def _logistic(operands: Sequence[Dtype], result: Dtype) -> list[Step] | None:
    unary = [loop_for(f, operands, result) for f in (np.negative, np.exp)]
    binary = [loop_for(f, [result] * 2, result) for f in (np.add, np.divide)]
    if None in (*unary, *binary) or result.kind != "f":
        return None
    one = [np.asarray(result.type(1))]
    return [
        Step(unary[0], [0], result),
        Step(unary[1], [1], result),
        Step(binary[0], [-1, 2], result, one),
        Step(binary[1], [-1, 3], result, one),
    ]


STEPS: dict[Operation, Callable[..., list[Step] | None]] = {
    elementwise.div_p: _integers("div", np.divide),
    elementwise.rem_p: _integers("rem", np.fmod),
    elementwise.pow_p: _power,
    elementwise.integer_pow_p: _integer_power,
    elementwise.max_p: _named("max"),
    elementwise.min_p: _named("min"),
    elementwise.clamp_p: _named("clamp"),
    elementwise.sign_p: _named("sign"),
    rounding.round_p: _round,
    elementwise.select_n_p: _select,
    elementwise.copy_p: _copy,
    elementwise.rsqrt_p: _reciprocal_root,
    elementwise.logistic_p: _logistic,
    conversion.convert_element_type_p: _convert,
}
"""How primitives are computed whose NumPy rule is not a ufunc."""


_BY_UFUNC = (Elementwise, Comparison, Accurate)
"""The classes whose NumPy rule is a ufunc of the operands only; others may have parameters."""


def steps_of(
    primitive: Any, params: dict[str, Any], operands: Sequence[Dtype], result: Dtype
) -> list[Step] | None:
    """Return the loops that compute an elementwise primitive, or None."""
    if primitive in STEPS:
        return STEPS[primitive](operands, result, **params)
    if params or type(primitive) not in _BY_UFUNC:
        return None
    loop = loop_for(primitive.meaning, operands, result)
    return loop and [Step(loop, range(len(operands)), result)]
