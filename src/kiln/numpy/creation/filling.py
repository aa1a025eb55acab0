"""Arrays filled with one value, or with the coordinates of their elements.

`full`, `zeros`, `ones` and `empty` take a shape; the functions `*_like` take the shape, the dtype
and the device of another array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.options.config import options
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike, DTypeLike, HasShape, ShapeLike
from kiln.core.trace import aval_of, is_typed
from kiln.execution.eager_plans import eager
from kiln.ir.shardings.mesh import Mesh
from kiln.ir.shardings.sharding import Sharding
from kiln.ir.sizes.size import Dim
from kiln.ir.types import ShapedArray
from kiln.numpy.creation.arrays import asarray, canonical_shape
from kiln.numpy.promotion import broadcast_shapes, broadcast_to, literal, operands
from kiln.ops.counting import iota
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.elements.edge_semantics import convert
from kiln.ops.indexing import static_slicing
from kiln.ops.out_sharding import on_device_or_sharded
from kiln.ops.random.random_bits import random_wrap
from kiln.ops.shape import broadcast_in_dim, expand_dims, reshape
from kiln.ops.sharding import put, put_like


@eager
def full(
    shape: ShapeLike,
    fill_value: ArrayLike | Sequence[Any],
    dtype: DTypeLike | None = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return an array filled with a value.

    `device` or `out_sharding` says where the array is put: a device, or a sharding.

    Example:
        >>> jnp.full((2, 2), 7)
        Array([[7, 7],
               [7, 7]], dtype=int32, weak_type=True)
        >>> jnp.full(3, jnp.array([1.0, 2.0, 3.0]))
        Array([1., 2., 3.], dtype=float32)
    """
    wanted = None if dtype is None else dtypes.check_user_dtype(dtype, "full")
    found = canonical_shape("full", shape)
    of_keys = _is_of_keys(wanted) or _is_of_keys(getattr(fill_value, "dtype", None))
    made = _keys(found, fill_value, wanted) if of_keys else _full(found, fill_value, wanted, False)
    return on_device_or_sharded(made, device, out_sharding, "jnp.full")


def _full(shape: tuple[Dim, ...], value: Any, dtype: Any, weak: bool) -> Any:
    if dtypes.is_python_scalar(value) or isinstance(value, np.generic):
        if dtype is None:
            found, weak = dtypes.scalar_dtype(value)
            value = literal(value, found, weak)
        elif isinstance(value, (float, np.floating)) and dtypes.issubdtype(dtype, np.integer):
            value = convert(np.asarray(value), dtype)[()]
            value = literal(value, dtype, weak)
        else:
            value = literal(value, dtype, weak)
        return broadcast_in_dim(value, shape, ())
    value = asarray(value)
    if dtype is not None:
        value = convert_element_type(value, dtype, weak)
    if value.shape == shape:
        return value
    if broadcast_shapes("full", value.shape, shape) != shape:
        wrong = f"full: cannot broadcast {value.shape} to {shape}"
        raise ValueError(three_lines(f"full at {current_source()}", wrong, "give fewer axes"))
    return broadcast_to(value, shape)


