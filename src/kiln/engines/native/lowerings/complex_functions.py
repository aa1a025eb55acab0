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


def choose(mask: Value, x: Value, y: Value) -> Value:
    """Return x where the mask holds, else y."""
    return mask.select(x, y)


def modulus(x: Complex) -> Value:
    """Return |x| without overflow; nan if a part is nan, even beside an infinite one, as XLA's."""
    a, b = abs(x.re), abs(x.im)
    if a.dtype == "f32":
        # The squares of 32-bit floats fit the exponents of 64-bit ones.
        wide = a.convert("f64") * a.convert("f64") + b.convert("f64") * b.convert("f64")
        return wide.unary("sqrt").convert("f32")
    larger = a.gt(b)
    large, small = choose(larger, a, b), choose(larger, b, a)
    ratio = small / large.eq(0).select(1, large)
    found = large * (ratio * ratio + 1).unary("sqrt")
    return large.eq(math.inf).select(large + small, found)


def _shifted(x: Complex, by: float) -> Complex:
    return Complex(x.re + by, x.im)


def _angle(y: Value, x: Value) -> Value:
    return x.scope.op("atan2", x.dtype, y, x)


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


FUNCTIONS: dict[str, Callable[..., Complex]] = {"log": _log, "log1p": _log1p}
"""Functions that agree with XLA's at zeros of both signs, infinities and nans.

The others do not yet: their programs run on XLA.
"""
