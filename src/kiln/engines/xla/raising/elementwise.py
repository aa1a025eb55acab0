"""Arithmetic, elementary functions, comparison, logic, bits and selection."""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.core.primitive import Primitive
from kiln.core.trace import aval_of
from kiln.engines.xla.raising.raiser import NotRaised, Raiser, Raising, number
from kiln.engines.xla.stablehlo.operations import Operation
from kiln.ops.elements import elementwise as ops
from kiln.ops.elements import inverse_functions, special
from kiln.ops.elements.conversion import bitcast_convert_type_p, convert_element_type_p
from kiln.ops.elements.families import add_p, neg_p
from kiln.ops.elements.rounding import RoundingMethod, round_p

_BOOL = np.dtype(np.bool_)


def is_bool(x: Any) -> bool:
    """Tell whether a value's elements are booleans."""
    return bool(aval_of(x).dtype == _BOOL)


def is_complex(x: Any) -> bool:
    """Tell whether a value's elements are complex."""
    return dtypes.issubdtype(aval_of(x).dtype, np.complexfloating)


def is_float(x: Any) -> bool:
    """Tell whether a value's elements are real floats."""
    return dtypes.issubdtype(aval_of(x).dtype, np.floating)


def converted(x: Any, dtype: Any) -> Any:
    """Convert a value to a dtype."""
    if aval_of(x).dtype == dtype:
        return x
    return convert_element_type_p.bind(x, new_dtype=np.dtype(dtype), weak_type=False)


def plain(primitive: Primitive, **params: Any) -> Raising:
    """Return the raising to a primitive with the same operands."""

    def raised(r: Raiser, operation: Operation, *xs: Any) -> Any:
        return primitive.bind(*xs, **params)

    return raised


def _accurate(primitive: Primitive) -> Raising:
    return plain(primitive, accuracy=None)


def _or_logic(primitive: Primitive, logic: Primitive) -> Raising:
    """Return the raising of arithmetic, which on booleans is logic."""

    def raised(r: Raiser, operation: Operation, x: Any, y: Any) -> Any:
        return (logic if is_bool(x) else primitive).bind(x, y)

    return raised


_COMPARISONS = {
    "EQ": ops.eq_p,
    "NE": ops.ne_p,
    "LT": ops.lt_p,
    "LE": ops.le_p,
    "GT": ops.gt_p,
    "GE": ops.ge_p,
}


def _compare(r: Raiser, operation: Operation, x: Any, y: Any) -> Any:
    if is_bool(x):
        x, y = converted(x, np.uint8), converted(y, np.uint8)
    elif operation.attributes.get("compare_type") == "TOTALORDER" and is_float(x):
        x, y = total_order(x), total_order(y)
    return _COMPARISONS[operation.attributes["comparison_direction"]].bind(x, y)


def total_order(x: Any) -> Any:
    """Return integers in the total order of floats: -nan, -inf, ..., -0, 0, ..., inf, nan."""
    dtype = aval_of(x).dtype
    width = dtypes.bit_width(dtype)
    if width not in (16, 32, 64):
        raise NotRaised(f"stablehlo.compare in the total order of {dtype} has no counterpart")
    signed = np.dtype(f"i{width // 8}")
    bits = bitcast_convert_type_p.bind(x, new_dtype=signed)
    # Negative floats decrease as their bits increase.
    sign = ops.shift_right_arithmetic_p.bind(bits, number(width - 1, signed))
    flip = ops.and_p.bind(sign, number(np.iinfo(signed).max, signed))
    return ops.xor_p.bind(bits, flip)


def _select(r: Raiser, operation: Operation, which: Any, x: Any, y: Any) -> Any:
    return ops.select_n_p.bind(which, y, x)


def _clamp(r: Raiser, operation: Operation, low: Any, x: Any, high: Any) -> Any:
    if is_complex(x) or is_bool(x):
        raise NotRaised(f"stablehlo.clamp of {aval_of(x)} has no counterpart in kiln")
    return ops.clamp_p.bind(low, x, high)