@eager
def zeros(
    shape: ShapeLike,
    dtype: DTypeLike | None = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return an array of zeros.

    `device` or `out_sharding` says where the array is put: a device, or a sharding.

    Example:
        >>> jnp.zeros((2, 2), jnp.int32)
        Array([[0, 0],
               [0, 0]], dtype=int32)
        >>> jnp.zeros(3)
        Array([0., 0., 0.], dtype=float32)
    """
    return on_device_or_sharded(
        _constant("zeros", shape, 0, dtype), device, out_sharding, "jnp.zeros"
    )


@eager
def ones(
    shape: ShapeLike,
    dtype: DTypeLike | None = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return an array of ones.

    `device` or `out_sharding` says where the array is put: a device, or a sharding.

    Example:
        >>> jnp.ones(3)
        Array([1., 1., 1.], dtype=float32)
        >>> jnp.ones((2, 3), jnp.int32)
        Array([[1, 1, 1],
               [1, 1, 1]], dtype=int32)
    """
    return on_device_or_sharded(
        _constant("ones", shape, 1, dtype), device, out_sharding, "jnp.ones"
    )


def empty(
    shape: ShapeLike,
    dtype: DTypeLike | None = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return an array of zeros: arrays are never uninitialized.

    `device` or `out_sharding` says where the array is put: a device, or a sharding.

    Example:
        >>> jnp.empty(3)
        Array([0., 0., 0.], dtype=float32)
    """
    return on_device_or_sharded(
        _constant("empty", shape, 0, dtype), device, out_sharding, "jnp.empty"
    )


def _constant(name: str, shape: Any, value: int, dtype: Any) -> Any:
    if isinstance(shape, int) and isinstance(dtype, int) and not isinstance(dtype, bool):
        raise TypeError(
            three_lines(
                f"{name}({shape}, {dtype}) at {current_source()}",
                f"{dtype} is not a dtype. Did you accidentally write `jax.numpy.{name}({shape}, "
                f"{dtype})` when you meant `jax.numpy.{name}(({shape}, {dtype}))`?",
                "give the shape as one tuple",
            )
        )
    found = canonical_shape(name, shape)
    wanted = dtypes.default_float_dtype() if dtype is None else dtypes.check_user_dtype(dtype, name)
    if _is_of_keys(wanted):
        return _keys(found, value, wanted)
    if wanted == dtypes.float0 and not value:
        # What stands for the tangents of integers is not an array of a program.
        return np.zeros(found, dtypes.float0)
    return _full(found, value, wanted, False)


@eager
def full_like(
    a: ArrayLike | HasShape,
    fill_value: ArrayLike | Sequence[Any],
    dtype: DTypeLike | None = None,
    shape: ShapeLike | None = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return an array with the shape and dtype of `a`, filled with a value.

    If `a` is committed to a device or sharding and the value is a scalar, so is the result.

    Example:
        >>> jnp.full_like(jnp.array([1, 2]), 7)
        Array([7, 7], dtype=int32)
    """
    return on_device_or_sharded(
        _like("full_like", a, fill_value, dtype, shape), device, out_sharding, "jnp.full_like"
    )


@eager
def zeros_like(
    a: ArrayLike | HasShape,
    dtype: DTypeLike | None = None,
    shape: ShapeLike | None = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return zeros with the shape, dtype and device of `a`.

    Example:
        >>> jnp.zeros_like(jnp.array([1, 2, 3]))
        Array([0, 0, 0], dtype=int32)
        >>> jnp.zeros_like(jnp.array([1, 2, 3]), dtype=float, shape=2)
        Array([0., 0.], dtype=float32)
    """
    return on_device_or_sharded(
        _like("zeros_like", a, 0, dtype, shape), device, out_sharding, "jnp.zeros_like"
    )


@eager
def ones_like(
    a: ArrayLike | HasShape,
    dtype: DTypeLike | None = None,
    shape: ShapeLike | None = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return ones with the shape, dtype and device of `a`.

    Example:
        >>> jnp.ones_like(jnp.array([0.5, 2.0]))
        Array([1., 1.], dtype=float32)
        >>> jnp.ones_like(jnp.array([0.5, 2.0]), dtype=bool)
        Array([ True,  True], dtype=bool)
    """
    return on_device_or_sharded(
        _like("ones_like", a, 1, dtype, shape), device, out_sharding, "jnp.ones_like"
    )


def empty_like(
    a: ArrayLike | HasShape,
    dtype: DTypeLike | None = None,
    shape: ShapeLike | None = None,
    *,
    device: Any = None,
) -> Array:
    """Return zeros with the shape, dtype and device of `a`.

    Example:
        >>> jnp.empty_like(jnp.array([1, 2]))
        Array([0, 0], dtype=int32)
    """
    return put(_like("empty_like", a, 0, dtype, shape), device)


def _like(name: str, a: Any, value: Any, dtype: Any, shape: Any) -> Any:
    place = None
    if hasattr(a, "shape") and hasattr(a, "dtype") and not is_typed(a):
        # A description of an array, such as ShapeDtypeStruct, serves as well.
        aval = ShapedArray(
            tuple(a.shape), dtypes.canonicalize_dtype(a.dtype), bool(getattr(a, "weak_type", False))
        )
        place = _place_described(a, aval.shape if shape is None else canonical_shape(name, shape))
    else:
        aval = aval_of(*operands(name, a))
    wanted = aval.dtype if dtype is None else dtypes.check_user_dtype(dtype, name)
    found = aval.shape if shape is None else canonical_shape(name, shape)
    if _is_of_keys(wanted):
        return _keys(found, value, wanted)
    made = _full(found, value, wanted, aval.weak_type and dtype is None)
    if np.ndim(value):
        return made
    return put_like(made, a) if is_typed(a) or place is None else put(made, place)


def _place_described(a: Any, shape: tuple[Dim, ...]) -> Sharding | None:
    """Return the sharding that a description of an array has, if an array of a shape can."""
    place = getattr(a, "sharding", None)
    if not isinstance(place, Sharding) or tuple(a.shape) != shape:
        return None
    return place if place.devices or isinstance(options().mesh, Mesh) else None


def _is_of_keys(dtype: Any) -> bool:
    return type(dtype) is dtypes.KeyDtype


def _keys(shape: tuple[Dim, ...], value: Any, dtype: Any) -> Any:
    """Return copies of a key, or keys of a dtype whose words are all one number."""
    if _is_of_keys(getattr(value, "dtype", None)):
        return broadcast_to(value, shape)
    words = _full((*shape, dtype.words), value, np.dtype(np.uint32), False)
    return random_wrap(words, dtype)


def indices(dimensions: Any, dtype: DTypeLike | None = None, sparse: bool = False) -> Any:
    """Return the coordinates of all elements of an array of shape `dimensions`.

    With `sparse` the result is a tuple of arrays with size 1 along the other axes.

    Example:
        >>> rows, columns = jnp.indices((2, 3))
        >>> rows + 10 * columns
        Array([[ 0, 10, 20],
               [ 1, 11, 21]], dtype=int32)
    """
    wanted = (
        dtypes.default_int_dtype() if dtype is None else dtypes.check_user_dtype(dtype, "indices")
    )
    shape = canonical_shape("indices", dimensions)
    found = []
    for axis, size in enumerate(shape):
        count = iota(wanted, size)
        view: list[Dim] = [1] * len(shape)
        view[axis] = size
        found.append(reshape(count, view) if sparse else broadcast_in_dim(count, shape, (axis,)))
    if sparse:
        return tuple(found)
    if not found:
        return full((0,), 0, wanted)
    return static_slicing.concatenate([expand_dims(x, (0,)) for x in found], 0)


def fromfunction(
    function: Callable[..., Any], shape: ShapeLike, *, dtype: DTypeLike = float, **kwargs: Any
) -> Array:
    """Apply a function to the coordinates of all elements of an array of `shape`.

    The function is mapped over the coordinates; NumPy's is called once, with arrays of them.

    Example:
        >>> jnp.fromfunction(lambda i, j: 10 * i + j, (2, 3), dtype=int)
        Array([[ 0,  1,  2],
               [10, 11, 12]], dtype=int32)
    """
    return function(*indices(shape, dtype=dtype), **kwargs)
