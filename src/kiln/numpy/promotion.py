"""Operands of a kiln.numpy function -> operands of a primitive: one dtype, compatible shapes.

Python scalars combined with arrays become literals of the arrays' dtype. Scalars are never
broadcast; other shapes are made equal by explicit broadcasts. The first lines of `binary` and
`inexact` are the hot path of tracing: two arrays of the same type, or an array and a Python scalar.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.options.config import options, override
from kiln.base.source import current_source
from kiln.base.wrapping import wraps
from kiln.core.array_type import Array
from kiln.core.arrays.array import from_host
from kiln.core.trace import TYPED, aval_of, is_typed, require_unmasked
from kiln.ir.sizes.size import Dim, Size
from kiln.ir.types import ShapedArray
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.elements.edge_semantics import convert
from kiln.ops.shape import broadcast_in_dim
from kiln.ops.size_value import size_value

SCALARS: frozenset[type] = frozenset([bool, int, float, complex])
"""The types of Python scalars."""

_BOOL = np.dtype(np.bool_)
F = TypeVar("F", bound=Callable[..., Any])


def of_own_ranks(fun: F) -> F:
    """Let a function combine arrays of different ranks, whatever numpy_rank_promotion says.

    The option is about operations that users write, not about those that a function consists of.
    """

    @wraps(fun)
    def freed(*args: Any, **kwargs: Any) -> Any:
        with override(numpy_rank_promotion="allow"):
            return fun(*args, **kwargs)

    return cast(F, freed)


_RANK = {bool: 0, int: 1, float: 2, complex: 3}


def _rank(dtype: Any) -> int:
    """Return the height of a kind in the lattice: bool, integer, float, complex; -1 for keys."""
    kinds: Sequence[type] = (np.bool_, np.integer, np.floating, np.complexfloating)
    return next((i for i, kind in enumerate(kinds) if dtypes.issubdtype(dtype, kind)), -1)


_RANK_OF_DTYPE: dict[Any, int] = {dtype: _rank(dtype) for dtype in dtypes.SUPPORTED.values()}
_PLAIN_FLOATS = frozenset(
    dtypes.SUPPORTED[name] for name in ("float16", "bfloat16", "float32", "float64")
)
_INEXACT = frozenset(d for d, rank in _RANK_OF_DTYPE.items() if rank >= 2)
_SAFE = 60_000.0
_WEAK_KINDS: tuple[Any, ...] = (bool, int, float, complex)


def operands(name: str, *args: Any) -> Sequence[Any]:
    """Return the arguments if they are arrays or scalars.

    Raises: TypeError naming the function and the type of an argument that is neither.
    """
    for i, x in enumerate(args):
        if type(x) not in SCALARS and not TYPED[type(x)]:
            found = [*args]
            found[i:] = [_operand(name, x, j) for j, x in enumerate(args[i:], i)]
            return found
    return args


def _operand(name: str, x: Any, position: int) -> Any:
    if TYPED[type(x)] or type(x) in SCALARS:
        return x
    if isinstance(x, (np.ndarray, np.generic)):
        require_unmasked(x)
        if not dtypes.is_supported(x.dtype):
            raise not_an_array(name, x, f"with dtype {x.dtype} ", position)
        return x
    if dtypes.is_python_scalar(x):
        return next(kind(x) for kind in _WEAK_KINDS if isinstance(x, kind))
    if type(x) is Size:
        return size_value(x)
    if hasattr(x, "__jax_array__"):
        return x.__jax_array__()
    raise not_an_array(name, x, "", position)


def not_an_array(name: str, x: Any, detail: str, position: int) -> TypeError:
    """Build the error for an argument that is neither an array nor a scalar."""
    remedy = (
        "convert it first: kiln.numpy.asarray(...)"
        if isinstance(x, (list, tuple))
        else "pass an array or a number"
    )
    return TypeError(
        three_lines(
            f"{name}: argument {position} is {x!r:.60} at {current_source()}",
            f"{name} requires ndarray or scalar arguments, got {type(x)} {detail}"
            f"at position {position}.",
            remedy,
        )
    )


def literal(value: Any, dtype: Any, weak: bool) -> Any:
    """Return a scalar as the literal of a dtype and weakness."""
    if weak:
        return dtypes.python_scalar(value, dtype)
    if isinstance(value, np.generic):
        return dtype.type(convert(np.asarray(value), dtype)[()])
    return dtypes.coerce_python_scalar(value, dtype, wrap=True)


def converted(x: Any, dtype: Any, weak: bool) -> Any:
    """Return an operand as one of a dtype and weakness; scalars become literals."""
    if type(x) in SCALARS or isinstance(x, np.generic):
        return literal(x, dtype, weak)
    if isinstance(x, np.ndarray):
        x = from_host(np.array(x, dtypes.canonicalize_dtype(x.dtype)))
    return convert_element_type(x, dtype, weak)


def _beside(x: ShapedArray, y: Any) -> Any:
    """Return the Python scalar `y` as a literal to combine with an array of type `x`, or None."""
    dtype = x.dtype
    kind = type(y)
    found = _RANK_OF_DTYPE.get(dtype, -1)
    if _RANK[kind] > found or (kind is bool and found):
        return None
    if x.weak_type:
        return _WEAK_KINDS[found](y)
    # Numbers that every dtype of the kind can hold need no range check.
    if (found == 2 and -_SAFE < y < _SAFE and dtype in _PLAIN_FLOATS) or (
        found == 1 and 0 <= y < 8 and kind is int
    ):
        return dtype.type(y)
    return dtypes.coerce_python_scalar(y, dtype, wrap=True)


def binary(name: str, x: Any, y: Any) -> Sequence[Any]:
    """Return two operands of one dtype, with equal shapes or one of them a scalar."""
    a = x.aval if TYPED[type(x)] else None
    b = y.aval if TYPED[type(y)] else None
    if a is not None:
        if b is not None:
            if a.dtype == b.dtype and a.weak_type == b.weak_type:
                if a.shape == b.shape or not a.shape or not b.shape:
                    return x, y
                return shapes(name, x, y)
        elif type(y) in SCALARS:
            found = _beside(a, y)
            if found is not None:
                return x, found
    elif b is not None and type(x) in SCALARS:
        found = _beside(b, x)
        if found is not None:
            return found, y
    return promote(name, x, y)


def promote(name: str, *args: Any) -> Sequence[Any]:
    """Return operands of one dtype, with equal shapes or scalars."""
    return shapes(name, *promote_dtypes(*operands(name, *args)))


def promote_dtypes(*args: Any) -> Sequence[Any]:
    """Return operands of the dtype and weakness that they promote to."""
    if len(args) == 2:
        a, b = [x.aval if TYPED[type(x)] else None for x in args]
        if a is not None and b is not None:
            if a.dtype == b.dtype and a.weak_type == b.weak_type:
                return args
        elif a is not None and type(args[1]) in SCALARS:
            found = _beside(a, args[1])
            if found is not None:
                return args[0], found
        elif b is not None and type(args[0]) in SCALARS:
            found = _beside(b, args[0])
            if found is not None:
                return found, args[1]
    dtype, weak = dtypes.lattice_result_type(*args)
    return [converted(x, dtype, weak) for x in args]


def inexact(name: str, x: Any) -> Any:
    """Return one operand in a floating or complex dtype."""
    aval = x.aval if TYPED[type(x)] else None
    if aval is not None and aval.dtype in _INEXACT:
        return x
    if type(x) in (float, complex):
        return x
    (x,) = operands(name, x)
    dtype, weak = dtypes.lattice_result_type(x)
    return converted(x, dtypes.to_inexact_dtype(dtype), weak)


def binary_inexact(name: str, x: Any, y: Any) -> Sequence[Any]:
    """Return two operands of one floating or complex dtype, with compatible shapes."""
    a = x.aval if TYPED[type(x)] else None
    b = y.aval if TYPED[type(y)] else None
    known = b if a is None else a
    if (
        known is not None
        and known.dtype in _INEXACT
        and (a is None or b is None or a.dtype == b.dtype)
    ):
        return binary(name, x, y)
    return promote_inexact(name, x, y)


def promote_inexact(name: str, *args: Any) -> Sequence[Any]:
    """Return operands of one floating or complex dtype, with compatible shapes."""
    return shapes(name, *promote_dtypes_inexact(*operands(name, *args)))


def promote_dtypes_inexact(*args: Any) -> Sequence[Any]:
    """Return operands of one floating or complex dtype."""
    dtype, weak = dtypes.lattice_result_type(*args)
    wanted = dtypes.to_inexact_dtype(dtype)
    return [converted(x, wanted, weak) for x in args]


def promote_numeric(name: str, *args: Any) -> Sequence[Any]:
    """Return operands of one dtype that supports arithmetic: bools become ints."""
    args = tuple(operands(name, *args))
    dtype, weak = dtypes.lattice_result_type(*args)
    wanted = dtypes.to_numeric_dtype(dtype)
    return shapes(name, *[converted(x, wanted, weak) for x in args])


def dtype_of(x: Any, *others: Any) -> Any:
    """Return the dtype of operands that have one dtype."""
    for operand in (x, *others):
        aval = operand.aval if TYPED[type(operand)] else None
        if aval is not None:
            return aval.dtype
    return aval_of(x).dtype


def shape_of(x: Any) -> tuple[Dim, ...]:
    """Return the shape of an operand."""
    aval = x.aval if TYPED[type(x)] else None
    if aval is not None:
        return aval.shape
    return tuple(np.shape(x))


def shapes(name: str, *args: Any) -> Sequence[Any]:
    """Return operands with one shape, except scalars.

    Raises: TypeError for shapes that do not broadcast.
    """
    found = [shape_of(x) for x in args]
    common: tuple[Dim, ...] | None = None
    same = True
    for shape in found:
        if shape:
            if common is None:
                common = shape
            elif shape != common:
                same = False
                break
    if same:
        return args
    if options().numpy_rank_promotion != "allow":
        _check_ranks(name, found)
    target = broadcast_shapes(name, *found)
    return [
        x if not shape or shape == target else broadcast_to(x, target)
        for x, shape in zip(args, found, strict=True)
    ]


def broadcast_to(x: Any, shape: tuple[Dim, ...]) -> Any:
    """Broadcast an operand whose trailing axes are those of `shape`, or of size 1."""
    ndim = len(shape_of(x))
    return broadcast_in_dim(x, shape, range(len(shape) - ndim, len(shape)))


def full_shapes(name: str, *args: Any) -> Sequence[Any]:
    """Return operands with one shape, scalars included."""
    target = broadcast_shapes(name, *map(shape_of, args))
    return [x if shape_of(x) == target else broadcast_to(x, target) for x in args]


def broadcast_shapes(name: str, *found: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """Return the shape that shapes broadcast to.

    Raises: TypeError for shapes that do not broadcast.
    """
    rank = max(map(len, found), default=0)
    out: list[Dim] = [1] * rank
    for shape in found:
        for i, dim in enumerate(shape, rank - len(shape)):
            if dim == out[i] or dim == 1:
                continue
            if out[i] != 1:
                raise TypeError(
                    three_lines(
                        f"{name}: operands of shapes {_listed(found)} at {current_source()}",
                        f"{name} got incompatible shapes for broadcasting: {_listed(found)}.",
                        "reshape an operand so that sizes are equal, or 1, from the last axis on",
                    )
                )
            out[i] = dim
    return tuple(out)


def _listed(found: Sequence[tuple[Dim, ...]]) -> str:
    return ", ".join(str(tuple(shape)) for shape in found)


def _check_ranks(name: str, found: Sequence[tuple[Dim, ...]]) -> None:
    if len({len(shape) for shape in found if shape}) < 2:
        return
    mode = options().numpy_rank_promotion
    asked = f"{name}: operands of shapes {_listed(found)} at {current_source()}"
    remedy = "give the operands equal ranks, for example by x[None, :]"
    if mode == "raise":
        wrong = (
            f"Operands could not be broadcast together for {name} on shapes {_listed(found)} and "
            f"with the config option jax_numpy_rank_promotion={mode!r}"
        )
        raise ValueError(three_lines(asked, wrong, remedy))
    shapes = " ".join(str(tuple(shape)) for shape in found)
    wrong = (
        f"Following NumPy automatic rank promotion for {name} on shapes {shapes}, as the option "
        "jax_numpy_rank_promotion is 'warn'"
    )
    warnings.warn(three_lines(asked, wrong, remedy), UserWarning, stacklevel=2)


def lifted(x: Any) -> Any:
    """Convert an operand to an array; arrays are returned unchanged."""
    if is_typed(x):
        return x
    aval = aval_of(x)
    return convert_element_type(x, aval.dtype, aval.weak_type)


def one(name: str, x: Any) -> Array:
    """Return the argument as an array.

    Raises: TypeError for lists and other objects that are not arrays.
    """
    if is_typed(x):
        return x
    return lifted(*operands(name, x))


def summing_dtype(name: str, found: Any, dtype: Any, promote_integers: bool = True) -> Any:
    """Return the dtype of a sum or product of elements of a dtype."""
    if dtype is not None:
        return dtypes.check_user_dtype(dtype, name)
    if found == _BOOL:
        return dtypes.default_int_dtype()
    if promote_integers and dtypes.issubdtype(found, np.integer):
        default = (
            dtypes.default_uint_dtype()
            if dtypes.issubdtype(found, np.unsignedinteger)
            else dtypes.default_int_dtype()
        )
        return default if dtypes.bit_width(found) < dtypes.bit_width(default) else found
    return found
