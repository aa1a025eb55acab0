"""Activation functions: elementwise, except `glu`, which gates one half of an axis by the other.

Eager calls run operation by operation; under a trace the equations appear inline. Functions whose
expression has no derivative, or an inexact one, where pieces meet have custom rules.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.control.custom_rules.jvp import custom_jvp
from kiln.core.array_type import Array, ArrayLike
from kiln.core.trace import aval_of
from kiln.numpy.elements.arithmetic import clip, maximum, minimum, square
from kiln.numpy.elements.elementary import exp, expm1, log, log1p, logaddexp, sqrt
from kiln.numpy.elements.elementary import tanh as tanh
from kiln.numpy.indexing.selection import where
from kiln.numpy.promotion import inexact, lifted, operands
from kiln.ops.elements.elementwise import logistic
from kiln.ops.elements.special import erfc
from kiln.ops.indexing.splitting import split
from kiln.ops.shape import canonical_axis

SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


def _array(name: str, x: Any) -> Array:
    (x,) = operands(name, x)
    return lifted(x)


def _clipped(name: str, low: float, high: float) -> Callable[[Any], Any]:
    """Return the function that clips x to [low, high], with derivative 0 at both ends."""

    def fun(x: Any) -> Any:
        x = maximum(_array(name, x), low)
        return x if high == math.inf else minimum(x, high)

    fun.__name__ = fun.__qualname__ = name
    whole = custom_jvp(fun)

    def derivative(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        (x,), (t,) = primals, tangents
        inside = x > low if high == math.inf else (x > low) & (x < high)
        return whole(x), where(inside, t, 0)

    whole.defjvp(derivative)
    return whole


_relu = _clipped("relu", 0, math.inf)
_relu6 = _clipped("relu6", 0, 6.0)


def relu(x: ArrayLike) -> Array:
    """Return max(x, 0); the derivative at 0 is 0.

    Example:
        >>> nn.relu(jnp.array([-1.0, 2.0]))
        Array([0., 2.], dtype=float32)
        >>> kiln.vmap(kiln.grad(nn.relu))(jnp.array([-1.0, 0.0, 2.0]))
        Array([0., 0., 1.], dtype=float32)
    """
    return _relu(_array("relu", x))


def relu6(x: ArrayLike) -> Array:
    """Return min(max(x, 0), 6); the derivatives at 0 and 6 are 0.

    Example:
        >>> nn.relu6(jnp.array([-1.0, 2.0, 9.0]))
        Array([0., 2., 6.], dtype=float32)
    """
    return _relu6(_array("relu6", x))


def identity(x: ArrayLike) -> Array:
    """Return x as an array.

    Example:
        >>> nn.identity(3.0)
        Array(3., dtype=float32, weak_type=True)
    """
    return _array("identity", x)


def sigmoid(x: ArrayLike) -> Array:
    """Return 1 / (1 + exp(-x)).

    Example:
        >>> float(nn.sigmoid(0.0))
        0.5
    """
    return logistic(inexact("sigmoid", x))


@custom_jvp
def _softplus(x: Any) -> Any:
    return logaddexp(x, 0)


@_softplus.defjvp
def _softplus_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (x,), (t,) = primals, tangents
    return _softplus(x), t * logistic(x)


def softplus(x: ArrayLike) -> Array:
    """Return log(1 + exp(x)), computed without overflow.

    Example:
        >>> float(nn.softplus(1000.0))
        1000.0
    """
    return _softplus(inexact("softplus", x))


def sparse_plus(x: ArrayLike) -> Array:
    """Return 0 up to -1, x from 1 on, and (x + 1)² / 4 between.

    Example:
        >>> nn.sparse_plus(jnp.array([-2.0, 0.0, 2.0]))
        Array([0.  , 0.25, 2.  ], dtype=float32)
    """
    x = _array("sparse_plus", x)
    return where(x <= -1.0, 0.0, where(x >= 1.0, x, (x + 1.0) ** 2 / 4))


def sparse_sigmoid(x: ArrayLike) -> Array:
    """Return 0 up to -1, 1 from 1 on, and (x + 1) / 2 between.

    Example:
        >>> nn.sparse_sigmoid(jnp.array([-2.0, 0.0, 2.0]))
        Array([0. , 0.5, 1. ], dtype=float32)
    """
    return 0.5 * clip(_array("sparse_sigmoid", x) + 1.0, 0.0, 2.0)


def soft_sign(x: ArrayLike) -> Array:
    """Return x / (1 + |x|).

    Example:
        >>> nn.soft_sign(jnp.array([-1.0, 3.0]))
        Array([-0.5 ,  0.75], dtype=float32)
    """
    x = _array("soft_sign", x)
    return x / (abs(x) + 1)


def silu(x: ArrayLike) -> Array:
    """Return x * sigmoid(x).

    Example:
        >>> nn.silu(jnp.array([-1.0, 0.0, 1.0])).round(2)
        Array([-0.27,  0.  ,  0.73], dtype=float32)
    """
    x = inexact("silu", x)
    return x * sigmoid(x)  # type: ignore[return-value]


def mish(x: ArrayLike) -> Array:
    """Return x * tanh(softplus(x)).

    Example:
        >>> nn.mish(jnp.array([-1.0, 2.0])).round(4)
        Array([-0.3034,  1.944 ], dtype=float32)
    """
    x = _array("mish", x)
    return x * tanh(softplus(x))


def log_sigmoid(x: ArrayLike) -> Array:
    """Return log(sigmoid(x)), without overflow.

    Example:
        >>> nn.log_sigmoid(jnp.array([-1000.0, 0.0]))
        Array([-1.000000e+03, -6.931472e-01], dtype=float32)
    """
    return -softplus(-_array("log_sigmoid", x))


@custom_jvp
def _log1mexp(x: Any) -> Any:
    return where(x < math.log(2), log(-expm1(-x)), log1p(-exp(-x)))


@_log1mexp.defjvp
def _log1mexp_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    (x,), (t,) = primals, tangents
    return _log1mexp(x), t / expm1(x)


def log1mexp(x: ArrayLike) -> Array:
    """Return log(1 - exp(-x)) for positive x, accurately near 0.

    Example:
        >>> nn.log1mexp(jnp.array([1e-6, 1.0])).round(4)
        Array([-13.8155,  -0.4587], dtype=float32)
    """
    return _log1mexp(inexact("log1mexp", x))


def elu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """Return x if positive, else alpha * (exp(x) - 1).

    Example:
        >>> nn.elu(jnp.array([-1.0, 2.0]))
        Array([-0.63212055,  2.        ], dtype=float32)
    """
    x = _array("elu", x)
    # The exponential must not overflow where it is not used, or its derivative would be nan.
    return where(x > 0, x, alpha * expm1(where(x > 0, 0.0, x)))


def celu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    """Return max(x, 0) + alpha * (exp(min(x, 0) / alpha) - 1).

    Example:
        >>> nn.celu(jnp.array([-1.0, 2.0]))
        Array([-0.63212055,  2.        ], dtype=float32)
    """
    x = _array("celu", x)
    return maximum(x, 0.0) + alpha * expm1(minimum(x, 0.0) / alpha)


def selu(x: ArrayLike) -> Array:
    """Return scale * elu(x, alpha), with the constants that preserve variance.

    Source: Klambauer, Unterthiner, Mayr and Hochreiter 2017.
    Example:
        >>> nn.selu(jnp.array([-1.0, 2.0]))
        Array([-1.1113307,  2.101402 ], dtype=float32)
    """
    return SELU_SCALE * elu(x, SELU_ALPHA)


def leaky_relu(x: ArrayLike, negative_slope: ArrayLike = 1e-2) -> Array:
    """Return x if not negative, else negative_slope * x.

    Example:
        >>> nn.leaky_relu(jnp.array([-1.0, 2.0]))
        Array([-0.01,  2.  ], dtype=float32)
    """
    x = _array("leaky_relu", x)
    return where(x >= 0, x, negative_slope * x)


def hard_tanh(x: ArrayLike) -> Array:
    """Return x clipped to [-1, 1].

    Example:
        >>> nn.hard_tanh(jnp.array([-4.0, 0.5, 4.0]))
        Array([-1. ,  0.5,  1. ], dtype=float32)
    """
    x = _array("hard_tanh", x)
    return where(x > 1, 1, where(x < -1, -1, x))


def hard_sigmoid(x: ArrayLike) -> Array:
    """Return relu6(x + 3) / 6.

    Example:
        >>> nn.hard_sigmoid(jnp.array([-4.0, 0.0, 4.0]))
        Array([0. , 0.5, 1. ], dtype=float32)
    """
    return relu6(_array("hard_sigmoid", x) + 3.0) / 6.0


def hard_silu(x: ArrayLike) -> Array:
    """Return x * hard_sigmoid(x).

    Example:
        >>> nn.hard_silu(jnp.array([-4.0, 1.5, 4.0]))
        Array([-0.   ,  1.125,  4.   ], dtype=float32)
    """
    x = _array("hard_silu", x)
    return x * hard_sigmoid(x)


def gelu(x: ArrayLike, approximate: bool = True) -> Array:
    """Return x * Φ(x), where Φ is the normal distribution function, by default approximated.

    Source: Hendrycks and Gimpel 2016.
    Example:
        >>> nn.gelu(jnp.array([-1.0, 0.0, 1.0])).round(2)
        Array([-0.16,  0.  ,  0.84], dtype=float32)
        >>> nn.gelu(1.0, approximate=False).round(4)
        Array(0.8413, dtype=float32)
    """
    x = inexact("gelu", _array("gelu", x))
    kind = x.dtype.type
    if not approximate:
        return 0.5 * x * erfc(-x * kind(math.sqrt(0.5)))
    return x * (0.5 * (1.0 + tanh(kind(math.sqrt(2 / math.pi)) * (x + 0.044715 * x**3))))


def squareplus(x: ArrayLike, b: ArrayLike = 4) -> Array:
    """Return (x + sqrt(x² + b)) / 2.

    `b` is the width of the bend at 0: with 0 it is `relu`.

    Example:
        >>> nn.squareplus(jnp.array([-1.0, 0.0, 3.0])).round(4)
        Array([0.618 , 1.    , 3.3028], dtype=float32)
    """
    x = _array("squareplus", x)
    return (x + sqrt(square(x) + b)) / 2


def glu(x: ArrayLike, axis: int = -1) -> Array:
    """Return the first half of x along an axis times the sigmoid of the second.

    Raises: AssertionError for an axis of odd size.
    Example:
        >>> nn.glu(jnp.array([1.0, 2.0, 0.0, 100.0]))
        Array([0.5, 2. ], dtype=float32)
    """
    x = _array("glu", x)
    axis = canonical_axis("glu", axis, x.ndim)
    size = x.shape[axis]
    if size % 2:
        raise AssertionError(
            three_lines(
                f"glu: x {aval_of(x)}, axis {axis} at {current_source()}",
                "axis size must be divisible by 2",
                "give as many gates as values",
            )
        )
    value, gate = split(x, (size // 2, size // 2), axis)
    return value * sigmoid(gate)


swish = silu
hard_swish = hard_silu
