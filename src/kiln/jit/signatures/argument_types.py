"""Argument types: what may be passed where an array is expected, and how errors name it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source, definition_of, name_of
from kiln.base.tree import tree_flatten_with_path
from kiln.core.arrays.array import ConcreteArray
from kiln.core.ref import Ref
from kiln.core.staging import recording
from kiln.core.trace import Tracer, aval_of, check_live
from kiln.ir.types import ShapedArray
from kiln.jit.signatures.parameters import argument_name
from kiln.jit.signatures.struct import ShapeDtypeStruct, type_of_struct

SCALARS = (bool, int, float, complex, np.generic)
_FITS_EVERYWHERE = range(-(2**31), 2**31)
"""The ints that fit whether they become 32 or 64 bits wide."""


def leaf_type(x: Any) -> Any:
    """Return the type of an argument's leaf, or None if it is not an array.

    While a program is being recorded, a ShapeDtypeStruct may stand for an array.

    Raises: OverflowError for a Python int that does not fit.
    """
    if isinstance(x, (ConcreteArray, Tracer)):
        return x.aval
    if isinstance(x, np.ndarray):
        return aval_of(x) if dtypes.is_supported(x.dtype) else None
    if isinstance(x, SCALARS):
        if type(x) is int and not _FITS_EVERYWHERE.start <= x < _FITS_EVERYWHERE.stop:
            dtypes.coerce_python_scalar(x)
        return aval_of(x)
    if type(x) is Ref:
        return x.aval
    if isinstance(x, ShapeDtypeStruct) and recording() is not None:
        return type_of_struct(x)
    return None


def argument_names(
    fun: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], places: Sequence[int]
) -> list[str]:
    """Return the names of the leaves of dynamic arguments, as in `x` and `d['a'][0]`."""
    paths = tree_flatten_with_path((tuple(args), kwargs))[0]
    return [argument_name(fun, path, places) for path, _ in paths]


def check_leaves(
    fun: Callable[..., Any], leaves: Sequence[Any], names: Callable[[], Sequence[str]], what: str
) -> list[ShapedArray]:
    """Return the types of the leaves.

    Raises: TypeError naming the first leaf that is not an array; OverflowError naming an int that
        is too large.
    """
    avals = []
    for i, x in enumerate(leaves):
        try:
            aval = leaf_type(x)
        except OverflowError as error:
            raise OverflowError(
                three_lines(
                    f"{what} of {name_of(fun)} with {names()[i]} = {x} at {current_source()}",
                    f"{str(error).splitlines()[1]}: "
                    f"the argument {names()[i]} overflows when converted to int32",
                    "use a float, or kiln.config.update('jax_enable_x64', True)",
                )
            ) from None
        if aval is None:
            raise TypeError(_not_an_array(fun, x, names()[i], what))
        if isinstance(x, Tracer):
            check_live(x)
        avals.append(aval)
    return avals


def _not_an_array(fun: Callable[..., Any], x: Any, name: str, what: str) -> str:
    root = name.split("[")[0].split(".")[0]
    remedy = (
        f"pass an array or a number, or mark the argument static: "
        f"{what}({name_of(fun)}, static_argnames={root!r}) (or static_argnums){_registration(x)}"
    )
    return three_lines(
        f"call of {name_of(fun)} with argument {name} = {_short(x)} at {current_source()}",
        f"Error interpreting argument to {definition_of(fun)} as an abstract array. The "
        f"problematic value is of type {type(x)} and was passed to the function at path {name}. "
        "It is not a valid JAX type",
        remedy,
    )


def _registration(x: Any) -> str:
    """Return how to register a user-defined class as a pytree, for messages."""
    kind = type(x)
    if isinstance(x, type) or kind.__module__ in ("builtins", "types", "numpy"):
        return ""
    if dataclasses.is_dataclass(x):
        how = f"register_dataclass({kind.__name__})"
    else:
        how = f"register_pytree_node({kind.__name__}, flatten, unflatten)"
    return f"; or register its class, to pass what it holds: kiln.tree_util.{how}"


def _short(x: Any) -> str:
    text = repr(x)
    return text if len(text) <= 60 else text[:57] + "..."
