"""Gamma variates, by rejection, and the distributions derived from them.

The derivative with respect to the shape parameter is implicit: it preserves the probability of a
smaller variate (Figurnov, Mohamed and Mnih 2018), so reverse mode does not go through the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.control.custom_rules.jvp import custom_jvp
from kiln.control.loops.loops import scan, while_loop
from kiln.control.loops.special_loops import random_gamma_grad
from kiln.core.array_type import Array, ArrayLike, DTypeLike, ShapeLike
from kiln.core.trace import aval_of
from kiln.ir.sizes.size import product
from kiln.numpy.creation.arrays import canonical_shape
from kiln.numpy.elements.elementary import exp
from kiln.numpy.indexing.selection import where
from kiln.numpy.promotion import operands, shape_of
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.elements.elementwise import (
    abs,
    div,
    eq,
    ge,
    le,
    log,
    max,
    mul,
    neg,
    pow,
    sqrt,
    stop_gradient,
)
from kiln.ops.elements.families import full_like
from kiln.ops.out_sharding import sharded
from kiln.ops.random.random_bits import KEY, random_split
from kiln.ops.reductions.reduction import reduce_max, reduce_or
from kiln.ops.shape import expand_dims, reduce_sum, reshape
from kiln.random.arguments import (
    Shape,
    check_broadcast,
    filled_to,
    fitted,
    float_dtype,
    sampled,
    sampler,
)
from kiln.random.inversion import exponential_values
from kiln.random.keys import single, typed
from kiln.random.normal import normal_values
from kiln.random.uniform import random_signs, uniform_floats

SQUEEZE = 0.0331
"""The constant of the fast test that accepts most proposals."""


def gamma(
    key: ArrayLike,
    a: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draw gamma variates of shape `a` and scale 1.

    Variates are differentiable by `a`: by the quantile that they are.
    Source: Marsaglia and Tsang 2000.
    Example:
        >>> random.gamma(random.key(0), 4.0, (1000,)).mean().round()
        Array(4., dtype=float32)
    """
    return sharded(sampled(_gamma, "gamma", key, shape, dtype, a), out_sharding, "gamma")


@sampler
def _gamma(key: Any, a: Any, *, shape: Shape, dtype: Any) -> Any:
    return gamma_values(typed(key), filled_to(a, shape, dtype))


