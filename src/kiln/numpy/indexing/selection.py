"""Choosing elements by conditions: where, select, piecewise; and interpolation between points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike
from kiln.core.trace import aval_of
from kiln.execution.eager_plans import eager
from kiln.numpy.elements.logic import choose_by, truth
from kiln.numpy.indexing.taking import nonzero
from kiln.numpy.promotion import converted, operands, promote_dtypes, shape_of

_BOOL = np.dtype(np.bool_)


@overload
def where(
    condition: ArrayLike,
    /,
    *,
    size: int | None = ...,
    fill_value: ArrayLike | Sequence[Any] | None = ...,
) -> tuple[Array, ...]: ...


@overload
def where(
    condition: ArrayLike,
    x: ArrayLike,
    y: ArrayLike,
    /,
    *,
    size: int | None = ...,
    fill_value: ArrayLike | Sequence[Any] | None = ...,
) -> Array: ...


@eager
def where(
    condition: ArrayLike,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    /,
    *,
    size: int | None = None,
    fill_value: ArrayLike | Sequence[Any] | None = None,
) -> Any:
    """Select each element from x where the condition is true, else from y.

    With only the condition, return the indices of its true elements, one array per axis; under a
    trace `size` must give their number.

    Source: numpy.where.
    Example:
        >>> x = jnp.array([1, -2, 3])
        >>> jnp.where(x > 0, x, 0)
        Array([1, 0, 3], dtype=int32)
        >>> jnp.where(x > 0)
        (Array([0, 2], dtype=int32),)
    """
    if x is None and y is None:
        return nonzero(condition, size=size, fill_value=fill_value)
    return choose_by(condition, x, y)


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Array:
    """Take each element from the choice whose condition is the first to hold.

    Example:
        >>> x = jnp.array([1, 5, 9])
        >>> jnp.select([x < 3, x < 7], [x, -x], default=0)
        Array([ 1, -5,  0], dtype=int32)
    """
    if len(condlist) != len(choicelist):
        raise ValueError(
            three_lines(
                f"select: {len(condlist)} conditions, {len(choicelist)} choices"
                f" at {current_source()}",
                "condlist must have length equal to choicelist",
                "pass one choice per condition",
            )
        )
    if len(condlist) == 0:
        raise ValueError(
            three_lines(
                f"select: no condition at {current_source()}",
                "condlist must be non-empty",
                "pass some conditions",
            )
        )
    conditions = operands("select", *condlist)
    for condition in conditions:
        if aval_of(condition).dtype != _BOOL:
            raise TypeError(
                three_lines(
                    f"select: a condition of type {aval_of(condition)} at {current_source()}",
                    "select requires boolean conditions",
                    "compare to get bools",
                )
            )
    *choices, out = promote_dtypes(*operands("select", *choicelist, default))
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        out = choose_by(condition, choice, out)
    return out


def piecewise(x: ArrayLike, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Any:
    """Apply to each element the function (or take the number) of the last condition that holds.

    Example:
        >>> x = jnp.array([-2.0, 1.0])
        >>> jnp.piecewise(x, [x < 0, x >= 0], [lambda v: -v, 10.0])
        Array([ 2., 10.], dtype=float32)
    """
    (x,) = operands("piecewise", x)
    conditions = list(condlist) if isinstance(condlist, (list, tuple)) else [condlist]
    if not isinstance(condlist, (list, tuple)) and len(shape_of(condlist)) > len(shape_of(x)):
        conditions = list(condlist)
    functions = list(funclist)
    if len(functions) == len(conditions) + 1:
        functions = functions[-1:] + functions[:-1]
    elif len(functions) == len(conditions):
        functions = [0, *functions]
    else:
        raise ValueError(
            three_lines(
                f"piecewise: {len(conditions)} conditions, {len(functions)} functions"
                f" at {current_source()}",
                f"with {len(conditions)} condition(s), either {len(conditions)} or "
                f"{len(conditions) + 1} functions are expected; got {len(functions)}",
                "pass one function per condition, and perhaps a default",
            )
        )
    aval = aval_of(x)
    values = [
        converted(f(x, *args, **kw) if callable(f) else f, aval.dtype, False) for f in functions
    ]
    out = values[0]
    for condition, value in zip(conditions, values[1:], strict=True):
        out = choose_by(truth(condition), value, out)
    return out
