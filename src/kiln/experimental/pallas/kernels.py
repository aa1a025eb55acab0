"""Functions for use in kernels, besides reading and writing references."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from kiln import numpy as jnp
from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import api_boundary, current_source
from kiln.base.tree import tree_map
from kiln.control.branches import cond
from kiln.control.effects.printing import debug_print as _debug_print
from kiln.control.loops.loops import fori_loop
from kiln.control.references.refs import new_ref
from kiln.core.ref import Ref
from kiln.experimental.pallas.blocks import undefined
from kiln.ir.sizes.size import Size
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.elements.elementwise import div


def when(condition: Any, /) -> Callable[[Callable[[], None]], None]:
    """Return a decorator that calls a function without arguments if a condition holds.

    Example:
        >>> from kiln.experimental import pallas as pl
        >>> ref = kiln.new_ref(0)
        >>> @pl.when(ref[...] == 0)
        ... def first():
        ...     ref[...] = 7
        >>> ref
        Ref(7, dtype=int32, weak_type=True)
    """

    def decide(function: Callable[[], None]) -> None:
        if not isinstance(condition, bool):
            cond(condition, function, lambda: None)
        elif condition:
            function()

    return decide


def loop(
    lower: Any,
    upper: Any,
    *,
    init_carry: Any = None,
    step: Any = 1,
    unroll: int | bool | None = None,
) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that calls a function for lower, lower + step, ... < upper.

    With `init_carry`, the function takes and returns a carry, and its name is bound to the final
    carry.

    Raises: the errors of `lax.fori_loop`.
    Example:
        >>> from kiln.experimental import pallas as pl
        >>> @pl.loop(0, 6, step=2, init_carry=0)
        ... def total(i, so_far):
        ...     return so_far + i
        >>> int(total)
        6
    """
    known = all(isinstance(x, (int, np.integer)) for x in (lower, upper, step))
    zero: Any = 0
    if not known:
        dtype = jnp.result_type(lower, upper, step)
        lower, upper, step = (convert_element_type(x, dtype) for x in (lower, upper, step))
        zero = dtype.type(0)

    def decorate(body: Callable[..., Any]) -> Any:
        def iteration(i: Any, carry: Any) -> Any:
            at = lower + i * step
            return body(at) if init_carry is None else body(at, carry)

        return fori_loop(zero, cdiv(upper - lower, step), iteration, init_carry, unroll=unroll)

    return decorate


@api_boundary
def run_scoped(
    f: Callable[..., Any],
    *types: Any,
    collective_axes: Hashable | tuple[Hashable, ...] = (),
    **kw_types: Any,
) -> Any:
    """Call a function with references to new buffers of these types, and return its result.

    The buffers are initially undefined.

    Raises: NotImplementedError for `collective_axes`; TypeError for types without shape and dtype.
    Example:
        >>> from kiln.experimental import pallas as pl
        >>> def halves(total):
        ...     total[...] = jnp.float32(1.0)
        ...     return total[...] / 2
        >>> pl.run_scoped(halves, pl.ANY((), jnp.float32))
        Array(0.5, dtype=float32)
    """
    if collective_axes != ():
        raise NotImplementedError(
            three_lines(
                f"run_scoped(..., collective_axes={collective_axes!r}) at {current_source()}",
                "buffers are not shared among programs",
                "leave collective_axes out; use shared scratch buffers: scratch_shapes=[...]",
            )
        )
    positional = [tree_map(_buffer, each) for each in types]
    return f(*positional, **{name: tree_map(_buffer, each) for name, each in kw_types.items()})


