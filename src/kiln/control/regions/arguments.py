"""Converting calls with pytrees and keywords to functions of arrays, for custom rules."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.records import Record
from kiln.base.source import current_source, name_of
from kiln.base.tree import (
    PyTreeDef,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_unflatten,
)
from kiln.core.absent import Zero
from kiln.core.arrays.array import ConcreteArray
from kiln.core.ref import Ref, returned_ref
from kiln.core.trace import Tracer, aval_of
from kiln.execution.compilation import as_array
from kiln.ir.types import ShapedArray
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.shape import filled

Static = tuple[tuple[int, Any], ...]
"""Arguments that are not arrays, with their positions."""


def is_array(x: Any) -> bool:
    """Tell whether a leaf is an array, a tracer or a number.

    Raises: OverflowError for a Python int that does not fit.
    """
    if isinstance(x, (np.ndarray, np.generic)):
        return dtypes.is_supported(x.dtype) or x.dtype == dtypes.float0
    if type(x) is int:
        dtypes.coerce_python_scalar(x)
    return isinstance(x, (ConcreteArray, Tracer, bool, int, float, complex))


def positional(fun: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """Return a call's arguments by position, including defaults.

    Raises: TypeError if a keyword has no position.
    """
    try:
        signature = inspect.signature(fun)
    except (TypeError, ValueError):
        signature = None
    if signature is None and not kwargs:
        return list(args)
    if signature is not None:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        if not bound.kwargs:
            return list(bound.args)
        kwargs = bound.kwargs
    raise TypeError(
        three_lines(
            f"call of {name_of(fun)} at {current_source()}",
            "The following keyword arguments could not be resolved to positions: "
            f"{', '.join(sorted(kwargs))}",
            "give the function ordinary parameters for them, and pass those by position",
        )
    )


def split_static(
    fun: Callable[..., Any], args: Sequence[Any], argnums: Sequence[int], option: str
) -> tuple[Static, list[Any]]:
    """Remove the arguments numbered by `argnums` from a call.

    Raises: ValueError for a number that the call does not have.
    """
    count = len(args)
    for i in argnums:
        if not -count <= i < count:
            raise ValueError(
                three_lines(
                    f"call of {name_of(fun)} with {count} arguments at {current_source()}",
                    f"{option}={tuple(argnums)} names argument {i}, which the call does not have",
                    f"use numbers from 0 to {count - 1}",
                )
            )
    places = sorted(i % count for i in argnums)
    static = tuple((i, args[i]) for i in places)
    return static, [x for i, x in enumerate(args) if i not in places]


def merge_static(static: Static, dynamic: Sequence[Any]) -> list[Any]:
    """Put back the arguments removed by `split_static`."""
    args = list(dynamic)
    for i, x in static:
        args.insert(i, x)
    return args


def argnums_of(option: str, argnums: Any) -> tuple[int, ...]:
    """Return an option that is an int or a sequence of ints as a tuple."""
    items = [argnums] if isinstance(argnums, (int, np.integer)) else list(argnums)
    if not all(isinstance(i, (int, np.integer)) for i in items):
        raise TypeError(
            three_lines(
                f"{option}={argnums!r} at {current_source()}",
                f"{option} must be an int or a sequence of ints, got {argnums!r}",
                "count the positional arguments from 0: (0, 1)",
            )
        )
    return tuple(map(int, items))


def rule_setter(wrapper: Any, name: str) -> Any:
    """Return `wrapper.name` of the wrapped function, if that sets a rule of another transformation.

    Raises: AttributeError for any other name.
    """
    if name in ("defjvp", "defjvps", "defvjp", "def_vmap") and "fun" in vars(wrapper):
        return getattr(wrapper.fun, name)
    raise AttributeError(f"{type(wrapper).__name__!r} object has no attribute {name!r}")


def nondiff_of(fun: Callable[..., Any], argnums: Any, argnames: Any) -> tuple[int, ...]:
    """Return `nondiff_argnums` and the positions of `nondiff_argnames`, in order.

    Raises: ValueError for a name that is not a positional parameter of the function.
    """
    numbers = argnums_of("nondiff_argnums", argnums)
    names = [argnames] if isinstance(argnames, str) else list(argnames)
    if not names:
        return numbers
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(fun).parameters.values()
    places = [parameter.name for parameter in parameters if parameter.kind in kinds]
    if unknown := [name for name in names if name not in places]:
        raise ValueError(
            three_lines(
                f"nondiff_argnames={argnames!r} of {name_of(fun)} at {current_source()}",
                f"{name_of(fun)} has no positional parameter {', '.join(map(repr, unknown))}",
                f"use some of {', '.join(places) or 'none'}",
            )
        )
    return tuple(sorted({*numbers, *(places.index(name) for name in names)}))


def flatten_arrays(what: str, fun: Callable[..., Any], tree: Any) -> tuple[list[Any], PyTreeDef]:
    """Flatten a pytree of arrays.

    Raises: TypeError naming the function and the first leaf that is not an array; ValueError for a
        reference among results.
    """
    leaves, treedef = tree_flatten(tree)
    if not all(map(is_array, leaves)):
        for path, x in tree_flatten_with_path(tree)[0]:
            if type(x) is Ref and what != "arguments":
                raise returned_ref(f"{what} of {name_of(fun)}", keystr(path) or "the result", x)
            if not is_array(x):
                raise TypeError(
                    three_lines(
                        f"{what} of {name_of(fun)} at {current_source()}",
                        f"the value of type {type(x)} at path {keystr(path) or '*'} is not a valid "
                        "JAX type",
                        "use arrays and numbers; functions and strings go into nondiff_argnums",
                    )
                )
    return leaves, treedef


class FlatFunction(Record):
    """A function of pytrees as one of leaves; `structure` is that of the last result."""

    fun: Callable[..., Any]
    in_tree: PyTreeDef
    static: Static
    box: list[PyTreeDef] = dataclasses.field(default_factory=list, compare=False, repr=False)

    def __call__(self, *leaves: Any) -> list[Any]:
        """Return the leaves of the result."""
        args = merge_static(self.static, tree_unflatten(self.in_tree, leaves))
        outs, tree = flatten_arrays("result", self.fun, self.fun(*args))
        self.box[:] = [tree]
        return outs

    @property
    def structure(self) -> PyTreeDef:
        """The structure of the last result."""
        return self.box[0]


def instantiated(t: Any) -> Any:
    """Return a tangent or cotangent as users see it: an array; float0 zeros as a NumPy array."""
    if type(t) is Zero and t.aval.dtype == dtypes.float0:
        return np.zeros(t.aval.shape, dtypes.float0)
    return as_seen(filled(t))


def as_seen(x: Any) -> Any:
    """Return a value as users see it: numbers become arrays, which have a shape and a dtype."""
    return as_array(x) if dtypes.is_python_scalar(x) else x


def fitted(x: Any, aval: ShapedArray) -> Any | None:
    """Convert a value to the given type if it is weakly typed; None if it has another type."""
    found = aval_of(x)
    if found.shape != aval.shape:
        return None
    if found.dtype == aval.dtype:
        return x
    return convert_element_type(x, aval.dtype) if found.weak_type else None
