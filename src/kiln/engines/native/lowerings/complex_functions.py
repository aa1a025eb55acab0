"""Functions of complex numbers by those of real ones, on pairs of a real and an imaginary part.

Source: Kahan 1987, "Branch cuts for complex elementary functions", for the inverse functions and
tanh; Smith 1962, "Algorithm 116: complex division".
"""

from __future__ import annotations

import math
from collections.abc import Callable

from kiln.engines.native.builder import Complex
from kiln.engines.native.scalars import Value


def product(x: Complex, y: Complex) -> Complex:
    """Return x * y."""
    return Complex(x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re)


def quotient(x: Complex, y: Complex) -> Complex:
    """Return x / y; the divisor is scaled so that its square does not overflow."""
    first = abs(y.re).ge(abs(y.im))
    large, small = choose(first, y.re, y.im), choose(first, y.im, y.re)
    ratio = small / large
    scale = 1 / (large + small * ratio)
    re = choose(first, x.re + x.im * ratio, x.re * ratio + x.im) * scale
    im = choose(first, x.im - x.re * ratio, x.im * ratio - x.re) * scale
    zero = y.re.eq(0) & y.im.eq(0)
    return Complex(
        zero.select(x.re / abs(y.re), re),
        zero.select(x.im / abs(y.im), im),
    )


def choose(mask: Value, x: Value, y: Value) -> Value:
    """Return x where the mask holds, else y."""
    return mask.select(x, y)


def modulus(x: Complex) -> Value:
    """Return |x| without overflow; of a number with an infinite part it is infinity."""
    a, b = abs(x.re), abs(x.im)
    if a.dtype == "f32":
        # The squares of 32-bit floats fit the exponents of 64-bit ones.
        wide = a.convert("f64") * a.convert("f64") + b.convert("f64") * b.convert("f64")
        found = wide.unary("sqrt").convert("f32")
    else:
        larger = a.gt(b)
        large, small = choose(larger, a, b), choose(larger, b, a)
        ratio = small / large.eq(0).select(1, large)
        found = large * (ratio * ratio + 1).unary("sqrt")
    infinite = a.eq(math.inf) | b.eq(math.inf)
    return infinite.select(math.inf, found)


def _scaled(x: Complex, factor: float) -> Complex:
    return Complex(x.re * factor, x.im * factor)


def _number(x: Complex, re: float, im: float = 0.0) -> Complex:
    scope, kind = x.re.scope, x.re.dtype
    return Complex(scope.constant(re, kind), scope.constant(im, kind))


def _shifted(x: Complex, by: float) -> Complex:
    return Complex(x.re + by, x.im)


def _opposite(x: Complex) -> Complex:
    return Complex(-x.re, -x.im)


def _angle(y: Value, x: Value) -> Value:
    return x.scope.op("atan2", x.dtype, y, x)


def _signed(size: Value, sign: Value) -> Value:
    return size.scope.op("copysign", size.dtype, size, sign)


def _exp(x: Complex) -> Complex:
    size = x.re.unary("exp")
    im = x.im.eq(0).select(x.im, size * x.im.unary("sin"))
    return Complex(size * x.im.unary("cos"), im)


def _expm1(x: Complex) -> Complex:
    half = (x.im * 0.5).unary("sin")
    cosine = x.im.unary("cos")
    re = x.re.unary("expm1") * cosine - 2 * half * half
    im = x.im.eq(0).select(x.im, x.re.unary("exp") * x.im.unary("sin"))
    return Complex(re, im)


def _exp2(x: Complex) -> Complex:
    return _exp(_scaled(x, math.log(2)))


def _log(x: Complex) -> Complex:
    a, b = abs(x.re), abs(x.im)
    larger = a.gt(b)
    large, small = choose(larger, a, b), choose(larger, b, a)
    # Where |x| is about 1, its logarithm is that of the little it differs by.
    beyond = (large - 1) * (large + 1) + small * small
    return Complex(_log_of_modulus(beyond, x), _angle(x.im, x.re))


def _log1p(x: Complex) -> Complex:
    beyond = x.re * (x.re + 2) + x.im * x.im
    moved = _shifted(x, 1.0)
    return Complex(_log_of_modulus(beyond, moved), _angle(x.im, moved.re))


def _log_of_modulus(beyond: Value, x: Complex) -> Value:
    """Return log |x|, given |x|^2 - 1."""
    near = abs(beyond).lt(0.5)
    close = near.select(beyond, 0).unary("log1p") * 0.5
    return near.select(close, modulus(x).unary("log"))


def _sqrt(x: Complex) -> Complex:
    size = modulus(x)
    root = (size * 0.5 + abs(x.re) * 0.5).unary("sqrt")
    other = abs(x.im) / (root.eq(0).select(1, root) * 2)
    other = abs(x.im).eq(math.inf).select(math.inf, other)
    right = x.re.ge(0)
    re, im = choose(right, root, other), choose(right, other, root)
    zero = x.re.eq(0) & x.im.eq(0)
    return Complex(zero.select(0, re), zero.select(x.im, _signed(im, x.im)))


def _rsqrt(x: Complex) -> Complex:
    return quotient(_number(x, 1.0), _sqrt(x))


def _sin(x: Complex) -> Complex:
    return _turned_back(_sinh(_turned(x)))


def _cos(x: Complex) -> Complex:
    return _cosh(_turned(x))


def _tan(x: Complex) -> Complex:
    return _turned_back(_tanh(_turned(x)))


def _turned(x: Complex) -> Complex:
    """Return i x."""
    return Complex(-x.im, x.re)