def with_scoped(
    *types: Any, collective_axes: Hashable | tuple[Hashable, ...] = (), **kw_types: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that passes references to new buffers, after the function's arguments.

    Raises: the errors of `run_scoped`.
    """

    def decorate(f: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(f)
        def scoped(*args: Any) -> Any:
            inner = functools.partial(f, *args)
            return run_scoped(inner, *types, collective_axes=collective_axes, **kw_types)

        return scoped

    return decorate


def _buffer(kind: Any) -> Ref:
    if not (hasattr(kind, "shape") and hasattr(kind, "dtype")):
        raise TypeError(
            three_lines(
                f"a buffer of {kind!r:.60} at {current_source()}",
                "it has no shape and dtype",
                "write pl.ANY(shape, dtype)",
            )
        )
    return new_ref(undefined(kind.shape, kind.dtype))


def empty(shape: Any, dtype: Any) -> Any:
    """Return an array of undefined values: zeros."""
    return jnp.empty(shape, dtype)


def empty_like(x: Any) -> Any:
    """Return a tree of arrays of undefined values, with the shapes and dtypes of another tree."""
    return tree_map(lambda leaf: empty(leaf.shape, leaf.dtype), x)


def empty_ref_like(x: Any) -> Ref:
    """Return a new reference of a described shape and dtype.

    Raises: TypeError unless `x` has both.
    """
    return _buffer(x)


def run_state(f: Callable[..., None]) -> Callable[[Any], Any]:
    """Return a function of arrays that calls `f` with references to them, and returns their values.

    Example:
        >>> from kiln.experimental import pallas as pl
        >>> def double(ref):
        ...     ref[...] = 2 * ref[...]
        >>> pl.run_state(double)(jnp.arange(3))
        Array([0, 2, 4], dtype=int32)
    """

    @functools.wraps(f)
    def state(args: Any) -> Any:
        refs = tree_map(new_ref, args)
        f(refs)
        return tree_map(lambda ref: ref[...], refs)

    return state


def multiple_of(x: Any, values: Any) -> Any:
    """Return `x`, which must be a multiple of all `values`: a hint for other compilers."""
    return x


def cdiv(a: Any, b: Any) -> Any:
    """Return a / b, rounded up: of ints an int, of arrays an array.

    Example:
        >>> kiln.experimental.pallas.cdiv(9, 2)
        5
    """
    if all(isinstance(x, (int, Size, np.integer)) for x in (a, b)):
        return (a + b - 1) // b
    return div(*jnp.broadcast_arrays(a + (b - 1), b))


def align_to(a: Any, alignment: Any) -> Any:
    """Return the least multiple of `alignment` that is at least `a`.

    Example:
        >>> kiln.experimental.pallas.align_to(5, 4)
        8
    """
    return cdiv(a, alignment) * alignment


def next_power_of_2(x: int) -> int:
    """Return the least power of two that is at least `x`; 1 for 0.

    Raises: ValueError for negative integers.
    Example:
        >>> [kiln.experimental.pallas.next_power_of_2(n) for n in (1, 5, 8)]
        [1, 8, 8]
    """
    if x < 0:
        raise ValueError(
            three_lines(
                f"next_power_of_2({x}) at {current_source()}",
                "`next_power_of_2` requires a non-negative integer.",
                "pass a size",
            )
        )
    return 1 << max(x - 1, 0).bit_length()


def strides_from_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides, in elements, of a row-major array.

    Example:
        >>> kiln.experimental.pallas.strides_from_shape((2, 3, 4))
        (12, 4, 1)
    """
    strides = [1]
    for size in reversed(shape[1:]):
        strides.append(strides[-1] * size)
    return tuple(reversed(strides)) if shape else ()


def reciprocal(x: Any, *, approx: bool = False, full_range: bool = True) -> Any:
    """Return 1 / x; with `approx`, to the precision of a bfloat16.

    `full_range` has no effect: the full range is supported.
    """
    if approx:
        return jnp.reciprocal(x.astype(jnp.bfloat16)).astype(jnp.float32)
    return jnp.reciprocal(x)


def debug_print(fmt: str, *args: Any) -> None:
    """Print values from inside a kernel, in place of placeholders `{}` or after the text.

    `fmt` is the format string.
    """
    _debug_print(fmt, *args)


def dot(
    a: Any,
    b: Any,
    trans_a: bool = False,
    trans_b: bool = False,
    allow_tf32: bool | None = None,
    precision: Any = None,
) -> Any:
    """Return the product of two matrices, optionally transposed.

    The product is int32 for integers, and at least float32 for floats. `allow_tf32` has no effect.

    Raises: ValueError for anything but matrices.
    """
    if a.ndim != 2 or b.ndim != 2:
        raise ValueError(
            three_lines(
                f"dot of arrays of shapes {a.shape} and {b.shape} at {current_source()}",
                "`a` and `b` must be 2D arrays.",
                "use jnp.matmul for batches of matrices",
            )
        )
    joint = dtypes.promote_types(a.dtype, b.dtype)
    if dtypes.issubdtype(joint, np.integer):
        wide = np.dtype(np.int32)
    else:
        wide = dtypes.promote_types(joint, np.float32)
    left, right = a.T if trans_a else a, b.T if trans_b else b
    return jnp.matmul(left, right, precision=precision, preferred_element_type=wide)
