"""Dtype promotion: the dtype and weakness of an operation on several operands.

The dtypes form a lattice; the result is the least upper bound of the operands. A weak operand (a
Python scalar, or an array computed only from Python scalars) is one of the three nodes i*, f*, c*,
which lie below all strong dtypes of their kind. In strict mode only weak operands are promoted.
Operands are duck-typed: anything with `dtype` (and perhaps `weak_type`), Python and NumPy scalars,
dtypes and scalar types. Results are cached: these functions run for every traced operation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kiln.base.dtypes.kinds import (
    NARROW_FLOATS,
    NARROW_SIGNED,
    NARROW_UNSIGNED,
    SUPPORTED,
    DType,
    DTypeLike,
    ExtendedDtype,
    as_dtype,
    bfloat16,
    bit_width,
    canonicalize_dtype,
    float0,
    issubdtype,
)
from kiln.base.errors import TypePromotionError, three_lines
from kiln.base.options.config import options
from kiln.base.source import current_source

Described = tuple[Any, bool]
"""A dtype, or one of the Python types int, float and complex, and its weakness."""

_WEAK_INT, _WEAK_FLOAT, _WEAK_COMPLEX = "i*", "f*", "c*"
_BOOL = SUPPORTED["bool"]
_PYTHON_DTYPES = {
    bool: _BOOL,
    int: SUPPORTED["int64"],
    float: SUPPORTED["float64"],
    complex: SUPPORTED["complex128"],
}


_DEFAULT_OF_NODE = {_WEAK_INT: int, _WEAK_FLOAT: float, _WEAK_COMPLEX: complex}


def _edges(strict: bool) -> dict[Any, list[Any]]:
    """Return the dtypes directly above each node."""
    s = SUPPORTED
    signed = [s[f"int{bits}"] for bits in (8, 16, 32, 64)]
    unsigned = [s[f"uint{bits}"] for bits in (8, 16, 32, 64)]
    narrow_ints = [*NARROW_SIGNED.values(), *NARROW_UNSIGNED.values()]
    narrow_floats = list(NARROW_FLOATS.values())
    if strict:
        floats = [s["float16"], bfloat16, s["float32"], s["float64"], *narrow_floats]
        edges: dict[Any, list[Any]] = {
            _WEAK_INT: [*signed, *unsigned, *narrow_ints, _WEAK_FLOAT],
            _WEAK_FLOAT: [*floats, _WEAK_COMPLEX],
            _WEAK_COMPLEX: [s["complex64"], s["complex128"]],
        }
    else:
        edges = {
            _BOOL: [_WEAK_INT],
            _WEAK_INT: [signed[0], unsigned[0], *narrow_ints],
            signed[3]: [_WEAK_FLOAT],
            unsigned[3]: [_WEAK_FLOAT],
            _WEAK_FLOAT: [s["float16"], bfloat16, *narrow_floats, _WEAK_COMPLEX],
            s["float16"]: [s["float32"]],
            bfloat16: [s["float32"]],
            s["float32"]: [s["float64"], s["complex64"]],
            s["float64"]: [s["complex128"]],
            _WEAK_COMPLEX: [s["complex64"]],
            s["complex64"]: [s["complex128"]],
        }
        for i in range(3):
            edges[signed[i]] = [signed[i + 1]]
            edges[unsigned[i]] = [unsigned[i + 1], signed[i + 1]]
    return edges


def _upper_bounds(edges: dict[Any, list[Any]]) -> dict[Any, frozenset[Any]]:
    found: dict[Any, frozenset[Any]] = {}

    def above(node: Any) -> frozenset[Any]:
        if node not in found:
            found[node] = frozenset([node]).union(*(above(next_) for next_ in edges.get(node, ())))
        return found[node]

    for node in [*SUPPORTED.values(), *edges]:
        above(node)
    return found


_UPPER = {strict: _upper_bounds(_edges(strict)) for strict in (False, True)}
_results: dict[tuple[bool, str], dict[Any, tuple[DType, bool]]] = {
    (x64, mode): {} for x64 in (False, True) for mode in ("standard", "strict")
}
_CACHE_LIMIT = 10_000

# The exact type of a value is sufficient for scalars and for dtypes themselves. (A class of
# NumPy dtypes leaves only the byte order open, and results are always native.)
_BY_TYPE: dict[type, Described] = {
    bool: (_BOOL, False),
    int: (int, True),
    float: (float, True),
    complex: (complex, True),
    **{dtype.type: (dtype, False) for dtype in SUPPORTED.values()},
    **{type(dtype): (dtype, False) for dtype in SUPPORTED.values()},
}


def _described(x: Any) -> Described:
    found = _BY_TYPE.get(type(x))
    if found is not None:
        return found
    try:
        return x.dtype, x.weak_type
    except AttributeError:
        return _described_slowly(x)


def _described_slowly(x: Any) -> Described:
    if isinstance(x, type) and x in _PYTHON_DTYPES:
        return (x, x is not bool) if x is not bool else (_BOOL, False)
    if isinstance(x, (type, str, np.dtype, ExtendedDtype)):
        return as_dtype(x), False
    dtype = getattr(x, "dtype", None)
    if dtype is not None:
        return dtype, bool(getattr(x, "weak_type", False))
    for base in (bool, int, float, complex):
        if isinstance(x, base):
            return (_BOOL, False) if base is bool else (base, True)
    raise TypeError(
        three_lines(
            f"the dtype of a value of type {type(x).__name__} was requested at {current_source()}",
            f"cannot determine the dtype of {x!r:.80}",
            "make it an array first, with kiln.numpy.asarray",
        )
    )


def dtype(x: Any) -> DType:
    """Return the dtype of an array made from `x`, or the canonical form of the dtype `x`."""
    return canonicalize_dtype(_described(x)[0])


def is_weak(x: Any) -> bool:
    """Tell whether a value yields to the dtypes of other operands."""
    return _described(x)[1]


def is_python_scalar(x: Any) -> bool:
    """Tell whether `x` is a Python bool, int, float or complex, but not a NumPy scalar."""
    return type(x) in _PYTHON_DTYPES or (
        isinstance(x, (bool, int, float, complex)) and not isinstance(x, np.generic)
    )


def scalar_dtype(value: Any) -> tuple[DType, bool]:
    """Return the dtype and weakness of a Python or NumPy scalar.

    `value` of a Python type is weak: its dtype yields to those of arrays.
    """
    found, weak = _described(value)
    return canonicalize_dtype(found), weak


class _PythonScalarDtypes(Mapping[type, DType]):
    """Python scalar types -> their dtypes under the current x64 option."""

    def __getitem__(self, kind: type) -> DType:
        return canonicalize_dtype(_PYTHON_DTYPES[kind])

    def __iter__(self) -> Iterator[type]:
        return iter(_PYTHON_DTYPES)

    def __len__(self) -> int:
        return len(_PYTHON_DTYPES)


python_scalar_dtypes = _PythonScalarDtypes()


def default_int_dtype() -> DType:
    """Return the dtype of Python ints."""
    return canonicalize_dtype(_PYTHON_DTYPES[int])


def default_uint_dtype() -> DType:
    """Return the default unsigned dtype."""
    return canonicalize_dtype(SUPPORTED["uint64"])


def default_float_dtype() -> DType:
    """Return the dtype of Python floats."""
    return canonicalize_dtype(_PYTHON_DTYPES[float])


def default_complex_dtype() -> DType:
    """Return the dtype of Python complex numbers."""
    return canonicalize_dtype(_PYTHON_DTYPES[complex])


def lattice_result_type(*args: Any) -> tuple[DType, bool]:
    """Return the dtype that operands promote to, and whether it is weak.

    Raises: TypePromotionError if they have no common dtype.
    """
    key: Any
    if len(args) == 2:
        a, b = args
        key = (_described(a), _described(b))
    else:
        key = tuple([_described(arg) for arg in args])
    opts = options()
    try:
        return _results[opts.enable_x64, opts.numpy_dtype_promotion][key]
    except KeyError:
        return _join(key)


def _join(key: Sequence[Described]) -> tuple[DType, bool]:
    opts = options()
    results = _results.setdefault((opts.enable_x64, opts.numpy_dtype_promotion), {})
    operands = [(canonicalize_dtype(found), weak) for found, weak in key]
    result = _joined(operands, strict=opts.numpy_dtype_promotion == "strict")
    if len(results) >= _CACHE_LIMIT:
        results.clear()
    results[tuple(key)] = result
    return result


def _joined(
    operands: Sequence[Described], strict: bool, *, all_widths: bool = False
) -> tuple[DType, bool]:
    """Return the dtype of operands, canonical unless `all_widths`, and its weakness."""
    if not operands:
        raise ValueError(
            f"result_type() at {current_source()}\n"
            "at least one array or dtype is required\npass an operand"
        )
    first, weak = operands[0]
    if len(operands) == 1:
        return first, weak
    all_weak = all(weak for _, weak in operands)
    if all(found == first for found, _ in operands) and not all_weak:
        return first, False
    for found, _ in operands:
        if isinstance(found, ExtendedDtype) or found == float0:
            no = "; float0s do not support any operations by design" if found == float0 else ""
            name = _name(found, False)
            raise _no_path(operands, f": dtype={name} takes no part in type promotion{no}")
    # Weak operands among themselves keep their widths: they promote as if they were strong.
    widths = all_weak and not strict and not all_widths
    nodes = [_weak_node(found) if weak and not widths else found for found, weak in operands]
    node = _least_upper_bound(operands, nodes, strict)
    is_default = node in _DEFAULT_OF_NODE
    found = np.dtype(_DEFAULT_OF_NODE[node]) if is_default else node
    return found if all_widths else canonicalize_dtype(found), is_default or all_weak


def _weak_node(found: DType) -> Any:
    if found == _BOOL:
        return found
    if issubdtype(found, np.integer):
        return _WEAK_INT
    return _WEAK_COMPLEX if issubdtype(found, np.complexfloating) else _WEAK_FLOAT


def _least_upper_bound(operands: Sequence[Described], nodes: Sequence[Any], strict: bool) -> Any:
    upper = _UPPER[strict]
    common = frozenset.intersection(*(upper[node] for node in nodes))
    for node in common:
        if upper[node] == common:
            return node
    if strict:
        raise _no_path(
            operands,
            " when jax_numpy_dtype_promotion=strict",
        )
    narrow = [node for node in nodes if _name(node, False) in _NARROW_NAMES]
    if not narrow:
        raise _no_path(operands, "")
    names = ", ".join([_name(node, False) for node in narrow])
    kinds = " and ".join(sorted({f"{bit_width(n)}-bit {_kind_name(n)}" for n in narrow}))
    raise _no_path(operands, f": {kinds} do not support implicit promotion, such as {names}")


_NARROW_NAMES = frozenset([*NARROW_FLOATS, *NARROW_SIGNED, *NARROW_UNSIGNED])


def _name(found: Any, weak: bool) -> str:
    if isinstance(found, str):
        return found
    name = "float0" if found == float0 else str(found.name)
    return f"{name} (weak)" if weak else name


def _kind_name(found: DType) -> str:
    return "floats" if issubdtype(found, np.floating) else "integers"


def _no_path(operands: Sequence[Described], why: str) -> TypePromotionError:
    shown = ", ".join(_name(found, weak) for found, weak in operands)
    return TypePromotionError(
        three_lines(
            f"an operation of dtypes {shown} at {current_source()}",
            f"Input dtypes ({shown}) have no available implicit dtype promotion path{why}",
            "convert explicitly first, for example x.astype('float32')",
        )
    )


def result_type(*args: Any, return_weak_type: bool = False) -> Any:
    """Return the dtype that operands promote to; with `return_weak_type`, its weakness as well.

    As in NumPy, None means float64.
    Raises: TypePromotionError if they have no common dtype.
    """
    found, weak = lattice_result_type(*[SUPPORTED["float64"] if x is None else x for x in args])
    if weak:
        found = _default_of_kind(found)
    return (found, weak) if return_weak_type else found


def _default_of_kind(found: DType) -> DType:
    if issubdtype(found, np.unsignedinteger):
        return default_uint_dtype()
    if issubdtype(found, np.integer):
        return default_int_dtype()
    return default_complex_dtype() if found.kind == "c" else default_float_dtype()


def common_dtype(*found: DTypeLike) -> DType:
    """Return the dtype that dtypes promote to by the standard rules, even in strict mode.

    For dtypes that a function combines internally; for operands of users, see
    `lattice_result_type`.
    """
    operands = [(canonicalize_dtype(_described(x)[0]), False) for x in found]
    return _joined(operands, strict=False)[0]


def promote_types(a: DTypeLike, b: DTypeLike) -> DType:
    """Return the dtype that two dtypes promote to; the types int, float and complex are weak.

    NumPy gives float64 for an integer and a float; here the float decides: no operation is computed
    in 64 bits unless an operand has them.

    64-bit dtypes stay 64 bits wide whether or not arrays can have them, and so do weak types.
    Raises: TypePromotionError if they have no common dtype.
    Example:
        >>> jnp.promote_types(jnp.int32, jnp.float16)
        dtype('float16')
        >>> np.promote_types(np.int32, np.float16)
        dtype('float64')
    """
    operands = [(as_dtype(found), weak) for found, weak in (_described(a), _described(b))]
    strict = options().numpy_dtype_promotion == "strict"
    found, _ = _joined(operands, strict, all_widths=True)
    if any(weak or canonicalize_dtype(dtype) != dtype for dtype, weak in operands):
        return found
    return canonicalize_dtype(found)
