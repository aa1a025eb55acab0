"""The functions that users call to make, read and change references."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import api_boundary, current_source
from kiln.control.references.index import Index, check_within
from kiln.control.references.primitives import (
    FREED,
    Changing,
    addupdate_p,
    freeze_p,
    get_p,
    new_ref_p,
    reach,
    swap_p,
    write_part,
)
from kiln.control.references.views import Place, place_of, view_of
from kiln.core.arrays.array import ConcreteArray
from kiln.core.hitypes import HighOperand, HighRef, HiType, operand_error
from kiln.core.ref import Ref, RefView, set_ref_access
from kiln.core.trace import Tracer, aval_of
from kiln.execution.compilation import as_array
from kiln.ops.elements.conversion import convert_element_type


@api_boundary
def new_ref(init_val: Any, *, memory_space: Any = None, kind: Any = None) -> Ref:
    """Return a new reference that holds an array.

    `ref[...]` reads it, `ref[...] = x` replaces it, `ref[index] = x` a part of it; in jitted
    functions and loops too. `kind` is accepted and ignored.

    Raises: TypeError unless the value is an array or a number, NotImplementedError for a
        `memory_space`.
    Source: the documentation of `jax.new_ref`.
    Example:
        >>> total = kiln.new_ref(0)
        >>> @kiln.jit
        ... def count(total, x):
        ...     total[...] += x
        >>> count(total, 2), count(total, 3), total
        (None, None, Ref(5, dtype=int32, weak_type=True))
        >>> total[...] = 1
        >>> kiln.freeze(total)
        Array(1, dtype=int32, weak_type=True)
    """
    if memory_space is not None:
        raise NotImplementedError(
            three_lines(
                f"new_ref(..., memory_space={memory_space!r:.40}) at {current_source()}",
                "references are kept where arrays are",
                "leave memory_space out",
            )
        )
    try:
        array = _array(init_val, "new_ref")
    except HighOperand:
        value_type: Any = aval_of(init_val)
        parts = [new_ref_p.bind(x) for x in value_type.lower_val(init_val)]
        found: Any = HighRef(value_type, parts)
        return found
    return new_ref_p.bind(array)


@api_boundary
def get(ref: Ref | RefView, idx: Any = None) -> Any:
    """Return a part of what a reference holds: `ref[idx]`; by default all of it.

    An integer that is out of bounds is an error if it is known, and means the nearest element if
    not; likewise the integers of an array.

    Raises: ValueError unless `ref` is a reference; what `ref[idx]` raises.
    Source: the documentation of `jax.ref.get`.
    Example:
        >>> kiln.ref.get(kiln.new_ref(jnp.arange(5)), slice(1, 3))
        Array([1, 2], dtype=int32)
    """
    ref, index, arrays = _place("get", ref, idx)
    return get_p.bind(ref, *arrays, index=index)


@api_boundary
def set(ref: Ref | RefView, idx: Any, value: Any) -> None:
    """Replace a part of what a reference holds: `ref[idx] = value`.

    The value has the part's shape and dtype; a Python number, the same kind.

    Raises: ValueError unless it does, and under vmap or differentiation where the value belongs to
        an example, or moves, and the reference does not.
    Source: the documentation of `jax.ref.set`.
    Example:
        >>> ref = kiln.new_ref(jnp.zeros(3))
        >>> kiln.ref.set(ref, 1, 10.0)
        >>> ref
        Ref([ 0., 10.,  0.], dtype=float32)
    """
    ref, index, arrays = _place("set", ref, idx)
    write_part(ref, _value(swap_p, ref, value, index, arrays), index, arrays)


@api_boundary
def swap(ref: Ref | RefView, idx: Any, value: Any) -> Any:
    """Replace a part of what a reference holds, and return what it was.

    Raises: the errors of `set`.
    Source: the documentation of `jax.ref.swap`.
    Example:
        >>> ref = kiln.new_ref(jnp.arange(3))
        >>> kiln.ref.swap(ref, 2, 10), ref
        (Array(2, dtype=int32), Ref([ 0,  1, 10], dtype=int32))
    """
    ref, index, arrays = _place("swap", ref, idx)
    value = _value(swap_p, ref, value, index, arrays)
    return swap_p.bind(ref, value, *arrays, index=index)


@api_boundary
def addupdate(ref: Ref | RefView, idx: Any, x: Any) -> None:
    """Add to a part of what a reference holds; repeated elements are added to repeatedly.

    Raises: the errors of `set`.
    Source: the documentation of `jax.ref.addupdate`.
    Example:
        >>> ref = kiln.new_ref(jnp.zeros(3))
        >>> kiln.ref.addupdate(ref, jnp.array([0, 0]), jnp.ones(2))
        >>> ref
        Ref([2., 0., 0.], dtype=float32)
    """
    ref, index, arrays = _place("addupdate", ref, idx)
    value = _value(addupdate_p, ref, x, index, arrays)
    addupdate_p.bind(ref, value, *arrays, index=index)


@api_boundary
def freeze(ref: Ref | HighRef) -> Any:
    """Return what a reference holds; the reference must not be used again.

    Raises: ValueError unless `ref` is a reference.
    Source: the documentation of `jax.ref.freeze`.
    Example:
        >>> kiln.ref.freeze(kiln.new_ref(jnp.ones(2)))
        Array([1., 1.], dtype=float32)
    """
    if isinstance(ref, HighRef):
        return ref.aval.raise_val(*map(freeze, ref.parts))
    _require_ref("freeze", ref)
    return freeze_p.bind(ref)


@api_boundary
def free_ref(ref: Ref) -> None:
    """Release what a reference holds; the reference cannot be used again.

    Raises: ValueError unless `ref` is a reference that was not freed.
    Example:
        >>> ref = kiln.new_ref(jnp.arange(3))
        >>> kiln.free_ref(ref)
    """
    _require_ref("free_ref", ref)
    reach(ref)
    ref.content, ref.owner = None, FREED


@api_boundary
def empty_ref(ty: Any, memory_space: Any = None) -> Ref:
    """Return a new reference of the type of a `ShapeDtypeStruct`; what it holds is zero.

    Raises: NotImplementedError for a `memory_space`.
    Example:
        >>> kiln.ref.empty_ref(kiln.ShapeDtypeStruct((2,), jnp.int32))
        Ref([0, 0], dtype=int32)
    """
    if isinstance(ty, HiType):
        return new_ref(ty.raise_val(*[np.zeros(x.shape, x.dtype) for x in ty.lo_ty()]))
    return new_ref(np.zeros(ty.shape, ty.dtype), memory_space=memory_space)


def _require_ref(what: str, ref: Any) -> None:
    if not isinstance(ref, Ref):
        raise ValueError(
            three_lines(
                f"ref.{what} at {current_source()}",
                f"Can only call `{what}` on a `Ref`: {ref!r:.60}",
                "make one: ref = kiln.new_ref(value)",
            )
        )


def _place(what: str, ref: Any, idx: Any) -> Place:
    if type(ref) is not RefView:
        _require_ref(what, ref)
    place = place_of(ref, idx)
    if place.part and reach(place.ref).has_content:
        check_within(place.ref.shape, place.part, place.arrays)
    return place


_NUMBERS = frozenset((bool, int, float, complex))
"""Types whose values become literals of the program."""


def _array(x: Any, what: str) -> Any:
    if isinstance(x, (Tracer, ConcreteArray, bool, int, float, complex, np.generic, np.ndarray)):
        return x if isinstance(x, Tracer) else as_array(x)
    if hasattr(x, "__jax_array__"):
        return x.__jax_array__()
    raise operand_error(
        x,
        three_lines(
            f"{what} at {current_source()}",
            f"a reference holds one array, got a value of type {type(x)}",
            "pass an array or a number; for a tree of them, jax.tree.map(kiln.new_ref, tree)",
        ),
    )


def _value(primitive: Changing, ref: Ref, value: Any, index: Index, arrays: Sequence[Any]) -> Any:
    if not isinstance(value, Ref):
        if type(value) not in _NUMBERS:
            value = _array(value, primitive.name)
        aval, dtype = aval_of(value), ref.dtype
        if (
            aval.weak_type
            and aval.dtype != dtype
            and any(
                dtypes.issubdtype(dtype, kind) and dtypes.issubdtype(aval.dtype, kind)
                for kind in (np.floating, np.integer)
            )
        ):
            fits = type(value) in _NUMBERS
            value = dtype.type(value) if fits else convert_element_type(value, dtype)
    primitive.check(ref.aval, aval_of(value), [aval_of(x) for x in arrays], index)
    return value


set_ref_access(get, set, addupdate, view_of)
