"""Checking the arguments of kiln.random functions: dtypes, shapes, a single key.

Also `sampler`, which turns a function of (key, *arrays, shape, dtype) into one compiled program,
and `sampled`, which calls it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kiln.api.jit import jit
from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.trace import aval_of
from kiln.ir.sizes.size import Dim
from kiln.numpy.creation.arrays import canonical_shape
from kiln.numpy.promotion import broadcast_shapes, broadcast_to, operands, shape_of
from kiln.ops.elements.conversion import convert_element_type
from kiln.random.keys import single

Shape = tuple[Dim, ...]
_WORDS: dict[Any, str] = {
    np.floating: "a float dtype",
    np.inexact: "a float or complex dtype",
    np.integer: "an int dtype",
    np.unsignedinteger: "an unsigned int dtype",
}


def sampler(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function per `shape` and `dtype`; under a trace its equations appear inline."""
    return jit(fun, static_argnames=("shape", "dtype"), inline=True)


def chosen_dtype(name: str, dtype: Any, kind: type, default: Any) -> Any:
    """Return the requested dtype, which must be of the given kind.

    Raises: ValueError naming the function for a dtype of another kind.
    """
    if dtype is None:
        return default
    found = dtypes.check_user_dtype(dtype, name)
    if not dtypes.issubdtype(found, kind):
        raise ValueError(
            three_lines(
                f"{name}(..., dtype={dtypes.long_name(found)}) at {current_source()}",
                f"dtype argument to `{name}` must be {_WORDS[kind]}, got {dtypes.long_name(found)}",
                f"leave dtype out for {dtypes.long_name(default)}",
            )
        )
    return found


def float_dtype(name: str, dtype: Any) -> Any:
    """Return the requested floating dtype, or the default one."""
    return chosen_dtype(name, dtype, np.floating, dtypes.default_float_dtype())


def inexact_dtype(name: str, dtype: Any) -> Any:
    """Return the requested floating or complex dtype, or the default one."""
    return chosen_dtype(name, dtype, np.inexact, dtypes.default_float_dtype())


def int_dtype(name: str, dtype: Any) -> Any:
    """Return the requested integer dtype, or the default one."""
    return chosen_dtype(name, dtype, np.integer, dtypes.default_int_dtype())


def sample_shape(name: str, shape: Any, *parameters: Any) -> Shape:
    """Return the requested shape, or else the shape that the parameters broadcast to.

    Raises: ValueError if the parameters do not broadcast to the shape.
    """
    shapes = [shape_of(p) for p in parameters]
    if shape is None:
        return broadcast_shapes(name, *shapes)
    wanted = canonical_shape(name, shape)
    if any(shapes):
        check_broadcast(name, wanted, *shapes)
    return wanted


def sampled(
    draw: Callable[..., Any],
    name: str,
    key: Any,
    shape: Any,
    dtype: Any,
    *parameters: Any,
    of: Callable[[str, Any], Any] = float_dtype,
) -> Any:
    """Call a sampler with checked arguments; the default shape is that of the parameters.

    Raises: as `single`, `of`, and `sample_shape`.
    """
    key = single(name, key)
    found = of(name, dtype)
    if not parameters:
        return draw(key, shape=canonical_shape(name, shape), dtype=found)
    values = operands(name, *parameters)
    return draw(key, *values, shape=sample_shape(name, shape, *values), dtype=found)


def check_broadcast(name: str, wanted: Shape, *shapes: Shape) -> None:
    """Raise ValueError unless shapes broadcast to the requested shape.

    `wanted` is the requested shape; `name` is the function, for the message.
    """
    try:
        fits = broadcast_shapes(name, wanted, *shapes) == wanted
    except TypeError:
        fits = False
    if not fits:
        raise ValueError(
            three_lines(
                f"{name}(..., shape={wanted}) with parameters of shapes "
                f"{', '.join(map(str, shapes))} at {current_source()}",
                f"{name}: parameter shapes must be broadcast-compatible with shape argument",
                "give a shape that ends in the parameters' shape, or leave it out",
            )
        )


def fitted(x: Any, shape: Shape, dtype: Any) -> Any:
    """Return a parameter in a dtype, broadcast to a shape; scalars keep their rank."""
    x = convert_element_type(x, dtype)
    found = aval_of(x).shape
    return x if not found or found == shape else broadcast_to(x, shape)


def filled_to(x: Any, shape: Shape, dtype: Any) -> Any:
    """Return a parameter in a dtype, broadcast to a shape."""
    return broadcast_to(convert_element_type(x, dtype), shape)
