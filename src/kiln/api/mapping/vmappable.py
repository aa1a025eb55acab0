"""Types that define how `vmap` maps their values: elements inside, stacks outside.

A value of such a type is a leaf for `vmap`, and may have axes in a form of its own (`spec`) in
`in_axes` and `out_axes`. Two functions of the type flatten it and build it; they get a function to
call on the arrays, or other values, that it consists of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kiln.base.caches.revisions import revise
from kiln.base.errors import three_lines
from kiln.base.source import current_source, name_of
from kiln.base.tree import broadcast_prefix, tree_flatten, tree_leaves, tree_unflatten
from kiln.base.wrapping import wraps
from kiln.core.trace import aval_of, state
from kiln.ops.counting import iota
from kiln.ops.shape import mapped_at
from kiln.transforms.batching import BatchTrace

_registered: dict[type, tuple[Callable[..., Any], Callable[..., Any]]] = {}
"""The functions that flatten and build values of a type."""
_iotas: dict[type, Callable[[Any], Any]] = {}
spec_types: set[type] = {int}
"""The types of entries of `in_axes` and `out_axes`."""


def register_vmappable(
    data_type: type,
    spec_type: type,
    axis_size_type: type,
    to_elt: Callable[..., Any],
    from_elt: Callable[..., Any],
    make_iota: Callable[[Any], Any] | None,
) -> None:
    """Register a type whose values `vmap` maps over, with axes of `spec_type`.

    `to_elt(continue, position, value, spec)` returns an element of a value, by `continue(array,
    axis)` for its parts; `position()` is the number of the element. `from_elt(continue, size,
    element, spec)` returns a value again, by `continue(size, array, axis)`. `make_iota(size)`
    returns all positions, for sizes of `axis_size_type`; None makes them of ints.

    Source: `jax.interpreters.batching.register_vmappable`, as libraries call it.
    """
    _registered[data_type] = to_elt, from_elt
    spec_types.add(spec_type)
    if make_iota is not None:
        _iotas[axis_size_type] = make_iota
    revise()


def unregister_vmappable(data_type: type) -> None:
    """Undo the registration of a type.

    Nothing happens if `data_type` is not registered.
    """
    if _registered.pop(data_type, None) is not None:
        revise()


def is_vmappable(x: Any) -> bool:
    """Tell whether the type of a value is registered."""
    return type(x) in _registered


def is_registered() -> bool:
    """Tell whether there is a registered type."""
    return bool(_registered)


def with_elements(
    mapped: Callable[..., Any],
    fun: Callable[..., Any],
    options: tuple[Any, Any, Any, Any, Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Map a function whose arguments or results may have values of registered types.

    `mapped` gets None for these: they are flattened, and built, inside the function that it maps.
    `options` are the axes of arguments and of results, the name and the size of the axis, and the
    mesh axis that splits it.
    """
    in_axes, out_axes, name, size, spmd_axis_name = options
    leaves, tree = tree_flatten((args, kwargs), is_vmappable)
    own = [is_vmappable(x) for x in leaves]
    specs = _specs(in_axes, tree_unflatten(tree, [_WHOLE] * len(leaves)))
    for x, spec, is_own in zip(leaves, specs, own, strict=True):
        if is_own and size is None and spec is not None:
            size = _size_along(x, spec)
        elif not is_own and spec is not None and type(spec) is not int:
            raise _wrong_axis(
                spec, f"an argument of {name_of(fun)} that is not a value of such a type"
            )
    built: list[Any] = []
    # Nones keep their order, which identifies those that stand for values of registered types.
    holes = [
        is_vmappable(x) for x in tree_leaves((args, kwargs), _is_none_or_own) if _is_none_or_own(x)
    ]

    @wraps(fun)
    def of_elements(*given: Any, **named: Any) -> Any:
        inside = _Elements()
        elements = iter(
            [inside.element(x, spec) for x, spec, o in zip(leaves, specs, own, strict=True) if o]
        )
        is_hole = iter(holes)
        seen, seen_tree = tree_flatten((given, named), _is_none)
        filled, filled_named = tree_unflatten(
            seen_tree, [next(elements) if x is None and next(is_hole) else x for x in seen]
        )
        results, out_tree = tree_flatten(fun(*filled, **filled_named), _is_none_or_own)
        shown = tree_unflatten(out_tree, [_WHOLE] * len(results))
        wanted = broadcast_prefix(out_axes, shown, is_leaf=_is_none)
        built[:] = [
            None if x is None else inside.stack(x, spec)
            for x, spec in zip(results, wanted, strict=True)
            if _is_none_or_own(x)
        ]
        return tree_unflatten(out_tree, [None if is_vmappable(x) else x for x in results])

    given, named = tree_unflatten(
        tree, [None if is_own else x for x, is_own in zip(leaves, own, strict=True)]
    )
    stacked = mapped(of_elements, in_axes, out_axes, name, size, spmd_axis_name, given, named)
    outs, out_tree = tree_flatten(stacked, _is_none)
    again = iter(built)
    return tree_unflatten(out_tree, [next(again) if x is None else x for x in outs])


