"""Elementary functions as scalar expressions, one family per file, merged here."""

from __future__ import annotations

from collections.abc import Callable

from kiln.engines.native.elementary import (
    error,
    exponential,
    gamma,
    inverse_trigonometric,
    logarithm,
    power,
    remainder,
    trigonometric,
)
from kiln.engines.native.loop_ir.scalars import Value

Expansion = Callable[..., Value]

EXPANSIONS: dict[str, Expansion] = {
    "exp": exponential.exp,
    "exp2": exponential.exp2,
    "expm1": exponential.expm1,
    "logistic": exponential.logistic,
    "sinh": exponential.sinh,
    "cosh": exponential.cosh,
    "tanh": exponential.tanh,
    "log": logarithm.log,
    "log1p": logarithm.log1p,
    "log2": logarithm.log2,
    "asinh": logarithm.asinh,
    "acosh": logarithm.acosh,
    "atanh": logarithm.atanh,
    "sin": trigonometric.sin,
    "cos": trigonometric.cos,
    "tan": trigonometric.tan,
    "asin": inverse_trigonometric.asin,
    "acos": inverse_trigonometric.acos,
    "atan": inverse_trigonometric.atan,
    "atan2": inverse_trigonometric.atan2,
    "pow": power.power,
    "cbrt": power.cbrt,
    "rsqrt": power.rsqrt,
    "erf": error.erf,
    "erfc": error.erfc,
    "erf_inv": error.erf_inv,
    "lgamma": gamma.lgamma,
    "digamma": gamma.digamma,
    "rem": remainder.rem,
}
"""The functions by name; their operands are f32 or f64, and of one type.

`rem` of integers is a basic operation; that of floats is this function.
"""


def expand(x: Value) -> Value:
    """Return the node of a function, on floats of any type, in basic operations.

    Of f16 and bf16 the function is computed in f32. Raises KeyError on other operations.
    """
    function = EXPANSIONS[x.op]
    if x.dtype in ("f16", "bf16"):
        return function(*[y.convert("f32") for y in x.operands]).convert(x.dtype)
    return function(*x.operands)