def _turned_back(x: Complex) -> Complex:
    """Return -i x."""
    return Complex(x.im, -x.re)


def _sinh(x: Complex) -> Complex:
    sine = x.im.unary("sin")
    im = x.im.eq(0).select(x.im, x.re.unary("cosh") * sine)
    re = x.re.eq(0).select(x.re, x.re.unary("sinh") * x.im.unary("cos"))
    return Complex(re, im)


def _cosh(x: Complex) -> Complex:
    sine = x.im.unary("sin")
    im = (x.im.eq(0) | x.re.eq(0)).select(x.re * x.im, x.re.unary("sinh") * sine)
    return Complex(x.re.unary("cosh") * x.im.unary("cos"), im)


def _tanh(x: Complex) -> Complex:
    far = abs(x.re).gt(11.0 if x.re.dtype == "f32" else 22.0)
    near = far.select(0, x.re)
    slope = x.im.unary("tan")
    stretch = slope * slope + 1
    sinh = near.unary("sinh")
    cosh = (sinh * sinh + 1).unary("sqrt")
    below = stretch * sinh * sinh + 1
    limit = _signed(x.re.scope.constant(1, x.re.dtype), x.re)
    re = far.select(limit, stretch * cosh * sinh / below)
    decay = (abs(x.re) * -2).unary("exp")
    im = far.select(4 * x.im.unary("sin") * x.im.unary("cos") * decay, slope / below)
    return Complex(re, im)


def _asin(x: Complex) -> Complex:
    below, above = _sqrt(_shifted(_opposite(x), 1.0)), _sqrt(_shifted(x, 1.0))
    re = _angle(x.re, below.re * above.re - below.im * above.im)
    im = (below.re * above.im - below.im * above.re).unary("asinh")
    return Complex(re, im)


def _acos(x: Complex) -> Complex:
    below, above = _sqrt(_shifted(_opposite(x), 1.0)), _sqrt(_shifted(x, 1.0))
    re = 2 * _angle(below.re, above.re)
    im = (above.re * below.im - above.im * below.re).unary("asinh")
    return Complex(re, im)


def _asinh(x: Complex) -> Complex:
    return _turned_back(_asin(_turned(x)))


def _acosh(x: Complex) -> Complex:
    below, above = _sqrt(_shifted(x, -1.0)), _sqrt(_shifted(x, 1.0))
    re = (below.re * above.re + below.im * above.im).unary("asinh")
    return Complex(re, 2 * _angle(below.im, above.re))


def _atanh(x: Complex) -> Complex:
    size = abs(x.re)
    apart = 1 - size
    square = x.im * x.im
    re = (4 * size / (apart * apart + square)).unary("log1p") * 0.25
    im = _angle(2 * x.im, apart * (size + 1) - square) * 0.5
    return Complex(_signed(re, x.re), im)


def _atan(x: Complex) -> Complex:
    return _turned_back(_atanh(_turned(x)))


def _logistic(x: Complex) -> Complex:
    return quotient(_number(x, 1.0), _shifted(_exp(_opposite(x)), 1.0))


def power(x: Complex, y: Complex) -> Complex:
    """Return x ** y; 1 where y is 0, and 0 where x is and y is a positive number."""
    found = _exp(product(y, _log(x)))
    zero = x.re.eq(0) & x.im.eq(0)
    vanishing = zero & y.re.gt(0) & y.im.eq(0)
    nothing = y.re.eq(0) & y.im.eq(0)
    re = zero.select(vanishing.select(0, found.re.scope.constant(math.nan, x.re.dtype)), found.re)
    im = zero.select(vanishing.select(0, found.im.scope.constant(math.nan, x.re.dtype)), found.im)
    return Complex(nothing.select(1, re), nothing.select(0, im))


def inverse(x: Complex) -> Complex:
    """Return 1 / x."""
    return quotient(_number(x, 1.0), x)


def sign(x: Complex) -> Complex:
    """Return x / |x|; zeros are kept."""
    size = modulus(x)
    zero = size.eq(0)
    safe = zero.select(1, size)
    return Complex(zero.select(x.re, x.re / safe), zero.select(x.im, x.im / safe))


def maximum(x: Complex, y: Complex) -> Complex:
    """Return the later of two numbers, ordered by real, then by imaginary parts; nans propagate."""
    return _first(x, y, "gt", "ge")


def minimum(x: Complex, y: Complex) -> Complex:
    """Return the earlier of two numbers; nans propagate."""
    return _first(x, y, "lt", "le")


def _first(x: Complex, y: Complex, strictly: str, weakly: str) -> Complex:
    numbers = x.im.eq(x.im) & y.im.eq(y.im)
    better = (x.re.compare(strictly, y.re) & numbers) | (x.re.eq(y.re) & x.im.compare(weakly, y.im))
    take = better | x.re.ne(x.re) | x.im.ne(x.im)
    return Complex(choose(take, x.re, y.re), choose(take, x.im, y.im))


FUNCTIONS: dict[str, Callable[..., Complex]] = {
    "exp": _exp,
    "exp2": _exp2,
    "expm1": _expm1,
    "log": _log,
    "log1p": _log1p,
    "sqrt": _sqrt,
    "rsqrt": _rsqrt,
    "sin": _sin,
    "cos": _cos,
    "tan": _tan,
    "sinh": _sinh,
    "cosh": _cosh,
    "tanh": _tanh,
    "asin": _asin,
    "acos": _acos,
    "atan": _atan,
    "asinh": _asinh,
    "acosh": _acosh,
    "atanh": _atanh,
    "logistic": _logistic,
}
"""By the names that the functions of real numbers have."""
