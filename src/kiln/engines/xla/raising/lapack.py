"""Calls of LAPACK's routines, which jaxlib provides as custom calls on the CPU.

kiln's factorizations return nan for matrices that a routine reports as failed: where the first
element is nan, the status is made from it. Programs compare it with 0, and put nan where it is not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kiln.base.named_tuples import NamedTuple
from kiln.core.trace import aval_of
from kiln.engines.xla.raising.elementwise import converted, is_complex
from kiln.engines.xla.raising.raiser import Missing, NotRaised, number, repeated
from kiln.ir.types import ShapedArray
from kiln.ops.elements.conversion import imag_p, real_p
from kiln.ops.elements.elementwise import eq_p, ne_p, select_n_p
from kiln.ops.elements.families import add_p
from kiln.ops.indexing.static_slicing import slice
from kiln.ops.linear import linalg, orthogonal, spectral
from kiln.ops.linear.matrices import diagonal
from kiln.ops.reductions.reduction import argmax_p, reduce_or_p
from kiln.ops.shape import reshape

Routine = Callable[..., Any]
_TARGET = re.compile(r"lapack_[sdcz]([a-z0-9]+)_ffi")
_INT = np.dtype(np.int32)


class Call(NamedTuple):
    """How a routine is called: its options, the types of its results, which operands are zero."""

    config: Mapping[str, Any]
    types: Sequence[ShapedArray]
    are_zeros: Sequence[bool]

    def letter(self, name: str) -> str:
        """Return an option, which is a letter."""
        return chr(self.config[name])


def raised_routine(target: str, call: Call, operands: Sequence[Any]) -> Any:
    """Return the results of a routine.

    Raises: NotRaised if kiln has none of its kind.
    """
    found = _TARGET.fullmatch(target)
    routine = _ROUTINES.get(found.group(1)) if found else None
    if routine is None:
        raise NotRaised(f"stablehlo.custom_call @{target} has no counterpart in kiln")
    return routine(call, *operands)


def _unused(what: str) -> Missing:
    return Missing(f"stablehlo.custom_call of LAPACK whose {what} is used has no counterpart")


def _status(x: Any, core: int, kind: ShapedArray) -> Any:
    """Return 0 where a result is valid: its first element is a number; 1 elsewhere."""
    shape = aval_of(x).shape
    if 0 in shape:
        return repeated(0, _INT, kind.shape)
    stack = shape[: len(shape) - core]
    first = slice(x, (0,) * len(shape), (*stack, *(1,) * core))
    if core:
        first = reshape(first, stack)
    return converted(ne_p.bind(first, first), _INT)


def _potrf(call: Call, x: Any) -> list[Any]:
    if call.letter("uplo") != "L":
        raise NotRaised("stablehlo.custom_call of potrf for upper factors has no counterpart")
    factor = linalg.cholesky_p.bind(x)
    return [factor, _status(factor, 2, call.types[1])]


def _trsm(call: Call, a: Any, b: Any) -> Any:
    mode = call.letter("trans_x")
    return linalg.triangular_solve_p.bind(
        a,
        b,
        left_side=call.letter("side") == "L",
        lower=call.letter("uplo") == "L",
        transpose_a=mode != "N",
        conjugate_a=mode == "C" and is_complex(a),
        unit_diagonal=call.letter("diag") == "U",
    )


def _getrf(call: Call, x: Any) -> list[Any]:
    factors, pivots, _ = linalg.lu_p.bind(x)
    return [factors, add_p.bind(pivots, _INT.type(1)), _zero_pivot(factors, call.types[2])]


def _zero_pivot(factors: Any, kind: ShapedArray) -> Any:
    """Return the number of the first zero on the diagonal, from 1 on; 0 if there is none."""
    if 0 in aval_of(factors).shape:
        return repeated(0, _INT, kind.shape)
    rank = aval_of(factors).ndim
    limits = [*aval_of(factors).shape]
    limits[-1] = limits[-2] = min(limits[-2:])
    values = diagonal(slice(factors, (0,) * rank, limits))
    zero = eq_p.bind(values, number(0, aval_of(values).dtype))
    axis = rank - 2
    first = argmax_p.bind(converted(zero, _INT), axes=(axis,), index_dtype=_INT)
    one = repeated(1, _INT, kind.shape)
    nothing = repeated(0, _INT, kind.shape)
    found = reduce_or_p.bind(zero, axes=(axis,))
    return select_n_p.bind(found, nothing, add_p.bind(first, one))


def _geqrf(call: Call, x: Any) -> list[Any]:
    found: list[Any] = orthogonal.geqrf_p.bind(x)
    return found


def _geqp3(call: Call, x: Any, free: Any) -> list[Any]:
    if not call.are_zeros[1]:
        raise NotRaised("stablehlo.custom_call of geqp3 with fixed columns has no counterpart")
    reduced, order, taus = orthogonal.geqp3_p.bind(x)
    return [reduced, add_p.bind(order, _INT.type(1)), taus]


def _orgqr(call: Call, a: Any, taus: Any) -> Any:
    return orthogonal.householder_product_p.bind(a, taus)


def _eigh(call: Call, x: Any) -> list[Any]:
    vectors, values = spectral.eigh_p.bind(
        x,
        algorithm=None,
        lower=call.letter("uplo") == "L",
        sort_eigenvalues=True,
        subset_by_index=None,
    )
    vectors = vectors if call.letter("mode") == "V" else _unused("first result")
    return [vectors, values, _status(values, 1, call.types[2])]


def _svd(algorithm: spectral.SvdAlgorithm) -> Routine:
    def raised(call: Call, x: Any) -> list[Any]:
        mode = call.letter("mode")
        found = spectral.svd_p.bind(
            x,
            full_matrices=mode == "A",
            compute_uv=mode != "N",
            subset_by_index=None,
            algorithm=algorithm,
        )
        values, *vectors = found
        nothing = _unused("overwritten operand, or a vector that it was not asked for,")
        u, vt = vectors or (nothing, nothing)
        return [nothing, values, u, vt, _status(values, 1, call.types[4])]

    return raised


def _geev(call: Call, x: Any) -> list[Any]:
    left, right = (call.letter(name) == "V" for name in ("compute_left", "compute_right"))
    values, *vectors = spectral.eig_p.bind(
        x,
        compute_left_eigenvectors=left,
        compute_right_eigenvectors=right,
        enable_eigvec_derivs=False,
        implementation=None,
    )
    given = iter(vectors)
    nothing = _unused("vectors that it was not asked for")
    both = [next(given) if wanted else nothing for wanted in (left, right)]
    own = [values] if is_complex(x) else [real_p.bind(values), imag_p.bind(values)]
    return [*own, *both, _status(values, 1, call.types[-1])]


_ROUTINES: dict[str, Routine] = {
    "potrf": _potrf,
    "trsm": _trsm,
    "getrf": _getrf,
    "geqrf": _geqrf,
    "geqp3": _geqp3,
    "orgqr": _orgqr,
    "ungqr": _orgqr,
    "syevd": _eigh,
    "heevd": _eigh,
    "gesdd": _svd(spectral.SvdAlgorithm.DEFAULT),
    "gesvd": _svd(spectral.SvdAlgorithm.QR),
    "geev": _geev,
}
