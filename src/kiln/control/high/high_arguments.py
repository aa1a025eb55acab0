"""Loops and branches over immutable high values: as the arrays they consist of.

They carry, slice and return the arrays; the functions that they call take and return values.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.base.tree import tree_map
from kiln.control.high.high_values import Lowered, lower
from kiln.control.regions.held_refs import Held
from kiln.core.hitypes import HiType, is_high
from kiln.core.trace import aval_of


def lower_values(tree: Any) -> Any:
    """Return a tree with values replaced by their arrays; mutable values stay."""

    def one(x: Any) -> Any:
        if not is_high(x):
            return x
        return Held(x) if aval_of(x).has_qdd else lower(x)

    return tree_map(one, tree)


def map_lowered(change: Callable[[Lowered], Any], tree: Any) -> Any:
    """Return a tree with `change` applied to the arrays of each value."""
    return tree_map(
        lambda x: change(x) if type(x) is Lowered else x, tree, is_leaf=lambda x: type(x) is Lowered
    )


def raise_values(tree: Any) -> Any:
    """Undo `lower_values`."""
    return map_lowered(Lowered.value, tree)


def on_arrays(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of the arrays of values, which returns the arrays of its results."""

    @functools.wraps(fun, updated=())
    def low(*args: Any, **kwargs: Any) -> Any:
        return lower_values(fun(*raise_values(args), **raise_values(kwargs)))

    return low


def over_values(loop: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """Call a loop, or a choice of branches, some of whose operands are values."""
    bound = inspect.signature(loop).bind(*args, **kwargs)
    for name, x in bound.arguments.items():
        if name == "xs":
            found = map_lowered(_element, lower_values(x))
        elif name == "branches":
            found = list(map(on_arrays, x))
        else:
            found = on_arrays(x) if callable(x) and not is_high(x) else lower_values(x)
        bound.arguments[name] = found
    result = loop(*bound.args, **bound.kwargs)
    if "xs" in inspect.signature(loop).parameters:
        carry, ys = result
        return raise_values(carry), map_lowered(_stack, ys)
    return raise_values(result)


def _element(stack: Lowered) -> Lowered:
    """Return a value whose arrays are stacks as the stack of values that a scan runs over."""
    kind: Any = stack.kind
    size = stack.arrays[0].shape[0] if stack.arrays else None
    if type(kind).dec_rank is not HiType.dec_rank:
        kind = kind.dec_rank(size, kind.leading_axis_spec())
    else:
        kind = _rebuilt(kind, [x[0] for x in stack.arrays])
    return Lowered(kind, stack.arrays)


def _stack(ys: Lowered) -> Any:
    """Return a stack of values, one per iteration, as one value."""
    kind: Any = ys.kind
    if type(kind).inc_rank is not HiType.inc_rank:
        size = ys.arrays[0].shape[0] if ys.arrays else None
        return kind.inc_rank(size, kind.leading_axis_spec()).raise_val(*ys.arrays)
    return _rebuilt(kind, ys.arrays).raise_val(*ys.arrays)


def _rebuilt(kind: Any, arrays: Any) -> Any:
    """Return the type of a value that consists of other arrays than its type says.

    Raises: NotImplementedError unless a value that the library builds from them has a fitting type.
    """
    found: Any = aval_of(kind.raise_val(*arrays))
    wanted = [aval_of(x) for x in arrays]
    if [*map(_shape, found.lo_ty())] != [*map(_shape, wanted)]:
        raise NotImplementedError(
            three_lines(
                f"scan over a value of type {kind} at {current_source()}",
                f"a value of the arrays {wanted} has the type {found}, which says others",
                f"define `dec_rank`, `inc_rank` and `leading_axis_spec` on {type(kind).__name__}",
            )
        )
    return found


def _shape(aval: Any) -> Any:
    return aval.shape, aval.dtype