def _round(method: RoundingMethod) -> Raising:
    return plain(round_p, rounding_method=method)


RAISINGS: dict[str, Raising] = {
    "stablehlo.add": _or_logic(add_p, ops.or_p),
    "stablehlo.subtract": plain(ops.sub_p),
    "stablehlo.multiply": _or_logic(ops.mul_p, ops.and_p),
    "stablehlo.divide": plain(ops.div_p),
    "stablehlo.remainder": plain(ops.rem_p),
    "stablehlo.power": plain(ops.pow_p),
    "stablehlo.maximum": _or_logic(ops.max_p, ops.or_p),
    "stablehlo.minimum": _or_logic(ops.min_p, ops.and_p),
    "stablehlo.negate": plain(neg_p),
    "stablehlo.sign": plain(ops.sign_p),
    "stablehlo.abs": plain(ops.abs_p),
    "stablehlo.floor": plain(ops.floor_p),
    "stablehlo.ceil": plain(ops.ceil_p),
    "stablehlo.round_nearest_afz": _round(RoundingMethod.AWAY_FROM_ZERO),
    "stablehlo.round_nearest_even": _round(RoundingMethod.TO_NEAREST_EVEN),
    "stablehlo.sqrt": _accurate(ops.sqrt_p),
    "stablehlo.rsqrt": _accurate(ops.rsqrt_p),
    "stablehlo.cbrt": _accurate(ops.cbrt_p),
    "stablehlo.exponential": _accurate(ops.exp_p),
    "stablehlo.exponential_minus_one": _accurate(ops.expm1_p),
    "stablehlo.log": _accurate(ops.log_p),
    "stablehlo.log_plus_one": _accurate(ops.log1p_p),
    "stablehlo.sine": _accurate(ops.sin_p),
    "stablehlo.cosine": _accurate(ops.cos_p),
    "stablehlo.tan": _accurate(ops.tan_p),
    "stablehlo.tanh": _accurate(ops.tanh_p),
    "stablehlo.logistic": _accurate(ops.logistic_p),
    "stablehlo.atan2": plain(ops.atan2_p),
    "stablehlo.is_finite": plain(ops.is_finite_p),
    "stablehlo.compare": _compare,
    "stablehlo.and": plain(ops.and_p),
    "stablehlo.or": plain(ops.or_p),
    "stablehlo.xor": plain(ops.xor_p),
    "stablehlo.not": plain(ops.not_p),
    "stablehlo.shift_left": plain(ops.shift_left_p),
    "stablehlo.shift_right_logical": plain(ops.shift_right_logical_p),
    "stablehlo.shift_right_arithmetic": plain(ops.shift_right_arithmetic_p),
    "stablehlo.popcnt": plain(ops.population_count_p),
    "stablehlo.count_leading_zeros": plain(ops.clz_p),
    "stablehlo.select": _select,
    "stablehlo.clamp": _clamp,
    "chlo.tan": _accurate(ops.tan_p),
    "chlo.sinh": plain(ops.sinh_p),
    "chlo.cosh": plain(ops.cosh_p),
    "chlo.asin": plain(inverse_functions.asin_p),
    "chlo.acos": plain(inverse_functions.acos_p),
    "chlo.atan": plain(inverse_functions.atan_p),
    "chlo.asinh": plain(inverse_functions.asinh_p),
    "chlo.acosh": plain(inverse_functions.acosh_p),
    "chlo.atanh": plain(inverse_functions.atanh_p),
    "chlo.next_after": plain(ops.nextafter_p),
    "chlo.square": plain(ops.square_p),
    "chlo.erf": plain(special.erf_p),
    "chlo.erfc": plain(special.erfc_p),
    "chlo.erf_inv": plain(special.erf_inv_p),
    "chlo.lgamma": plain(special.lgamma_p),
    "chlo.digamma": plain(special.digamma_p),
    "chlo.polygamma": plain(special.polygamma_p),
    "chlo.zeta": plain(special.zeta_p),
    "chlo.bessel_i1e": plain(special.bessel_i1e_p),
}
