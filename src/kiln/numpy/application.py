"""Applying user functions along axes, or element by element."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kiln.api.mapping.vmap import vmap
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import ArrayLike
from kiln.ir.sizes.size import Dim
from kiln.numpy.creation.arrays import asarray
from kiln.numpy.promotion import broadcast_shapes, one
from kiln.numpy.shapes import canonical_axes, moveaxis
from kiln.numpy.ufunc import ufunc
from kiln.ops.shape import canonical_axis, expand_dims, squeeze


def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: ArrayLike, *args: Any, **kwargs: Any
) -> Any:
    """Apply a function of a vector to all vectors along an axis.

    The function is mapped by `vmap`, not called in a loop: it has to be traceable. `func1d` is
    called with a vector of `arr`, and the further arguments.

    Example:
        >>> jnp.apply_along_axis(lambda row: row - row.min(), 1, jnp.array([[3, 5], [7, 4]]))
        Array([[0, 2],
               [3, 0]], dtype=int32)
    """
    arr = one("apply_along_axis", arr)
    rank = len(arr.shape)
    axis = canonical_axis("apply_along_axis", axis, rank)

    def fun(vector: Any) -> Any:
        return func1d(vector, *args, **kwargs)

    for _ in range(rank - 1):
        fun = vmap(fun)
    out = fun(moveaxis(arr, axis, -1))
    core = len(out.shape) - (rank - 1)
    return moveaxis(out, tuple(range(rank - 1, rank - 1 + core)), tuple(range(axis, axis + core)))


def apply_over_axes(func: Callable[[Any, int], Any], a: ArrayLike, axes: Any) -> Any:
    """Apply a reduction over axes, one after another, keeping them with size 1.

    Example:
        >>> jnp.apply_over_axes(jnp.sum, jnp.ones((2, 3, 4)), (0, 2)).shape
        (1, 3, 1)
    """
    a = one("apply_over_axes", a)
    for axis in canonical_axes("apply_over_axes", axes, len(a.shape)):
        found = func(a, axis)
        if len(found.shape) == len(a.shape) - 1:
            found = expand_dims(found, (axis,))
        if len(found.shape) != len(a.shape):
            raise ValueError(
                three_lines(
                    f"apply_over_axes(..., axis {axis}) at {current_source()}",
                    "function is not returning an array of the correct shape",
                    "return the reduced array, with or without its axis",
                )
            )
        a = found
    return a


_DIMS = r"\(\s*(?:[\w-]+\s*(?:,\s*[\w-]+\s*)*,?\s*)?\)"
_SIGNATURE = rf"^\s*{_DIMS}(?:\s*,\s*{_DIMS})*\s*->\s*{_DIMS}(?:\s*,\s*{_DIMS})*\s*$"
Core = list[tuple[str, ...]]


def _parsed(signature: str) -> tuple[Core, Core]:
    if not re.match(_SIGNATURE, signature):
        raise ValueError(
            three_lines(
                f"vectorize(..., signature={signature!r}) at {current_source()}",
                f"not a valid gufunc signature: {signature}",
                "write a signature such as '(m,n),(n)->(m)'",
            )
        )
    sides = signature.split("->")
    first, second = (
        [
            tuple(name.strip() for name in dims.strip("()").split(",") if name.strip())
            for dims in re.findall(_DIMS, side)
        ]
        for side in sides
    )
    return first, second


def vectorize(
    pyfunc: Callable[..., Any],
    *,
    excluded: Iterable[Any] = frozenset(),
    signature: str | None = None,
) -> Callable[..., Any]:
    """Turn a function of scalars, or of the arrays in `signature`, into one that broadcasts.

    `pyfunc` is traced once; `excluded` arguments, by position or name, are passed as they are.

    Source: numpy.vectorize.
    Example:
        >>> dot = jnp.vectorize(jnp.dot, signature="(n),(n)->()")
        >>> dot(jnp.ones((2, 3)), jnp.arange(3.0))
        Array([3., 3.], dtype=float32)
    """
    left_out = set(excluded)
    if any(not isinstance(x, (str, int)) for x in left_out):
        raise TypeError(
            f"vectorize(excluded={left_out}) at {current_source()}\n"
            "jax.numpy.vectorize can only exclude integer or "
            "string arguments\nname arguments by position or name"
        )
    if any(isinstance(x, int) and x < 0 for x in left_out):
        raise ValueError(
            f"vectorize(excluded={left_out}) at {current_source()}\n"
            "excluded contains negative numbers\n"
        )

    @functools.wraps(pyfunc)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        fixed = {i: x for i, x in enumerate(args) if i in left_out}
        fixed_names = {k: v for k, v in kwargs.items() if k in left_out}
        names = [k for k in kwargs if k not in left_out]
        places = [i for i in range(len(args)) if i not in fixed]
        moving = [args[i] for i in places] + [kwargs[k] for k in names]
        holes = [x is None for x in moving]

        def core(*values: Any) -> Any:
            full: list[Any] = [fixed.get(i) for i in range(len(args))]
            given = iter(values)
            rest = [None if hole else next(given) for hole in holes]
            for i, value in zip(places, rest, strict=False):
                full[i] = value
            keywords = dict(zip(names, rest[len(places) :], strict=True))
            return pyfunc(*full, **keywords, **fixed_names)

        arrays = [asarray(x) for x in moving if x is not None]
        if signature is None:
            return _mapped(core, arrays, [()] * len(arrays))
        inputs, outputs = _parsed(signature)
        if len(inputs) != len(moving):
            raise TypeError(
                three_lines(
                    f"a vectorized function with signature {signature!r} at {current_source()}",
                    f"wrong number of positional arguments: expected {len(inputs)}, "
                    f"got {len(moving)}",
                    "pass one argument per group of the signature",
                )
            )
        inputs = [dims for dims, hole in zip(inputs, holes, strict=True) if not hole]
        sizes = _core_sizes(arrays, inputs, signature)
        return _mapped(_checked(core, outputs, sizes, signature), arrays, inputs)

    return wrapped


def _core_sizes(arrays: Sequence[Any], inputs: Core, signature: str) -> dict[str, Dim]:
    sizes: dict[str, Dim] = {}
    for x, dims in zip(arrays, inputs, strict=True):
        if len(x.shape) < len(dims):
            raise ValueError(
                three_lines(
                    f"a vectorized function with signature {signature!r} at {current_source()}",
                    f"input with shape {tuple(x.shape)} does not have enough dimensions for all "
                    f"core dimensions {dims}",
                    "add axes",
                )
            )
        core = x.shape[len(x.shape) - len(dims) :]
        for name, size in zip(dims, core, strict=True):
            wanted = int(name) if name.isdigit() else sizes.setdefault(name, size)
            if size != wanted:
                raise ValueError(
                    three_lines(
                        f"a vectorized function with signature {signature!r} at {current_source()}",
                        f"inconsistent size for core dimension '{name}': {size} vs {wanted}",
                        "use arrays whose sizes agree",
                    )
                )
    return sizes


def _checked(
    core: Callable[..., Any], outputs: Core, sizes: dict[str, Dim], signature: str
) -> Callable[..., Any]:
    def run(*values: Any) -> Any:
        found = core(*values)
        several = isinstance(found, tuple)
        results = found if several else (found,)
        if len(results) != len(outputs):
            raise TypeError(
                three_lines(
                    f"a vectorized function with signature {signature!r} at {current_source()}",
                    f"wrong number of outputs from vectorized function: expected {len(outputs)}, "
                    f"got {len(results)}",
                    "return one array per group behind the arrow",
                )
            )
        for x, dims in zip(results, outputs, strict=True):
            shape = tuple(asarray(x).shape)
            fits = len(shape) == len(dims) and all(
                sizes.setdefault(name, size) == size for name, size in zip(dims, shape, strict=True)
            )
            if not fits:
                raise ValueError(
                    three_lines(
                        f"a vectorized function with signature {signature!r} at {current_source()}",
                        f"output shape {shape} does not match core dimensions {dims} with {sizes}",
                        "return arrays of the shapes in the signature",
                    )
                )
        return found

    return run


def _mapped(core: Callable[..., Any], arrays: Sequence[Any], inputs: Core) -> Any:
    loops = [x.shape[: len(x.shape) - len(dims)] for x, dims in zip(arrays, inputs, strict=True)]
    common = broadcast_shapes("vectorize", *loops)
    rank = len(common)
    # Axes of size 1 are dropped and not mapped over; the rest line up from the right.
    fun = core
    squeezed = []
    mapped: list[list[bool]] = []
    for x, loop in zip(arrays, loops, strict=True):
        lead = rank - len(loop)
        drop = [i for i, size in enumerate(loop) if size == 1 and common[lead + i] != 1]
        there = [i >= lead and (i - lead) not in drop for i in range(rank)]
        squeezed.append(squeeze(x, drop))
        mapped.append(there)
    for i in reversed(range(rank)):
        in_axes = tuple(0 if there[i] else None for there in mapped)
        fun = vmap(fun, in_axes=in_axes)
    return fun(*squeezed)


def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None) -> ufunc:
    """Make a ufunc from a function of scalars.

    NumPy's calls Python for each element and returns objects; this one traces the function once and
    computes numbers, inside `jit` too.

    Example:
        >>> clamp = jnp.frompyfunc(lambda x, top: jnp.where(x > top, top, x), nin=2, nout=1)
        >>> clamp(jnp.array([1, 5, 9]), 6)
        Array([1, 5, 6], dtype=int32)
    """
    return ufunc(func, nin, nout, identity=identity, call=vectorize(func))