def loggamma(
    key: ArrayLike,
    a: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draw logarithms of gamma variates: exact even where the variates would underflow.

    `a` is the positive shape parameter.
    Raises: TypeError or ValueError unless `key` is a single key, or for another kind of dtype;
        ValueError if the parameters do not broadcast to `shape`, which is by default the one they
        broadcast to. `out_sharding` says how the result is sharded: a NamedSharding, or a
        PartitionSpec over the mesh in force.
    Example:
        >>> jnp.isfinite(random.loggamma(random.key(0), 1e-5, (100,))).all()
        Array(True, dtype=bool)
    """
    return sharded(sampled(_loggamma, "loggamma", key, shape, dtype, a), out_sharding, "loggamma")


@sampler
def _loggamma(key: Any, a: Any, *, shape: Shape, dtype: Any) -> Any:
    return log_gamma_values(typed(key), filled_to(a, shape, dtype))


@custom_jvp
def gamma_values(key: Any, alpha: Any) -> Any:
    """Draw gamma variates with a typed key, one for each element of `alpha`."""
    return _of_each(_variates, key, alpha)


def _variates(keys: Any, alpha: Any) -> Any:
    scale, cube, keys, large = _accepted(keys, alpha)
    boost = pow(1 - uniform_floats(keys, (), scale.dtype), div(1, alpha))
    return scale * cube * where(large, full_like(boost, 1), boost)


@gamma_values.defjvp
def _gamma_values_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    key, alpha = primals
    out = gamma_values(key, alpha)
    return out, mul(tangents[1], random_gamma_grad(alpha, out))


@custom_jvp
def log_gamma_values(key: Any, alpha: Any) -> Any:
    """Draw logarithms of gamma variates with a typed key, one for each element of `alpha`."""
    return _of_each(_logarithms, key, alpha)


def _logarithms(keys: Any, alpha: Any) -> Any:
    scale, cube, keys, large = _accepted(keys, alpha)
    waited = neg(exponential_values(keys, (), scale.dtype))
    boost = where(large | eq(waited, 0), full_like(waited, 0), waited * div(1, alpha))
    return log(scale) + log(cube) + boost


@log_gamma_values.defjvp
def _log_gamma_values_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    key, alpha = primals
    out = log_gamma_values(key, alpha)
    variate = exp(out)
    tiny = full_like(variate, float(dtypes.finfo(variate.dtype).tiny))
    variate = where(eq(variate, 0), tiny, variate)
    return out, mul(tangents[1], div(random_gamma_grad(alpha, variate), variate))


def _of_each(draw: Callable[[Any, Any], Any], key: Any, alpha: Any) -> Any:
    """Draw for each element of `alpha` with a key of its own."""
    flat = reshape(alpha, (product(shape_of(alpha)),))
    keys = random_split(key, shape_of(flat))
    if aval_of(key).dtype != KEY:
        # Other generators may draw for several keys from the first of them.
        def draw_one(_: None, pair: tuple[Any, Any]) -> tuple[None, Any]:
            return None, reshape(draw(*[expand_dims(x, (0,)) for x in pair]), ())

        return reshape(scan(draw_one, None, (keys, flat))[1], shape_of(alpha))
    return reshape(draw(keys, flat), shape_of(alpha))


def _accepted(keys: Any, alpha: Any) -> tuple[Any, Any, Any, Any]:
    """Propose until all elements are accepted: variates are `scale * cube` for alpha >= 1.

    Returns the two factors, a fresh key for each element, and which alphas are >= 1: for the others
    alpha + 1 was used, and the caller corrects for it.
    """
    large = ge(alpha, 1)
    third = aval_of(alpha).dtype.type(1 / 3)
    scale = where(large, alpha, alpha + 1) - third
    spread = third / sqrt(scale)
    pair = random_split(keys, (2,))
    zero, one = full_like(alpha, 0), full_like(alpha, 1)

    def refused(square: Any, cube: Any, chance: Any) -> Any:
        quick = chance >= 1 - SQUEEZE * (square * square)
        return quick & (log(chance) >= square * 0.5 + scale * (1 - cube + log(cube)))

    def going_on(state: Any) -> Any:
        return _any(refused(*state[1:]))

    def propose(state: Any) -> Any:
        keys, square, cube, chance = state
        triple = random_split(keys, (3,))
        x, v = _positive(triple[:, 1], spread)
        new = (triple[:, 0], x * x, v * v * v, uniform_floats(triple[:, 2], (), v.dtype))
        retry = refused(square, cube, chance)
        return tuple(where(retry, a, b) for a, b in zip(new, state, strict=True))

    start = (pair[:, 0], zero, one, full_like(alpha, 2))
    _, _, cube, _ = while_loop(going_on, propose, start)
    return scale, cube, pair[:, 1], large


def _positive(keys: Any, spread: Any) -> tuple[Any, Any]:
    """Draw normal x until v = 1 + x * spread is positive; return both."""

    def going_on(state: Any) -> Any:
        return _any(le(state[2], 0))

    def draw(state: Any) -> Any:
        keys, _, v = state
        pair = random_split(keys, (2,))
        drawn = normal_values(pair[:, 1], (), v.dtype)
        new = (pair[:, 0], drawn, 1 + drawn * spread)
        return tuple(where(le(v, 0), a, b) for a, b in zip(new, state, strict=True))

    start = (keys, full_like(spread, 0), full_like(spread, -1))
    _, x, v = while_loop(going_on, draw, start)
    return x, v


def _any(flags: Any) -> Any:
    return reduce_or(flags, (0,))


def beta(
    key: ArrayLike,
    a: ArrayLike,
    b: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draw beta variates.

    `a` and `b` are the positive parameters of the density, proportional to x**(a-1) (1-x)**(b-1).
    Raises: TypeError or ValueError unless `key` is a single key, or for another kind of dtype;
        ValueError if the parameters do not broadcast to `shape`, which is by default the one they
        broadcast to. `out_sharding` says how the result is sharded: a NamedSharding, or a
        PartitionSpec over the mesh in force.
    Example:
        >>> draws = random.beta(random.key(0), 2.0, 2.0, (1000,))
        >>> draws.mean().round(1), draws.max() < 1
        (Array(0.5, dtype=float32), Array(True, dtype=bool))
    """
    return sharded(sampled(_beta, "beta", key, shape, dtype, a, b), out_sharding, "beta")


@sampler
def _beta(key: Any, a: Any, b: Any, *, shape: Shape, dtype: Any) -> Any:
    keys = random_split(typed(key), (2,))
    first = log_gamma_values(keys[0], filled_to(a, shape, dtype))
    second = log_gamma_values(keys[1], filled_to(b, shape, dtype))
    # Relative to the larger of the two, neither underflows.
    greatest = max(first, second)
    first, second = exp(first - greatest), exp(second - greatest)
    return first / (first + second)


def dirichlet(
    key: ArrayLike,
    alpha: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draw Dirichlet vectors.

    Shapes: (..., n) -> (*shape, n)
    Raises: ValueError for a scalar alpha.
    Example:
        >>> random.dirichlet(random.key(0), jnp.ones(3), (4,)).sum(axis=1).round(4)
        Array([1., 1., 1., 1.], dtype=float32)
    """
    key = single("dirichlet", key)
    found = float_dtype("dirichlet", dtype)
    (alpha,) = operands("dirichlet", alpha)
    full = shape_of(alpha)
    if not full:
        raise ValueError(
            three_lines(
                f"dirichlet: alpha {aval_of(alpha)} at {current_source()}",
                "dirichlet requires alpha.ndim >= 1, got alpha.ndim == 0",
                "give one concentration for each component",
            )
        )
    wanted = full[:-1] if shape is None else canonical_shape("dirichlet", shape)
    check_broadcast("dirichlet", wanted, full[:-1])
    return sharded(
        _dirichlet(key, alpha, shape=(*wanted, full[-1]), dtype=found), out_sharding, "dirichlet"
    )


@sampler
def _dirichlet(key: Any, alpha: Any, *, shape: Shape, dtype: Any) -> Any:
    logs = log_gamma_values(typed(key), filled_to(alpha, shape, dtype))
    axis = len(shape) - 1
    greatest = stop_gradient(expand_dims(reduce_max(logs, (axis,)), (axis,)))
    parts = exp(logs - greatest)
    return parts / expand_dims(reduce_sum(parts, (axis,)), (axis,))


def chisquare(
    key: ArrayLike,
    df: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draw chi-square variates with `df` degrees of freedom.

    Raises: TypeError or ValueError unless `key` is a single key, or for another kind of dtype;
        ValueError if the parameters do not broadcast to `shape`, which is by default the one they
        broadcast to. `out_sharding` says how the result is sharded: a NamedSharding, or a
        PartitionSpec over the mesh in force.
    Example:
        >>> random.chisquare(random.key(0), 3.0, (1000,)).mean().round()
        Array(3., dtype=float32)
    """
    return sharded(
        sampled(_chisquare, "chisquare", key, shape, dtype, df), out_sharding, "chisquare"
    )


@sampler
def _chisquare(key: Any, df: Any, *, shape: Shape, dtype: Any) -> Any:
    return _chisquare_values(typed(key), convert_element_type(df, dtype), shape, dtype)


def _chisquare_values(key: Any, df: Any, shape: Shape, dtype: Any) -> Any:
    return exp(log_gamma_values(key, filled_to(df / 2, shape, dtype))) * 2


def f(
    key: ArrayLike,
    dfnum: ArrayLike,
    dfden: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draw variates of Fisher's F with `dfnum` and `dfden` degrees of freedom.

    Raises: TypeError or ValueError unless `key` is a single key, or for another kind of dtype;
        ValueError if the parameters do not broadcast to `shape`, which is by default the one they
        broadcast to. `out_sharding` says how the result is sharded: a NamedSharding, or a
        PartitionSpec over the mesh in force.
    Example:
        >>> random.f(random.key(0), 3.0, 5.0, (4,)).shape
        (4,)
    """
    return sharded(sampled(_f, "f", key, shape, dtype, dfnum, dfden), out_sharding, "f")


@sampler
def _f(key: Any, dfnum: Any, dfden: Any, *, shape: Shape, dtype: Any) -> Any:
    keys = random_split(typed(key), (2,))
    dfnum, dfden = convert_element_type(dfnum, dtype), convert_element_type(dfden, dtype)
    below = _chisquare_values(keys[0], dfden, shape, dtype)
    above = _chisquare_values(keys[1], dfnum, shape, dtype)
    return (above / dfnum) / (below / dfden)


def t(
    key: ArrayLike,
    df: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draw variates of Student's t with `df` degrees of freedom.

    Raises: TypeError or ValueError unless `key` is a single key, or for another kind of dtype;
        ValueError if the parameters do not broadcast to `shape`, which is by default the one they
        broadcast to. `out_sharding` says how the result is sharded: a NamedSharding, or a
        PartitionSpec over the mesh in force.
    Example:
        >>> random.t(random.key(0), 3.0, (4,)).shape
        (4,)
    """
    return sharded(sampled(_t, "t", key, shape, dtype, df), out_sharding, "t")


@sampler
def _t(key: Any, df: Any, *, shape: Shape, dtype: Any) -> Any:
    keys = random_split(typed(key), (2,))
    half = fitted(df, shape, dtype) / 2
    drawn = normal_values(keys[0], shape, dtype)
    return drawn * sqrt(half / gamma_values(keys[1], filled_to(half, shape, dtype)))


def generalized_normal(
    key: ArrayLike,
    p: ArrayLike,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draw variates with density proportional to exp(-|x|**p).

    `p` is a positive number or an array.
    Raises: TypeError or ValueError unless `key` is a single key, or for another kind of dtype.
        `out_sharding` says how the result is sharded: a NamedSharding, or a PartitionSpec over the
        mesh in force.
    Example:
        >>> random.generalized_normal(random.key(0), 1.0, (3,)).shape
        (3,)
    """
    key = single("generalized_normal", key)
    found = float_dtype("generalized_normal", dtype)
    wanted = canonical_shape("generalized_normal", shape)
    return sharded(
        _generalized_normal(key, p, shape=wanted, dtype=found), out_sharding, "generalized_normal"
    )


@sampler
def _generalized_normal(key: Any, p: Any, *, shape: Shape, dtype: Any) -> Any:
    return _generalized_normal_values(typed(key), p, shape, dtype)


def _generalized_normal_values(key: Any, p: Any, shape: Shape, dtype: Any) -> Any:
    keys = random_split(key, (2,))
    size = gamma_values(keys[0], filled_to(1 / p, shape, dtype))
    return random_signs(keys[1], shape, dtype) * pow(size, filled_to(1 / p, shape, dtype))


def ball(
    key: ArrayLike,
    d: int,
    p: ArrayLike = 2,
    shape: ShapeLike = (),
    dtype: DTypeLike | None = None,
    *,
    out_sharding: Any = None,
) -> Array:
    """Draw points uniform in the unit ball of the p-norm in `d` dimensions.

    Shapes: -> (*shape, d)
    Source: Barthe, Guédon, Mendelson and Naor 2005.
    Example:
        >>> points = random.ball(random.key(0), 3, shape=(100,))
        >>> points.shape, (jnp.linalg.norm(points, axis=1) <= 1).all()
        ((100, 3), Array(True, dtype=bool))
    """
    key = single("ball", key)
    found = float_dtype("ball", dtype)
    wanted = canonical_shape("ball", shape)
    return sharded(
        _ball(key, p, shape=(*wanted, *canonical_shape("ball", d)), dtype=found),
        out_sharding,
        "ball",
    )


@sampler
def _ball(key: Any, p: Any, *, shape: Shape, dtype: Any) -> Any:
    keys = random_split(typed(key), (2,))
    points = _generalized_normal_values(keys[0], p, shape, dtype)
    waited = exponential_values(keys[1], shape[:-1], dtype)
    axis = len(shape) - 1
    total = reduce_sum(pow(abs(points), filled_to(p, shape, dtype)), (axis,)) + waited
    norm = pow(total, filled_to(1 / p, shape[:-1], dtype))
    return points / expand_dims(norm, (axis,))