_WHOLE = object()
"""A placeholder in a tree for a value of a registered type."""


def _is_none(x: Any) -> bool:
    return x is None


def _is_none_or_own(x: Any) -> bool:
    return x is None or is_vmappable(x)


def _specs(in_axes: Any, arguments: tuple[Any, Any]) -> list[Any]:
    """Return the axis of each leaf of arguments: by `in_axes`, or for keywords the first one."""
    args, kwargs = arguments
    return [*broadcast_prefix(in_axes, args, is_leaf=_is_none), *[0] * len(tree_leaves(kwargs))]


def _size_along(x: Any, spec: Any) -> Any:
    shape = getattr(x, "shape", ())
    is_there = type(spec) is int and -len(shape) <= spec < len(shape)
    return shape[spec] if is_there else None


class _Elements:
    """Flattens values inside a mapped function, and builds the values that it returns."""

    def __init__(self) -> None:
        assert isinstance(state.trace, BatchTrace)
        self._trace = state.trace
        self._size = state.trace.axis.size
        self._positions: Any = None

    def element(self, x: Any, spec: Any) -> Any:
        """Return one element of a value, or of an array along its mapped axis `spec`."""
        if not is_vmappable(x):
            return self._element_of_array(x, spec)
        to_elt, _ = _registered[type(x)]
        return to_elt(self.element, self._position, x, spec)

    def _element_of_array(self, x: Any, axis: Any) -> Any:
        if axis is None:
            return x
        shape = aval_of(x).shape
        if type(axis) is not int or not -len(shape) <= axis < len(shape):
            raise _wrong_axis(axis, f"an array of shape {shape}")
        if shape[axis] != self._size:
            raise ValueError(
                three_lines(
                    f"vmap over axis {axis} of an array of shape {shape} at {current_source()}",
                    f"vmap got inconsistent sizes for array axes to be mapped: {shape[axis]}, and "
                    f"{self._size} of other arguments or axis_size",
                    "pass arrays with equal sizes along the mapped axes",
                )
            )
        return self._trace.wrap(x, axis % len(shape))

    def _position(self) -> Any:
        if self._positions is None:
            make = _iotas.get(type(self._size), _of_int)
            self._positions = self._trace.wrap(make(self._size), 0)
        return self._positions

    def stack(self, x: Any, spec: Any) -> Any:
        """Return the value whose elements a mapped function returned."""
        return self._stack(self._size, x, spec)

    def _stack(self, size: Any, x: Any, spec: Any) -> Any:
        if is_vmappable(x):
            _, from_elt = _registered[type(x)]
            return from_elt(self._stack, size, x, spec)
        value, at = self._trace.split(x)
        if spec is None and at is None:
            return value
        ndim = aval_of(value).ndim + (at is None)
        if type(spec) is not int or not -ndim <= spec < ndim:
            raise _wrong_axis(spec, f"an output of {ndim} axes, one of them mapped")
        return mapped_at(value, size, at, spec % ndim)


def _of_int(size: Any) -> Any:
    return iota("int32", size)


def _wrong_axis(axis: Any, what: str) -> Exception:
    kind = ValueError if type(axis) is int or axis is None else TypeError
    return kind(
        three_lines(
            f"vmap along the axis {axis!r:.60} of {what} at {current_source()}",
            "it is not an axis of an array: an int that it has, or None for what is not mapped",
            "let to_elt and from_elt of the registered type continue with an axis of the array",
        )
    )
