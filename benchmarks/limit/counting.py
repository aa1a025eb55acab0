"""What a program must do: operations by type, and the bytes of its operands and results.

Bytes are those that any implementation moves: each operand once, of gathered operands only what is
gathered, each result once. Operations are counted as a textbook does; an elementary function
counts as a polynomial of usual length.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

MOVES = frozenset(
    [
        "broadcast_in_dim",
        "concatenate",
        "convert_element_type",
        "copy",
        "copy_p",
        "dynamic_slice",
        "dynamic_update_slice",
        "gather",
        "iota",
        "pad",
        "reshape",
        "rev",
        "scatter",
        "slice",
        "split",
        "squeeze",
        "transpose",
        "stop_gradient",
        "random_wrap",
        "random_unwrap",
        "bitcast_convert_type",
        "optimization_barrier",
        "name",
        "real",
        "imag",
        "complex",
    ]
)
GATHERS = frozenset(("gather", "dynamic_slice", "slice"))
COSTS = {
    **dict.fromkeys(("exp", "exp2", "logistic", "tanh", "erf", "erfc"), 16),
    **dict.fromkeys(("expm1", "log", "log1p", "sin", "cos", "atan", "asin", "acos"), 20),
    **dict.fromkeys(("pow", "tan", "atan2", "sinh", "cosh", "asinh", "acosh", "atanh"), 36),
    **dict.fromkeys(("erf_inv", "lgamma", "digamma", "bessel_i0e", "bessel_i1e"), 60),
    **dict.fromkeys(("div", "sqrt", "rsqrt", "rem", "cbrt"), 4),
    "integer_pow": 2,
    "threefry2x32": 55,
    "random_bits": 110,
}
LINALG = {
    "cholesky": 1 / 3,
    "lu": 2 / 3,
    "qr": 4 / 3,
    "geqrf": 4 / 3,
    "householder_product": 4 / 3,
    "eigh": 9.0,
    "eig": 25.0,
    "svd": 20.0,
    "triangular_solve": 1.0,
    "lu_solve": 2.0,
}
"""Operations of a factorization, over the cube of its greatest dimension."""


@dataclasses.dataclass
class Counts:
    """What a program must do at least; `open` if it has a loop whose trip count is not known."""

    flops: dict[str, float] = dataclasses.field(default_factory=dict)
    read: float = 0
    written: float = 0
    open: bool = False

    def add(self, dtype: str, operations: float) -> None:
        """Add operations on a type."""
        self.flops[dtype] = self.flops.get(dtype, 0) + operations


def unit(aval: Any) -> tuple[str, float]:
    """Return the type whose peak binds an operation, and how many of its operations one takes."""
    name = aval.dtype.name
    if name.startswith("complex"):
        return ("float64" if name == "complex128" else "float32"), 4
    if name == "float64":
        return name, 1
    return ("float32" if "float" in name else "int32"), 1


def counted(closed: Any) -> Counts:
    """Return the counts of a program, a closed jaxpr."""
    counts, jaxpr = Counts(), closed.jaxpr
    _count(jaxpr, 1, counts)
    counts.read = sum(_read(jaxpr, x) for x in jaxpr.invars)
    counts.read += sum(x.nbytes for x in closed.consts if hasattr(x, "nbytes"))
    # Results that are operands are not written.
    given = {id(x) for x in jaxpr.invars}
    counts.written = sum(_nbytes(x.aval) for x in jaxpr.outvars if id(x) not in given)
    return counts


def _nbytes(aval: Any) -> int:
    if not hasattr(aval.dtype, "itemsize"):
        return 8 * math.prod(aval.shape)
    return math.prod(aval.shape) * int(aval.dtype.itemsize)


def _read(jaxpr: Any, variable: Any) -> float:
    """Return how many bytes of an operand a program reads."""
    whole, parts = _nbytes(variable.aval), 0.0
    for eqn in jaxpr.eqns:
        for i, x in enumerate(eqn.invars):
            if x is not variable:
                continue
            inner = next(_jaxprs(eqn), None)
            if eqn.primitive.name in GATHERS and i == 0:
                parts += _nbytes(eqn.outvars[0].aval)
            elif eqn.primitive.name == "jit" and inner is not None:
                parts += _read(inner, inner.invars[i])
            else:
                return whole
    return min(whole, parts)


def _jaxprs(eqn: Any) -> Iterator[Any]:
    for value in eqn.params.values():
        for part in value if isinstance(value, (tuple, list)) else (value,):
            part = getattr(part, "jaxpr", part)
            if hasattr(part, "eqns"):
                yield part


def _count(jaxpr: Any, times: float, counts: Counts) -> None:
    for eqn in jaxpr.eqns:
        name, inner = eqn.primitive.name, list(_jaxprs(eqn))
        if name == "cond":
            branches = [Counts() for _ in inner]
            for branch, into in zip(inner, branches):
                _count(branch, times, into)
            most = max(branches, key=lambda branch: sum(branch.flops.values()))
            for dtype, number in most.flops.items():
                counts.add(dtype, number)
            counts.open = counts.open or any(branch.open for branch in branches)
        elif inner and not name.startswith(("reduce", "scatter")):
            counts.open = counts.open or name == "while"
            repeats = times * eqn.params["length"] if name == "scan" else times
            # Rules of custom derivatives are not run: only the first jaxpr is the program.
            for part in inner if name in ("scan", "while") else inner[:1]:
                _count(part, repeats, counts)
        elif eqn.outvars and hasattr(eqn.outvars[0].aval.dtype, "name"):
            result = eqn.outvars[0].aval
            # Of a selection the mask says nothing about the type.
            operands = [x.aval for x in eqn.invars if x.aval.dtype.name != "bool"]
            dtype, factor = unit(max(operands, key=_size, default=result))
            counts.add(dtype, times * factor * operations(eqn))


def _size(aval: Any) -> int:
    return math.prod(aval.shape)


def operations(eqn: Any) -> float:
    """Return the operations of an equation without programs of its own."""
    name, params = eqn.primitive.name, eqn.params
    result = eqn.outvars[0].aval
    operands = [x.aval for x in eqn.invars]
    if name in MOVES:
        return 0
    if name == "dot_general":
        contracted = params["dimension_numbers"][0][0]
        return 2 * _size(result) * math.prod(operands[0].shape[i] for i in contracted)
    if name == "conv_general_dilated":
        spec = params["dimension_numbers"].rhs_spec
        return 2 * _size(result) * _size(operands[1]) / operands[1].shape[spec[0]]
    if name == "fft":
        n = math.prod(params["fft_lengths"])
        return 1.25 * max(_size(result), _size(operands[0])) * math.log2(max(n, 2))
    if name in ("sort", "top_k"):
        axis = params.get("dimension", -1)
        return _size(operands[0]) * math.log2(max(operands[0].shape[axis], 2))
    if name in LINALG:
        shape = operands[0].shape
        batch = math.prod(shape[:-2])
        if name in ("triangular_solve", "lu_solve"):
            return LINALG[name] * shape[-1] * _size(operands[-1])
        return LINALG[name] * batch * max(shape[-2:]) * min(shape[-2:]) ** 2
    if name.startswith(("reduce_window", "select_and")):
        window = params.get("window_dimensions", (1,))
        return max(_size(result), 1) * math.prod(window)
    if name.startswith("scatter"):
        return _size(operands[2])
    if name.startswith(("reduce", "arg")):
        return _size(operands[0])
    return COSTS.get(name, 1) * _size(result)
