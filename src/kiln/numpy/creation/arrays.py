"""Python and NumPy data -> arrays.

A Python scalar becomes a weakly typed array; anything with an explicit dtype, and every list, is
strongly typed. Data from a caller's buffer is always copied, since arrays are immutable.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.lazy import dlpack
from kiln.base.options.config import options
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike, DTypeLike
from kiln.core.arrays.array import ConcreteArray, copied, from_host, host_value, numbers_of
from kiln.core.concretization import dependence, refuse
from kiln.core.ref import Ref, not_an_array
from kiln.core.trace import Tracer, aval_of, is_typed, require_unmasked
from kiln.ir.sizes.size import Dim, Size
from kiln.ir.types import ShapedArray
from kiln.numpy.promotion import literal, operands, shape_of
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.elements.edge_semantics import convert
from kiln.ops.indexing import static_slicing
from kiln.ops.out_sharding import on_device_or_sharded
from kiln.ops.shape import broadcast_in_dim, expand_dims
from kiln.ops.sharding import put, put_by_default


def array(
    object: Any,
    dtype: DTypeLike | None = None,
    copy: bool = True,
    order: str | None = "K",
    ndmin: int = 0,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Make an array from a scalar, a nested sequence, or anything NumPy can read.

    Python scalars become weakly typed unless `dtype` is given; data is always copied. `ndmin` adds
    leading axes of size 1 up to that number of axes; `device` or `out_sharding` says where the
    array is put. `order` has no effect.

    Raises: TypeError for a non-numeric object; OverflowError for an int the dtype cannot hold.
    Source: numpy.array.
    Example:
        >>> jnp.array([[1, 2], [3, 4]])
        Array([[1, 2],
               [3, 4]], dtype=int32)
        >>> jnp.array([1, 2.5]), jnp.array(range(3), jnp.float16)
        (Array([1. , 2.5], dtype=float32), Array([0., 1., 2.], dtype=float16))
    """
    if order not in ("K", "C", "A", None):
        raise NotImplementedError(
            three_lines(
                f"array(..., order={order!r}) at {current_source()}",
                "only order='K' and order='C' are supported: arrays have no memory order",
                "leave order out",
            )
        )
    wanted = None if dtype is None else dtypes.check_user_dtype(dtype, "array")
    out = _array(object, wanted)
    if copy and out is object and isinstance(out, ConcreteArray):
        out = copied(out)
    if device is None and out_sharding is None and options().default_mesh is not None:
        out = put_by_default(out)
    missing = ndmin - len(out.shape)
    return on_device_or_sharded(
        expand_dims(out, range(missing)) if missing > 0 else out, device, out_sharding, "jnp.array"
    )


