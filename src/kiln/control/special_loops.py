"""Incomplete gamma and beta functions: element-wise, and computed by loops until they settle.

Series and continued fractions of which every element needs its own number of terms, so that no
engine has them: they expand into `while`. Derivatives by `a` come from pushing a tangent through
the very steps of the loop.
Source: Numerical Recipes (3rd edition), sections 6.2 and 6.4; Stirling's series keeps the
prefactors exact where their logarithms cancel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.config import override
from kiln.control.while_loop import while_loop
from kiln.core.meaning import meaning
from kiln.core.staging import stage_pure
from kiln.core.trace import aval_of
from kiln.ir.types import ShapedArray
from kiln.ops.conversion import convert_element_type
from kiln.ops.elementwise import (
    abs,
    bitwise_and,
    bitwise_or,
    div,
    eq,
    exp,
    full_like,
    ge,
    gt,
    is_finite,
    le,
    log,
    log1p,
    lt,
    matched,
    max,
    mul,
    ne,
    reciprocal,
    select,
    sub,
)
from kiln.ops.families import FLOAT, Binary, Elementwise, add, binary, constant, neg
from kiln.ops.reduction import reduce_or
from kiln.ops.shape import broadcast_in_dim, filled
from kiln.ops.special import digamma, lgamma, no_derivative, scipys, widely, widened
from kiln.transforms.jvp import jvp

LIMIT = 20_000
"""Steps after which a loop ends even if some element has not settled."""

Step = Callable[..., list[Any]]


class LoopedFunction(Elementwise):
    """An element-wise function computed by `loop`, on arrays of one shape and 32 bits or more."""

    def __init__(
        self,
        name: str,
        loop: Callable[..., Any],
        *partials: Callable[..., Any],
        fun: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__(name, self.by_loop if fun is None else widely(fun), FLOAT, *partials)
        self.loop = loop

    def expand(self, *xs: Any) -> Any:
        out = self.infer(*map(aval_of, xs))
        wide = [widened(x) for x in xs]
        filled_up = [x if aval_of(x).shape else broadcast_in_dim(x, out.shape, ()) for x in wide]
        return convert_element_type(self.loop(*filled_up), out.dtype)

    def by_loop(self, *xs: np.ndarray) -> Any:
        """Run the loop with NumPy, in 64 bits."""
        with override(enable_x64=True):
            wide = [x.astype(np.float64) for x in xs]
            types = [ShapedArray(x.shape, x.dtype) for x in wide]
            return meaning(stage_pure(lambda *ys: [self.expand(*ys)], types), wide)[0].astype(
                xs[0].dtype
            )


def _settle(step: Step, a: Any, state: Sequence[Any], busy: Any, moving: bool) -> tuple[Any, Any]:
    """Repeat `state = step(n, a, *state)`, n = 1, 2, ..., until the last entry settles.

    Returns the last entry, and its derivative by `a` if `moving`.
    """
    size = len(state)
    precision = constant(float(dtypes.finfo(aval_of(a).dtype).eps), a)
    one = full_like(a, 1)

    def changing(new: Any, old: Any) -> Any:
        return gt(abs(sub(new, old)), mul(precision, abs(new)))

    def more(carry: tuple[Any, ...]) -> Any:
        n, busy, *_ = carry
        any_busy = reduce_or(busy, range(len(aval_of(busy).shape)))
        return bitwise_and(lt(n, constant(LIMIT, n)), any_busy)

    def body(carry: tuple[Any, ...]) -> tuple[Any, ...]:
        n, busy, *values = carry
        old, slopes = values[:size], values[size:]
        if moving:
            new, pushed = jvp(lambda a, *s: step(n, a, *s), [a, *old], [one, *slopes])
            pushed = [filled(t) for t in pushed]
            still = bitwise_or(changing(new[-1], old[-1]), changing(pushed[-1], slopes[-1]))
        else:
            new, pushed = step(n, a, *old), []
            still = changing(new[-1], old[-1])
        return (add(n, constant(1, n)), bitwise_and(busy, still), *new, *pushed)

    slopes = [full_like(a, 0)] * (size if moving else 0)
    first = convert_element_type(1, aval_of(a).dtype)
    _, _, *values = while_loop(more, body, (first, busy, *state, *slopes))
    return values[size - 1], values[-1] if moving else None


def _select(predicate: Any, on_true: float, on_false: Any) -> Any:
    return select(predicate, full_like(on_false, on_true), on_false)


def _inside(x: Any) -> Any:
    return bitwise_and(gt(x, constant(0, x)), is_finite(x))


_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)


def _stirling_rest(z: Any) -> Any:
    """Return log(gamma(z)) - ((z - 1/2) log(z) - z + log(2 pi)/2)."""
    large = ge(z, constant(10, z))
    far, near = _select(large, 10, z), z
    far = select(large, z, far)
    near = _select(large, 1, z)
    inverse = reciprocal(far)
    square = mul(inverse, inverse)
    total = full_like(z, 0)
    for c in reversed(_STIRLING):
        total = add(mul(total, square), constant(c, z))
    leading = sub(mul(sub(near, constant(0.5, z)), log(near)), near)
    exact = sub(lgamma(near), add(leading, constant(0.5 * math.log(2 * math.pi), z)))
    return select(large, mul(total, inverse), exact)


def _density_times_x(a: Any, x: Any) -> Any:
    """Return x^a exp(-x) / gamma(a), for positive a and x."""
    offset = div(sub(x, a), a)
    close = lt(abs(offset), constant(0.5, a))
    near = sub(log1p(_select(close, 0, offset) if False else select(close, offset, full_like(a, 0))), offset)
    far = sub(sub(log(x), log(a)), offset)
    power = mul(a, select(close, near, far))
    root = mul(constant(0.5, a), sub(log(a), constant(math.log(2 * math.pi), a)))
    return exp(sub(add(power, root), _stirling_rest(a)))


def _series(a: Any, x: Any, busy: Any, moving: bool) -> tuple[Any, Any]:
    """Return the sum of x^n / ((a+1) ... (a+n)), and its derivative by a."""

    def step(n: Any, a: Any, term: Any, total: Any) -> list[Any]:
        term = mul(term, div(x, add(a, n)))
        return [term, add(total, term)]

    return _settle(step, a, [full_like(a, 1), full_like(a, 1)], busy, moving)


def _fraction(a: Any, x: Any, busy: Any, moving: bool) -> tuple[Any, Any]:
    """Return the continued fraction of the upper incomplete gamma function, and its derivative."""

    def step(n: Any, a: Any, c: Any, d: Any, h: Any) -> list[Any]:
        numerator = mul(n, sub(a, n))
        base = add(add(sub(x, a), constant(1, a)), add(n, n))
        d = reciprocal(add(mul(numerator, d), base))
        c = add(base, div(numerator, c))
        return [c, d, mul(h, mul(c, d))]

    huge = full_like(a, 1e30)
    start = lambda a: [reciprocal(add(sub(x, a), constant(1, a)))]  # noqa: E731
    return _settle(step, a, [huge, *start(a), *start(a)], busy, moving)
