"""Inverse trigonometric and hyperbolic functions.

Their derivatives neither cancel near 1 nor overflow if the result can be represented.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.core.trace import aval_of
from kiln.ops.elements.elementwise import abs, div, ge, mul, rsqrt, select, sub
from kiln.ops.elements.families import INEXACT, Elementwise, Unary, add, constant, neg, unary


def _below_one(x: Any) -> Any:
    """Return 1 - x²."""
    return mul(sub(constant(1, x), x), add(constant(1, x), x))


def _asinh_partial(t: Any, out: Any, x: Any) -> Any:
    one, short = constant(1, x), x
    if not dtypes.issubdtype(aval_of(x).dtype, np.complexfloating):
        # Divided by the larger of |x| and 1, so that neither square overflows.
        is_long = ge(abs(x), one)
        inverse = div(one, select(is_long, x, one))
        t, short = mul(t, abs(inverse)), select(is_long, inverse, x)
    return mul(t, rsqrt(add(mul(short, short), one)))


def _acosh_partial(t: Any, out: Any, x: Any) -> Any:
    return mul(t, mul(rsqrt(sub(x, constant(1, x))), rsqrt(add(x, constant(1, x)))))


asin_p = Elementwise("asin", np.arcsin, INEXACT, lambda t, o, x: mul(t, rsqrt(_below_one(x))))
acos_p = Elementwise("acos", np.arccos, INEXACT, lambda t, o, x: neg(mul(t, rsqrt(_below_one(x)))))
atan_p = Elementwise(
    "atan", np.arctan, INEXACT, lambda t, o, x: div(t, add(constant(1, x), mul(x, x)))
)
asinh_p = Elementwise("asinh", np.arcsinh, INEXACT, _asinh_partial)
acosh_p = Elementwise("acosh", np.arccosh, INEXACT, _acosh_partial)
atanh_p = Elementwise("atanh", np.arctanh, INEXACT, lambda t, o, x: div(t, _below_one(x)))

asin: Unary = unary(asin_p)
acos: Unary = unary(acos_p)
atan: Unary = unary(atan_p)
asinh: Unary = unary(asinh_p)
acosh: Unary = unary(acosh_p)
atanh: Unary = unary(atanh_p)
