"""Initializers: functions of (key, shape, dtype) that draw the parameters of a model.

Those with a `scale` or a mode preserve the variance of a layer's signal: they divide by the number
of its inputs or outputs, or by an average of both (the "fan").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from kiln import random
from kiln.base import dtypes
from kiln.base.docstrings import shown
from kiln.base.errors import three_lines
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike, DTypeLike, ShapeLike
from kiln.numpy.creation.arrays import array, canonical_shape
from kiln.numpy.creation.filling import full
from kiln.numpy.creation.filling import ones as filled_with_ones
from kiln.numpy.creation.filling import zeros as filled_with_zeros
from kiln.numpy.elements.elementary import exp, log, sqrt
from kiln.numpy.shapes import moveaxis
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.out_sharding import sharded
from kiln.ops.shape import reshape

__all__ = [
    "Initializer",
    "constant",
    "delta_orthogonal",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "kaiming_normal",
    "kaiming_uniform",
    "lecun_normal",
    "lecun_uniform",
    "normal",
    "ones",
    "orthogonal",
    "truncated_normal",
    "uniform",
    "variance_scaling",
    "xavier_normal",
    "xavier_uniform",
    "zeros",
]

Axes = int | Sequence[int]

TRUNCATED_DEVIATION = 0.87962566103423978
"""The standard deviation of a normal variate truncated to [-2, 2]."""
COMPLEX_TRUNCATED_DEVIATION = 0.95311164380491208
"""The same of a complex one truncated to |z| <= 2."""


class Initializer(Protocol):
    """A function that draws parameters.

    Example:
        >>> draw: nn.initializers.Initializer = nn.initializers.normal(0.1)
        >>> draw(random.key(0), (2, 3)).shape
        (2, 3)
    """

    def __call__(self, key: ArrayLike, shape: ShapeLike, dtype: DTypeLike | None = None) -> Array:
        """Return an array of the shape."""


def _initializer(draw: Callable[[Any, tuple[Any, ...], Any], Any], dtype: Any) -> Initializer:
    default = dtype

    def init(
        key: ArrayLike,
        shape: ShapeLike,
        dtype: DTypeLike | None = None,
        out_sharding: Any = None,
    ) -> Array:
        wanted = default if dtype is None else dtype
        found = (
            dtypes.default_float_dtype()
            if wanted is None
            else dtypes.check_user_dtype(wanted, "initializer")
        )
        made = draw(key, canonical_shape("initializer", shape), found)
        return sharded(made, out_sharding, "initializer")

    return init


def zeros(
    key: Any, shape: ShapeLike, dtype: DTypeLike | None = None, out_sharding: Any = None
) -> Array:
    """Return zeros.

    `out_sharding` says how the result is sharded: a NamedSharding, or a PartitionSpec over the mesh
    in force.

    Example:
        >>> nn.initializers.zeros(random.key(0), (2,))
        Array([0., 0.], dtype=float32)
    """
    return sharded(filled_with_zeros(shape, dtype), out_sharding, "zeros")


def ones(
    key: Any, shape: ShapeLike, dtype: DTypeLike | None = None, out_sharding: Any = None
) -> Array:
    """Return ones.

    `out_sharding` says how the result is sharded: a NamedSharding, or a PartitionSpec over the mesh
    in force.

    Example:
        >>> nn.initializers.ones(random.key(0), (2,))
        Array([1., 1.], dtype=float32)
    """
    return sharded(filled_with_ones(shape, dtype), out_sharding, "ones")


def constant(value: ArrayLike | Sequence[Any], dtype: DTypeLike | None = None) -> Initializer:
    """Return the initializer that returns arrays filled with a value.

    Example:
        >>> nn.initializers.constant(3.0)(random.key(0), (2,))
        Array([3., 3.], dtype=float32)
    """
    return _initializer(lambda key, shape, dtype: full(shape, value, dtype), dtype)


def uniform(scale: ArrayLike = 1e-2, dtype: DTypeLike | None = None) -> Initializer:
    """Return the initializer that draws uniformly from [0, scale).

    Example:
        >>> draws = nn.initializers.uniform(0.5)(random.key(0), (1000,))
        >>> (draws >= 0).all(), (draws < 0.5).all()
        (Array(True, dtype=bool), Array(True, dtype=bool))
    """

    def draw(key: Any, shape: Any, dtype: Any) -> Any:
        return random.uniform(key, shape, dtype) * array(scale, dtype)

    return _initializer(draw, dtype)


def normal(stddev: Any = 1e-2, dtype: DTypeLike | None = None) -> Initializer:
    """Return the initializer that draws normal variates.

    `stddev` is their standard deviation; `dtype` is that of arrays for which none is given.

    Example:
        >>> nn.initializers.normal(0.5)(random.key(0), (100, 100)).std().round(2)
        Array(0.51, dtype=float32)
    """

    def draw(key: Any, shape: Any, dtype: Any) -> Any:
        return random.normal(key, shape, dtype) * array(stddev, dtype)

    return _initializer(draw, dtype)


def truncated_normal(
    stddev: Any = 1e-2,
    dtype: DTypeLike | None = None,
    lower: ArrayLike = -2.0,
    upper: ArrayLike = 2.0,
) -> Initializer:
    """Return the initializer that draws normal variates truncated to [lower, upper] and scales.

    The scale is `stddev`, to which the truncation does not apply: variates lie between stddev *
    lower and stddev * upper.

    Example:
        >>> draws = nn.initializers.truncated_normal(0.5)(random.key(0), (1000,))
        >>> (jnp.abs(draws) <= 1.0).all()
        Array(True, dtype=bool)
    """

    def draw(key: Any, shape: Any, dtype: Any) -> Any:
        return random.truncated_normal(key, lower, upper, shape, dtype) * array(stddev, dtype)

    return _initializer(draw, dtype)


def _refused(asked: str, wrong: str, remedy: str) -> ValueError:
    return ValueError(three_lines(f"{asked} at {current_source()}", wrong, remedy))


def _fans(
    shape: Sequence[int], in_axis: Axes, out_axis: Axes, batch_axis: Axes
) -> tuple[float, float]:
    """Return the numbers of inputs and outputs of each unit."""
    if len(shape) <= 1 and in_axis == -2:
        raise _refused(
            f"initializer of shape {tuple(shape)}",
            f"Can't compute input and output sizes of a {len(shape)}-dimensional weights tensor "
            "with default in_axis. Must be at least 2D or specify in_axis explicitly.",
            "use another initializer for vectors, such as zeros, or give in_axis and out_axis",
        )

    def size(axes: Axes) -> int:
        return math.prod(shape[i] for i in ((axes,) if isinstance(axes, int) else axes))

    inputs, outputs = size(in_axis), size(out_axis)
    field = math.prod(shape) / (inputs * outputs * size(batch_axis))
    return inputs * field, outputs * field


def variance_scaling(
    scale: ArrayLike,
    mode: str,
    distribution: str,
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: DTypeLike | None = None,
) -> Initializer:
    """Return the initializer with variance scale / fan.

    `mode` is "fan_in", "fan_out", "fan_avg" or "fan_geo_avg"; `distribution` is
    "truncated_normal", "normal" or "uniform".

    Raises: ValueError when called, for other names, and for shapes with fewer than two axes unless
        `in_axis` says which one is the inputs'.
    Example:
        >>> draw = nn.initializers.variance_scaling(1.0, "fan_in", "normal")
        >>> draw(random.key(0), (100, 100)).std().round(2)
        Array(0.1, dtype=float32)
    """

    def draw(key: Any, shape: Any, dtype: Any) -> Any:
        inputs, outputs = _fans(shape, in_axis, out_axis, batch_axis)
        fans = {
            "fan_in": inputs,
            "fan_out": outputs,
            "fan_avg": (inputs + outputs) / 2,
            "fan_geo_avg": math.sqrt(inputs * outputs),
        }
        if mode not in fans:
            raise _refused(
                f"variance_scaling(mode={mode!r})",
                f"invalid mode for variance scaling initializer: {mode}",
                f"use one of {', '.join(fans)}",
            )
        if distribution not in _DISTRIBUTIONS:
            raise _refused(
                f"variance_scaling(distribution={distribution!r})",
                f"invalid distribution for variance scaling initializer: {distribution}",
                f"use one of {', '.join(_DISTRIBUTIONS)}",
            )
        variance = array(scale / fans[mode], dtype)
        return _DISTRIBUTIONS[distribution](key, shape, dtype, variance)

    return _initializer(draw, dtype)


def _is_complex(dtype: Any) -> bool:
    return dtypes.issubdtype(dtype, np.complexfloating)


def _truncated(key: Any, shape: Any, dtype: Any, variance: Any) -> Any:
    if _is_complex(dtype):
        deviation = sqrt(variance) / array(COMPLEX_TRUNCATED_DEVIATION, dtype)
        return _complex_truncated_normal(key, 2, shape, dtype) * deviation
    deviation = sqrt(variance) / array(TRUNCATED_DEVIATION, dtype)
    return random.truncated_normal(key, -2, 2, shape, dtype) * deviation


def _normal(key: Any, shape: Any, dtype: Any, variance: Any) -> Any:
    return random.normal(key, shape, dtype) * sqrt(variance)


def _uniform(key: Any, shape: Any, dtype: Any, variance: Any) -> Any:
    if _is_complex(dtype):
        return _complex_uniform(key, shape, dtype) * sqrt(variance)
    return random.uniform(key, shape, dtype, -1) * sqrt(3 * variance)


_DISTRIBUTIONS = {"truncated_normal": _truncated, "normal": _normal, "uniform": _uniform}


def _complex_uniform(key: Any, shape: Any, dtype: Any) -> Any:
    """Draw points uniform in the disk of radius sqrt(2)."""
    part = dtypes.to_floating_dtype(dtype)
    keys = random.split(key)
    radius = convert_element_type(sqrt(2 * random.uniform(keys[0], shape, part)), dtype)
    return radius * _directions(keys[1], shape, dtype)


def _complex_truncated_normal(key: Any, upper: Any, shape: Any, dtype: Any) -> Any:
    """Draw complex normal variates of size at most `upper`."""
    part = dtypes.to_floating_dtype(dtype)
    keys = random.split(key)
    kept = 1 - exp(array(-(upper**2), dtype))
    chance = convert_element_type(random.uniform(keys[0], shape, part), dtype)
    return sqrt(-log(1 - kept * chance)) * _directions(keys[1], shape, dtype)


def _directions(key: Any, shape: Any, dtype: Any) -> Any:
    part = dtypes.to_floating_dtype(dtype)
    angle = 2 * math.pi * convert_element_type(random.uniform(key, shape, part), dtype)
    return exp(1j * angle)


def _named(
    name: str, scale: float, mode: str, distribution: str, source: str, *example: str
) -> Callable[..., Initializer]:
    def make(
        in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None
    ) -> Initializer:
        return variance_scaling(scale, mode, distribution, in_axis, out_axis, batch_axis, dtype)

    make.__name__ = make.__qualname__ = name
    summary = f"Return the initializer variance_scaling({scale}, {mode!r}, {distribution!r})."
    make.__doc__ = shown(f"{summary}\n\nSource: {source}.", example)
    return make


_GLOROT, _LECUN, _HE = "Glorot and Bengio 2010", "LeCun et al. 1998", "He et al. 2015"
glorot_uniform = _named(
    "glorot_uniform",
    1.0,
    "fan_avg",
    "uniform",
    _GLOROT,
    ">>> nn.initializers.glorot_uniform()(random.key(0), (100, 200)).max().round(2)",
    "Array(0.14, dtype=float32)",
)
glorot_normal = _named(
    "glorot_normal",
    1.0,
    "fan_avg",
    "truncated_normal",
    _GLOROT,
    ">>> nn.initializers.glorot_normal()(random.key(0), (100, 300)).std().round(2)",
    "Array(0.07, dtype=float32)",
)
lecun_uniform = _named(
    "lecun_uniform",
    1.0,
    "fan_in",
    "uniform",
    _LECUN,
    ">>> nn.initializers.lecun_uniform()(random.key(0), (300, 100)).max().round(2)",
    "Array(0.1, dtype=float32)",
)
lecun_normal = _named(
    "lecun_normal",
    1.0,
    "fan_in",
    "truncated_normal",
    _LECUN,
    ">>> nn.initializers.lecun_normal()(random.key(0), (100, 100)).std().round(2)",
    "Array(0.1, dtype=float32)",
)
he_uniform = _named(
    "he_uniform",
    2.0,
    "fan_in",
    "uniform",
    _HE,
    ">>> nn.initializers.he_uniform()(random.key(0), (600, 100)).max().round(2)",
    "Array(0.1, dtype=float32)",
)
he_normal = _named(
    "he_normal",
    2.0,
    "fan_in",
    "truncated_normal",
    _HE,
    ">>> nn.initializers.he_normal()(random.key(0), (200, 100)).std().round(2)",
    "Array(0.1, dtype=float32)",
)
xavier_uniform, xavier_normal = glorot_uniform, glorot_normal
kaiming_uniform, kaiming_normal = he_uniform, he_normal


def orthogonal(
    scale: ArrayLike = 1.0, column_axis: int = -1, dtype: DTypeLike | None = None
) -> Initializer:
    """Return the initializer of matrices with orthonormal columns, or rows if there are fewer rows.

    Raises: ValueError when called with a shape of fewer than two axes.
    Example:
        >>> q = nn.initializers.orthogonal()(random.key(0), (3, 2))
        >>> jnp.allclose(q.T @ q, jnp.eye(2), atol=1e-5)
        Array(True, dtype=bool)
    """

    def draw(key: Any, shape: Any, dtype: Any) -> Any:
        if len(shape) < 2:
            raise _refused(
                f"orthogonal of shape {shape}",
                "orthogonal initializer requires at least a 2D shape",
                "use another initializer for vectors, such as zeros",
            )
        if 0 in shape:
            return filled_with_zeros(shape, dtype)
        columns = shape[column_axis]
        rows = math.prod(shape) // columns
        drawn = random.orthogonal(key, rows, (), dtype, columns)
        others = list(shape)
        del others[column_axis]
        return array(scale, dtype) * moveaxis(reshape(drawn, (*others, columns)), -1, column_axis)

    return _initializer(draw, dtype)


def delta_orthogonal(
    scale: ArrayLike = 1.0, column_axis: int = -1, dtype: DTypeLike | None = None
) -> Initializer:
    """Return the initializer of orthogonal convolutions: zero except for the central tap.

    Source: Xiao et al. 2018.
    Raises: ValueError when called with a shape of other than 3 to 5 axes, or with fewer outputs
        than inputs.
    Example:
        >>> kernel = nn.initializers.delta_orthogonal()(random.key(0), (3, 2, 2))
        >>> jnp.abs(kernel).sum(axis=(1, 2)) > 0
        Array([False,  True, False], dtype=bool)
    """

    def draw(key: Any, shape: Any, dtype: Any) -> Any:
        if len(shape) not in (3, 4, 5):
            raise _refused(
                f"delta_orthogonal of shape {shape}",
                "Delta orthogonal initializer requires a 3D, 4D or 5D shape.",
                "give the shape (*window, inputs, outputs)",
            )
        if shape[-1] < shape[-2]:
            raise _refused(
                f"delta_orthogonal of shape {shape}",
                "`fan_in` must be less or equal than `fan_out`.",
                "give at least as many outputs as inputs",
            )
        tap = orthogonal(scale, column_axis, dtype)(key, shape[-2:])
        center = tuple((size - 1) // 2 for size in shape[:-2])
        return filled_with_zeros(shape, dtype).at[center].set(tap)

    return _initializer(draw, dtype)


_suggest_names(globals())
