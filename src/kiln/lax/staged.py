"""Functions chosen or named when a program is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.api.jit import jit
from kiln.api.platforms import platforms_of_program
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.control.branches import switch
from kiln.core.array_type import Array
from kiln.core.trace import axis_size_of
from kiln.ir.sizes.size import Dim, Size
from kiln.numpy.indexing.selection import where
from kiln.ops.collective import axis_index, psum
from kiln.ops.indexing.slicing import concatenate
from kiln.ops.platform import platform_index
from kiln.ops.shape import reshape
from kiln.ops.size_value import as_index


def platform_dependent(
    *args: Any, default: Callable[..., Any] | None = None, **per_platform: Callable[..., Any]
) -> Any:
    """Call the function for the platform of the default device, or `default`.

    In a function that is exported for other platforms, it is that for the platform of the call.

    Raises: NotImplementedError if there is neither.
    Example:
        >>> lax.platform_dependent(1, cpu=lambda x: x + 1, default=lambda x: x)
        2
    """
    platforms = platforms_of_program()
    chosen: list[Callable[..., Any]] = []
    for here in platforms:
        function = per_platform.get(here, default)
        if function is None:
            raise NotImplementedError(
                three_lines(
                    f"platform_dependent for {', '.join(sorted(per_platform))} at "
                    f"{current_source()}",
                    f"there is no function for the platform {here}, and no default",
                    f"give default=..., or {here}=...",
                )
            )
        chosen.append(function)
    if len({*map(id, chosen)}) == 1:
        return chosen[0](*args)
    return switch(platform_index(platforms), chosen, *args)


def composite(decomposition: Callable[..., Any], name: str, version: int = 0) -> Callable[..., Any]:
    """Return a function that is one call in programs, with the meaning of `decomposition`.

    Keyword arguments are attributes: known values, part of the call's key. Programs name the call
    `name`.

    Example:
        >>> double = lax.composite(lambda x: x + x, "my.double")
        >>> kiln.make_jaxpr(double)(1.0).eqns[0].primitive.name
        'jit'
    """

    def composed(*args: Any, **attributes: Any) -> Any:
        def call(*operands: Any) -> Any:
            return decomposition(*operands, **attributes)

        call.__name__ = call.__qualname__ = name
        return jit(call)(*args)

    composed.__name__ = composed.__qualname__ = name
    composed.__doc__ = decomposition.__doc__
    return composed


def pbroadcast(x: Any, axis_name: Any, source: int) -> Array:
    """Return, on each member of a mapped axis, the value that the member `source` has.

    Raises: NameError if there is no mapped axis `axis_name`.
    Example:
        >>> kiln.vmap(lambda x: lax.pbroadcast(x, "i", 1), axis_name="i")(jnp.array([3, 5, 7]))
        Array([5, 5, 5], dtype=int32)
    """
    axis_size_of(axis_name)
    found = psum(where(axis_index(axis_name) == source, x, np.zeros((), np.int8)), axis_name)
    return found.astype(x.dtype) if hasattr(x, "dtype") else found


def shape_as_value(shape: Sequence[Dim]) -> Any:
    """Return a shape as an array of ints; named sizes have their values when the program runs.

    Example:
        >>> lax.shape_as_value((2, 3))
        array([2, 3], dtype=int32)
    """
    if not any(isinstance(size, Size) for size in shape):
        return np.asarray(tuple(shape), dtype=np.int32)
    return concatenate([reshape(as_index(size), (1,)) for size in shape], 0)