def asarray(
    a: Any,
    dtype: DTypeLike | None = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Make an array, as `array` does; an array of the right dtype is returned unchanged.

    `copy=True` copies always, and `copy=False` refuses what would need a copy. `device` or
    `out_sharding` says where the array is put; `order` has no effect.

    Raises: ValueError with `copy=False` for the data of another object.
    Example:
        >>> jnp.asarray(np.arange(3), jnp.float32)
        Array([0., 1., 2.], dtype=float32)
        >>> x = jnp.arange(3)
        >>> jnp.asarray(x) is x
        True
    """
    if dtype is None and is_typed(a) and not copy and type(a) is not Ref:
        return on_device_or_sharded(a, device, out_sharding, "jnp.asarray")
    if copy is False and isinstance(a, (np.ndarray, bytes, bytearray, memoryview)):
        raise ValueError(
            three_lines(
                f"asarray({type(a).__name__}, copy=False) at {current_source()}",
                "the data of another object cannot be used without a copy",
                "leave copy=False out",
            )
        )
    return on_device_or_sharded(
        array(a, dtype, bool(copy), order), device, out_sharding, "jnp.asarray"
    )


def ascontiguousarray(a: Any, dtype: DTypeLike | None = None) -> Array:
    """Make an array with at least one axis.

    Arrays have no strides that a program could see: this converts, and nothing else.

    Example:
        >>> jnp.ascontiguousarray(3.0).shape
        (1,)
    """
    return array(a, dtype, False, ndmin=1)


def copy(a: ArrayLike, order: str | None = None) -> Array:
    """Copy an array to new memory.

    Arrays do not change, so that a copy is rarely needed: before `donate_argnums`, for example.

    Example:
        >>> jnp.copy(jnp.arange(3))
        Array([0, 1, 2], dtype=int32)
    """
    operands("copy", a)
    return array(a)


def _array(x: Any, dtype: Any) -> Any:
    if type(x) is Ref:
        raise not_an_array("array", x)
    if is_typed(x):
        return x if dtype is None else cast(x, dtype)
    if dtypes.is_python_scalar(x):
        return _scalar_array(x, dtype)
    if isinstance(x, (np.ndarray, np.generic)):
        return _from_numpy(x, dtype)
    if x is None:
        raise _none()
    if hasattr(x, "__jax_array__"):
        return _array(x.__jax_array__(), dtype)
    if isinstance(x, (list, tuple)):
        return _from_sequence(x, dtype)
    if isinstance(x, (str, bytes)) or not _readable(x):
        raise not_numeric(x, np.asarray(x).dtype)
    return _from_numpy(np.asarray(x), dtype)


def _readable(x: Any) -> bool:
    if hasattr(x, "__array__") or hasattr(x, "__array_interface__"):
        return True
    try:
        memoryview(x)
    except TypeError:
        return isinstance(x, range) or hasattr(x, "__dlpack__")
    return True


def _scalar_array(x: Any, dtype: Any) -> Any:
    if dtype is None:
        found, weak = dtypes.scalar_dtype(x)
        value = dtypes.coerce_python_scalar(x, found)
        return from_host(np.asarray(value), ShapedArray((), found, weak))
    if isinstance(x, complex) and dtype.kind != "c":
        x = x.real
    if isinstance(x, float) and dtypes.issubdtype(dtype, np.integer):
        return from_host(np.asarray(convert(np.asarray(x), dtype)))
    return from_host(np.asarray(dtypes.coerce_python_scalar(x, dtype)))


def _from_numpy(x: Any, dtype: Any) -> Any:
    require_unmasked(x)
    value = np.asarray(x)
    if not dtypes.is_supported(value.dtype):
        raise not_numeric(x, value.dtype)
    wanted = dtype or dtypes.canonicalize_dtype(value.dtype)
    if dtypes.is_extended(wanted):
        return cast(_from_numpy(x, None), wanted)
    if value.dtype != wanted and dtype is not None:
        value = convert(value, wanted)
    return from_host(np.array(value, wanted, order="C"))


def _none() -> ValueError:
    return ValueError(
        three_lines(
            f"array(None) at {current_source()}",
            "None is not a valid value for jnp.array",
            "leave the entry out, or write nan for a missing number",
        )
    )


def not_numeric(x: Any, dtype: Any) -> TypeError:
    """Build the error for non-numeric data."""
    return TypeError(
        three_lines(
            f"array({x!r:.60}) at {current_source()}",
            f"Value {x!r:.60} with dtype {dtype} is not a valid JAX array type. "
            "Only arrays of numeric types are supported by JAX.",
            "keep strings and objects in Python; make arrays of numbers only",
        )
    )


def _from_sequence(x: Any, dtype: Any) -> Any:
    leaves = list(_leaves(x))
    for leaf in leaves:
        if leaf is None:
            raise _none()
        require_unmasked(leaf)
        if isinstance(leaf, (str, bytes)):
            raise not_numeric(leaf, np.asarray(leaf).dtype)
    if dtype is None:
        dtype = _common_dtype(leaves)
    if dtypes.is_extended(dtype) or any(isinstance(leaf, (Tracer, Size)) for leaf in leaves):
        return _stacked(x, dtype)
    if any(isinstance(leaf, ConcreteArray) for leaf in leaves):
        if any(leaf.shape for leaf in leaves if isinstance(leaf, ConcreteArray)):
            return _stacked(x, dtype)
        x = _on_host(x)
    if any(isinstance(leaf, (float, np.floating)) for leaf in leaves) and dtypes.issubdtype(
        dtype, np.integer
    ):
        return from_host(np.asarray(convert(np.array(x), dtype)))
    try:
        value = np.array(x, dtype)
    except TypeError:
        raise not_numeric(x, np.asarray(x, object).dtype) from None
    return from_host(value)


def _leaves(x: Any) -> Iterable[Any]:
    for item in x:
        if isinstance(item, (list, tuple)):
            yield from _leaves(item)
        else:
            yield item


def _common_dtype(leaves: Sequence[Any]) -> Any:
    if not leaves:
        return dtypes.default_float_dtype()
    one_of_each: dict[Any, Any] = {}
    for leaf in leaves:
        aval = leaf.aval if is_typed(leaf) else None
        if aval is not None:
            one_of_each[aval.dtype, aval.weak_type] = leaf
        elif isinstance(leaf, (np.ndarray, np.generic)):
            if not dtypes.is_supported(leaf.dtype):
                raise not_numeric(leaf, leaf.dtype)
            one_of_each[leaf.dtype, False] = leaf
        elif isinstance(leaf, (bool, int, float, complex)):
            one_of_each[type(leaf)] = leaf
        elif hasattr(leaf, "__array__") or hasattr(leaf, "__jax_array__"):
            made = _array(leaf, None)
            one_of_each[made.dtype, False] = made
        else:
            raise not_numeric(leaf, np.dtype(object))
    return dtypes.lattice_result_type(*one_of_each.values())[0]


def _on_host(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return [_on_host(item) for item in x]
    return host_value(x) if isinstance(x, ConcreteArray) else x


def _stacked(x: Any, dtype: Any) -> Any:
    items = [
        _stacked(item, dtype) if isinstance(item, (list, tuple)) else _array(item, dtype)
        for item in x
    ]
    if not items:
        return broadcast_in_dim(literal(0, dtype, False), (0,), ())
    first = shape_of(items[0])
    for item in items:
        if shape_of(item) != first:
            raise TypeError(
                three_lines(
                    f"array of items of types {', '.join(str(aval_of(i)) for i in items)} "
                    f"at {current_source()}",
                    "Cannot concatenate arrays with different numbers of dimensions, or shapes: "
                    f"got {', '.join(str(shape_of(i)) for i in items)}.",
                    "broadcast the items to one shape first",
                )
            )
    return static_slicing.concatenate([expand_dims(item, (0,)) for item in items], 0)


def cast(x: Any, dtype: Any) -> Any:
    """Convert an array to a dtype and make it strongly typed."""
    return convert_element_type(x, dtype, False)


def frombuffer(buffer: Any, dtype: DTypeLike = float, count: int = -1, offset: int = 0) -> Array:
    """Make an array from raw bytes.

    Example:
        >>> jnp.frombuffer(b"\\x01\\x00\\x02\\x00", dtype=jnp.int16)
        Array([1, 2], dtype=int16)
    """
    return asarray(np.frombuffer(buffer, dtype, count, offset))


def fromiter(iterable: Iterable[Any], dtype: DTypeLike, count: int = -1) -> Array:
    """Make an array from the numbers of an iterable.

    Example:
        >>> jnp.fromiter((n * n for n in range(4)), dtype=int)
        Array([0, 1, 4, 9], dtype=int32)
    """
    return asarray(np.fromiter(iterable, dtype, count))


def fromstring(string: str, dtype: DTypeLike = float, count: int = -1, *, sep: str) -> Array:
    """Make an array from the numbers in a string.

    Example:
        >>> jnp.fromstring("1.5 2.5", sep=" ")
        Array([1.5, 2.5], dtype=float32)
    """
    return asarray(np.fromstring(string, dtype, count, sep=sep))


def fromfile(*args: Any, **kwargs: Any) -> Any:
    """Make an array from the numbers in a file, as `numpy.fromfile` does.

    For files that kiln wrote, `kiln.numpy.load` is simpler.

    Example:
        >>> import tempfile
        >>> with tempfile.NamedTemporaryFile() as file:
        ...     _ = file.write(b"\\x01\\x02")
        ...     file.flush()
        ...     print(jnp.fromfile(file.name, dtype=jnp.uint8))
        [1 2]
    """
    return asarray(np.fromfile(*args, **kwargs))


def from_dlpack(x: ArrayLike, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """Make an array from another library's array, through DLPack.

    The memory is shared if it is row-major and of an enabled dtype: do not write to it afterwards.
    With `copy=True` it is never shared.

    Raises: TypeError for an object without `__dlpack__`; BufferError for memory the host cannot
        read; ValueError with `copy=False` if a copy is needed.
    Example:
        >>> jnp.from_dlpack(np.arange(3, dtype=np.float32))
        Array([0., 1., 2.], dtype=float32)
    """
    if is_typed(x) and not dtypes.is_extended(x.aval.dtype):
        return put(array(x) if copy else x, device)
    value, is_copy = dlpack.host_view(x, copy)
    shared = value.flags.c_contiguous and dtypes.canonicalize_dtype(value.dtype) == value.dtype
    if copy is False and not shared:
        raise ValueError(
            three_lines(
                f"from_dlpack({value.dtype}{list(value.shape)}, copy=False) at {current_source()}",
                "memory is shared if it is row-major and its dtype is in use"
                f"; this has strides {value.strides} and dtype {value.dtype}",
                "leave copy=False out, or enable x64 for 64-bit numbers",
            )
        )
    if not shared or (copy and not is_copy):
        return put(array(value), device)
    return put(from_host(value, is_sent=False), device)


def canonical_shape(name: str, shape: Any) -> tuple[Dim, ...]:
    """Return a shape, given as a number or a sequence, as a tuple.

    Raises: TypeError for sizes that are traced, negative, or not integers.
    """
    if is_typed(shape):
        given = shape.tolist() if shape.ndim == 1 and not isinstance(shape, Tracer) else (shape,)
    else:
        given = shape if not _is_size(shape) and _is_sequence(shape) else (shape,)
    return tuple([_size(name, shape, dim) for dim in given])


def _is_sequence(x: Any) -> bool:
    """Tell whether something has a length and items, as NumPy asks of a sequence."""
    return isinstance(x, (tuple, list)) or (
        hasattr(type(x), "__len__")
        and hasattr(type(x), "__getitem__")
        and not isinstance(x, (str, bytes, Mapping))
    )


def _is_size(x: Any) -> bool:
    return isinstance(x, (int, Size, np.integer)) or (isinstance(x, np.ndarray) and not x.ndim)


def _size(name: str, shape: Any, dim: Any) -> Dim:
    if type(dim) is Size:
        return dim
    if isinstance(dim, Tracer) and dim.concrete() is None:
        raise _bad_shape(name, shape)
    try:
        found = operator.index(dim)
    except TypeError:
        raise _bad_shape(name, shape) from None
    if found < 0:
        raise TypeError(
            three_lines(
                f"{name}(shape={shape!r:.60}) at {current_source()}",
                f"{name}: shape must have every element be nonnegative, got {shape!r:.60}",
                "use sizes that are 0 or more",
            )
        )
    return found


def _bad_shape(name: str, shape: Any) -> TypeError:
    shown = shape if isinstance(shape, (tuple, list)) else (shape,)
    traced = [dim for dim in shown if isinstance(dim, Tracer) and dim.concrete() is None]
    where, static = dependence(traced[0]) if traced else ("", "static_argnames=...")
    return TypeError(
        three_lines(
            f"{name}: a shape was given as {shown!r:.200} at {current_source()}"
            f"{where and ', '}{where}",
            "Shapes must be 1D sequences of concrete values of integer type, got "
            f"{shown!r:.200}. Each shape is part of the program, so it cannot be a traced value.",
            "use a Python int; mark an argument that shapes depend on as static: "
            f"jit(..., {static})",
        )
    )


def concrete_number(name: str, what: str, x: Any) -> Any:
    """Return the value of an argument that must be known while tracing.

    Raises: ConcretizationTypeError naming the function and the argument.
    """
    if isinstance(x, Tracer):
        value = x.concrete()
        if value is None:
            refuse(
                x,
                name,
                f"the size of the result of {name} depends on `{what}`, so `{what}` must be a "
                "number: mark the argument it comes from as static: jit(..., static_argnames=...)",
            )
        x = value
    return numbers_of(x, name)[()] if isinstance(x, ConcreteArray) else x
