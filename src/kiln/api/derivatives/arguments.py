"""Common to all differentiating functions: checked leaves, argument numbers, auxiliary outputs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source, name_of
from kiln.base.tree import PyTreeDef, keystr, tree_flatten, tree_flatten_with_path, tree_unflatten
from kiln.core.absent import Zero
from kiln.core.arrays.array import ConcreteArray
from kiln.core.hitypes import operand_error
from kiln.core.ref import Ref
from kiln.core.staging import stand_in
from kiln.core.trace import Tracer, aval_of
from kiln.execution.compilation import as_array
from kiln.ir.types import ShapedArray
from kiln.jit.signatures.argument_types import leaf_type
from kiln.jit.signatures.struct import ShapeDtypeStruct
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.shape import filled


def array_of(x: Any) -> Any:
    """Convert a value to an array, unless it is one or a tracer."""
    if isinstance(x, (ConcreteArray, Tracer)):
        return x
    found = stand_in(x) if isinstance(x, ShapeDtypeStruct) else None
    return as_array(x) if found is None else found


def value_of(t: Any) -> Any:
    """Return a tangent as an array; one of dtype float0 as a NumPy array.

    `t` is an array or a symbolic zero.
    """
    if type(t) is Zero:
        if t.aval.dtype == dtypes.float0:
            return np.zeros(t.aval.shape, dtypes.float0)
        zeros = array_of(filled(t))
        return convert_element_type(zeros, t.aval.dtype, weak_type=t.aval.weak_type)
    return array_of(t)


def leaves_of(fun: Any, what: str, tree: Any) -> tuple[list[Any], PyTreeDef]:
    """Return the leaves of a tree as arrays, and its structure.

    Raises: TypeError naming the path of a leaf that is not an array.
    """
    pairs, treedef = tree_flatten_with_path(tree)
    for path, x in pairs:
        if leaf_type(x) is None or type(x) is Ref:
            raise operand_error(
                x,
                three_lines(
                    f"{what} of {name_of(fun)} at {current_source()}",
                    f"at path {keystr(path) or '*'}, the value {x!r:.60} of type {type(x)} is not "
                    "a valid JAX type",
                    "pass arrays and numbers",
                ),
            )
    return [array_of(x) for _, x in pairs], treedef


def argument_numbers(fun: Any, argnums: Any, count: int, what: str) -> tuple[int, ...]:
    """Return argument numbers as a tuple of non-negative ints.

    Raises: TypeError for other types and for a number given twice, ValueError for none and for
        numbers out of range, but TypeError if the caller of a gradient passed too few arguments.
    """
    nums = (argnums,) if isinstance(argnums, (int, np.integer)) else tuple(argnums)
    if not nums:
        raise ValueError(
            three_lines(
                f"{what} of {name_of(fun)} with argnums={argnums!r} at {current_source()}",
                "argnums must name at least one argument",
                "write argnums=0, or leave it out",
            )
        )
    for i in nums:
        if not isinstance(i, (int, np.integer)):
            raise TypeError(
                three_lines(
                    f"{what} of {name_of(fun)} with argnums={argnums!r} at {current_source()}",
                    f"argnums must be ints, got {argnums!r}",
                    "count the positional arguments from 0: argnums=(0, 1)",
                )
            )
        if not -count <= i < count:
            too_few = i >= count and what in ("grad", "value_and_grad")
            raise (TypeError if too_few else ValueError)(
                three_lines(
                    f"{what} of {name_of(fun)} with argnums={argnums} at {current_source()}",
                    f"differentiating with respect to {argnums=} requires at least "
                    f"{i + 1 if i >= 0 else -i} positional arguments to be passed by the caller, "
                    f"but got only {count} positional arguments.",
                    "pass the arguments by position",
                )
            )
    places = tuple(int(i) % count for i in nums)
    if len(set(places)) < len(places):
        raise TypeError(
            three_lines(
                f"{what} of {name_of(fun)} with argnums={argnums} at {current_source()}",
                f"argnums names one argument twice: {places}",
                "name each argument once",
            )
        )
    return places


def check_input(fun: Any, what: str, x: Any, *, holomorphic: bool, allow_int: bool) -> None:
    """Raise TypeError unless a value of this dtype may be differentiated.

    Forward-mode Jacobians are of real arguments; in reverse mode these may be complex as well.
    """
    dtype = aval_of(x).dtype
    allowed = np.floating if what == "jacfwd" else np.inexact
    if holomorphic:
        if dtypes.issubdtype(dtype, np.complexfloating):
            return
        wrong = f"{what} with holomorphic=True requires inputs with complex dtype"
        remedy = "convert the input: x.astype('complex64')"
    elif dtypes.issubdtype(dtype, allowed):
        return
    elif dtypes.issubdtype(dtype, np.complexfloating):
        wrong = (
            f"{what} requires real-valued inputs (input dtype that is a sub-dtype of np.floating)"
        )
        remedy = "for holomorphic functions use holomorphic=True; for others jvp"
    elif allow_int and dtype != dtypes.float0:
        return
    else:
        kinds = "real" if what == "jacfwd" else "real- or complex"
        wrong = (
            f"{what} requires {kinds}-valued inputs (input dtype that is a sub-dtype of "
            f"np.{allowed.__name__})"
        )
        remedy = (
            "convert the input: x.astype('float32'), or differentiate another argument with "
            "argnums="
        )
    raise TypeError(
        three_lines(
            f"{what} of {name_of(fun)}{', holomorphic=True,' * holomorphic} at {current_source()}",
            f"{wrong}, but got {dtypes.long_name(dtype)}",
            remedy,
        )
    )


def check_output(fun: Any, what: str, aval: ShapedArray, *, holomorphic: bool) -> None:
    """Raise TypeError unless a result of this type may be differentiated.

    `what` is the name of the transformation, for messages; `aval` is the type of the result. Types
    are complex with `holomorphic`, else floating; `jacfwd` takes every type without it.
    """
    if holomorphic:
        if dtypes.issubdtype(aval.dtype, np.complexfloating):
            return
        wrong = f"{what} with holomorphic=True requires outputs with complex dtype"
        remedy = "leave holomorphic out"
    elif what == "jacfwd" or dtypes.issubdtype(aval.dtype, np.floating):
        return
    else:
        wrong = (
            f"{what} requires real-valued outputs (output dtype that is a sub-dtype of np.floating)"
        )
        remedy = (
            "for complex outputs use holomorphic=True or take the real part; for integer ones "
            "convert to float"
        )
    raise TypeError(
        three_lines(
            f"{what} of {name_of(fun)}{', holomorphic=True,' * holomorphic} at {current_source()}",
            f"{wrong}, but got {dtypes.long_name(aval.dtype)}",
            remedy,
        )
    )


def differentiated(
    fun: Callable[..., Any],
    what: str,
    argnums: Any,
    args: Sequence[Any],
    kwargs: Any,
    *,
    holomorphic: bool,
    allow_int: bool,
) -> tuple[Any, list[Any], PyTreeDef]:
    """Return a function of only the arguments `argnums`, their checked leaves and structure.

    Raises: as `argument_numbers`, `leaves_of` and `check_input`.
    """
    nums = argument_numbers(fun, argnums, len(args), what)
    chosen, partial = restrict(fun, args, kwargs, nums)
    leaves, tree = leaves_of(fun, what, tuple(chosen))
    for x in leaves:
        check_input(fun, what, x, holomorphic=holomorphic, allow_int=allow_int)
    return partial, leaves, tree


def check_reduce_axes(fun: Any, what: str, reduce_axes: Any) -> None:
    """Check an argument that jax still takes.

    Raises: NotImplementedError unless it is empty.
    """
    if reduce_axes:
        raise NotImplementedError(
            three_lines(
                f"{what} of {name_of(fun)} with reduce_axes={reduce_axes!r} at {current_source()}",
                f"the reduce_axes argument to {what} is deprecated and does nothing",
                "sum over the mapped axis with lax.psum where the function needs it",
            )
        )


def restrict(
    fun: Callable[..., Any], args: Sequence[Any], kwargs: Any, nums: Sequence[int]
) -> tuple[list[Any], Any]:
    """Return the chosen arguments, and a function of only these.

    `nums` are the positions of the chosen positional arguments; the function takes them in that
    order.
    """

    @functools.wraps(fun, updated=())
    def partial(*chosen: Any) -> Any:
        full_args = list(args)
        for i, x in zip(nums, chosen, strict=True):
            full_args[i] = x
        return fun(*full_args, **kwargs)

    return [args[i] for i in nums], partial


def pair(fun: Any, what: str, result: Any) -> tuple[Any, Any]:
    """Return a (value, aux) result.

    Raises: TypeError for anything else.
    """
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise TypeError(
            three_lines(
                f"{what} of {name_of(fun)} with has_aux=True at {current_source()}",
                "expected function with aux output to return a two-element tuple, but got "
                f"{type(result)}"
                + (f" of length {len(result)}" if isinstance(result, (tuple, list)) else ""),
                "return (value, aux), or leave has_aux out",
            )
        )
    value, aux = result
    return value, aux


def require_callable(fun: Any, what: str) -> None:
    """Raise TypeError unless `fun` is callable.

    `what` is the name of the transformation, for messages.
    """
    if not callable(fun):
        raise TypeError(
            three_lines(
                f"{what}({fun!r:.60}) at {current_source()}",
                f"Expected a callable value, got {fun!r}",
                f"write {what}(function)(arguments)",
            )
        )


_TRACED = object()


class Auxiliary:
    """An auxiliary output: its tracers pass through the transformation, other leaves bypass it."""

    def __init__(self) -> None:
        self.tree: Any = None
        self.leaves: list[Any] = []

    def take(self, aux: Any) -> list[Any]:
        """Keep all but the tracers, and return those."""
        leaves, self.tree = tree_flatten(aux)
        self.leaves = [_TRACED if isinstance(x, Tracer) else x for x in leaves]
        return [x for x in leaves if isinstance(x, Tracer)]

    def rebuilt(self, values: Iterable[Any]) -> Any:
        """Return the output with the tracers replaced by their results."""
        given = iter(values)
        return tree_unflatten(self.tree, [next(given) if x is _TRACED else x for x in self.leaves])


class FlatFunction:
    """A function of pytrees as one of leaves: outputs first, then the auxiliary ones.

    After a call `out_tree` and `count` describe the outputs.
    """

    def __init__(self, fun: Callable[..., Any], what: str, in_tree: Any, has_aux: bool) -> None:
        self.fun = fun
        self.what = what
        self.in_tree = in_tree
        self.has_aux = has_aux
        self.out_tree: Any = None
        self.auxiliary = Auxiliary()
        self.count = 0

    def __call__(self, *leaves: Any) -> list[Any]:
        """Call the function and flatten its result."""
        result = self.fun(*tree_unflatten(self.in_tree, leaves))
        extra: list[Any] = []
        if self.has_aux:
            result, aux = pair(self.fun, self.what, result)
            extra = self.auxiliary.take(aux)
        pairs, self.out_tree = tree_flatten_with_path(result)
        for path, x in pairs:
            if leaf_type(x) is None:
                raise TypeError(
                    three_lines(
                        f"{self.what} of {name_of(self.fun)} at {current_source()}",
                        f"the value of type {type(x)} at output path {keystr(path) or '*'} "
                        "is not a valid JAX type",
                        "return arrays and numbers",
                    )
                )
        self.count = len(pairs)
        return [*(x for _, x in pairs), *extra]

    def outputs(self, values: Sequence[Any]) -> Any:
        """Rebuild the result."""
        return tree_unflatten(self.out_tree, list(values[: self.count]))

    def aux(self, values: Sequence[Any]) -> Any:
        """Rebuild the auxiliary outputs."""
        return self.auxiliary.rebuilt(values[self.count :])
