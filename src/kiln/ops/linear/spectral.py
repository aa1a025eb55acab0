"""Eigenvalues and singular values of matrices, with their vectors: eigh, svd, eig.

The phase of vectors is LAPACK's choice; derivatives follow that choice where it is smooth, and are
not finite where values coincide. Source of the derivatives: Giles, "Collected matrix derivative
results" (2008).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.array_type import Array, ArrayLike
from kiln.core.trace import aval_of
from kiln.ir.sizes.size import minimum
from kiln.ir.types import ShapedArray
from kiln.ops.counting import broadcasted_iota
from kiln.ops.elements.conversion import complex as join_complex
from kiln.ops.elements.conversion import convert_element_type, imag, real
from kiln.ops.elements.elementwise import abs, div, eq, mul, select, sub
from kiln.ops.elements.families import add, full_like
from kiln.ops.linear import lapack
from kiln.ops.linear.linalg import linear_solve
from kiln.ops.linear.matrices import (
    Batched,
    adjoint,
    along_columns,
    along_rows,
    check_matrix,
    check_square,
    completed,
    complex_dtype,
    conjugated,
    diagonal,
    identity,
    is_complex,
    matmul,
    real_dtype,
    real_part,
    safe_reciprocal,
    scale_columns,
    scale_rows,
    symmetrized,
    with_diagonal,
)
from kiln.ops.linear.spectral_algorithms import EighImplementation, EigImplementation, SvdAlgorithm
from kiln.ops.reductions.reduction import argmax
from kiln.ops.shape import expand_dims, reduce_sum


def _not_on_cpu(name: str, what: Any, remedy: str) -> NotImplementedError:
    return NotImplementedError(
        three_lines(
            f"{name}: {what!r} at {current_source()}",
            f"{what} is not supported on CPU",
            remedy,
        )
    )


def _check_subset(name: str, subset: Any, size: Any) -> None:
    if subset is not None and tuple(subset) != (0, size):
        raise NotImplementedError(
            three_lines(
                f"{name}: subset_by_index={subset} of {size} values at {current_source()}",
                "subset_by_index not supported on CPU",
                "slice the results instead",
            )
        )


def _inverse_differences(values: Any) -> Any:
    """Return 1 / (values[j] - values[i]) at row i and column j, and 0 on the diagonal."""
    shape = (*aval_of(values).shape, aval_of(values).shape[-1])
    gaps = sub(along_columns(values, shape), along_rows(values, shape))
    one = identity(gaps)
    return sub(div(full_like(gaps, 1), add(gaps, one)), one)


class Eigh(Batched):
    """Return eigenvectors and ascending eigenvalues of Hermitian matrices, reading one triangle."""

    name = "eigh"
    multiple = True

    def infer(
        self,
        x: Any,
        *,
        algorithm: Any,
        lower: bool,
        sort_eigenvalues: bool,
        subset_by_index: Any,
    ) -> list[ShapedArray]:
        check_matrix(self.name, x)
        check_square(self.name, x)
        if algorithm not in (None, EighImplementation.QR):
            raise _not_on_cpu(self.name, algorithm, "leave the implementation out")
        _check_subset(self.name, subset_by_index, x.shape[-1])
        return [
            ShapedArray(x.shape, x.dtype, x.weak_type),
            ShapedArray(x.shape[:-1], real_dtype(x.dtype), x.weak_type),
        ]

    def numpy(self, x: Any, *, lower: bool, **_: Any) -> Any:
        name = "heevd" if x.dtype.kind == "c" else "syevd"
        solve = lapack.routine(name, x.dtype)

        def one(a: np.ndarray) -> Any:
            values, vectors, info = solve(a, compute_v=1, lower=lower)
            return None if info else [vectors, values]

        results = [(x.shape[-2:], x.dtype), (x.shape[-1:], real_dtype(x.dtype))]
        return lapack.each(one, results, (x, 2))

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        vectors, values = outs = self.bind(*primals, **params)
        # Only one triangle is read, so the tangent of the other does not count.
        t = completed(tangents[0], params["lower"])
        inner = matmul(adjoint(vectors), matmul(t, vectors))
        factor = _inverse_differences(convert_element_type(values, aval_of(vectors).dtype))
        return outs, [matmul(vectors, mul(factor, inner)), real_part(diagonal(inner))]


class SVD(Batched):
    """Return descending singular values s, and optionally U and V^H with A = U diag(s) V^H."""

    name = "svd"
    multiple = True

    def bind(self, *args: Any, algorithm: Any = None, **params: Any) -> Any:
        return super().bind(*args, algorithm=algorithm or SvdAlgorithm.DEFAULT, **params)

    def infer(
        self,
        x: Any,
        *,
        full_matrices: bool,
        compute_uv: bool,
        subset_by_index: Any,
        algorithm: Any,
    ) -> list[ShapedArray]:
        check_matrix(self.name, x)
        stack, (rows, columns) = x.shape[:-2], x.shape[-2:]
        count = minimum(rows, columns)
        if algorithm in (SvdAlgorithm.JACOBI, SvdAlgorithm.POLAR):
            raise _not_on_cpu(self.name, algorithm, "use SvdAlgorithm.DEFAULT or SvdAlgorithm.QR")
        if subset_by_index is not None and full_matrices and compute_uv:
            raise ValueError(
                three_lines(
                    f"svd: operand {x}, subset_by_index={subset_by_index} at {current_source()}",
                    "full_matrices and subset_by_index cannot both be set",
                    "pass full_matrices=False",
                )
            )
        _check_subset(self.name, subset_by_index, count)
        values = ShapedArray((*stack, count), real_dtype(x.dtype), x.weak_type)
        if not compute_uv:
            return [values]
        left, right = (rows, columns) if full_matrices else (count, count)
        return [
            values,
            ShapedArray((*stack, rows, left), x.dtype, x.weak_type),
            ShapedArray((*stack, right, columns), x.dtype, x.weak_type),
        ]

    def numpy(
        self, x: Any, *, full_matrices: bool, compute_uv: bool, algorithm: Any, **_: Any
    ) -> Any:
        rows, columns = x.shape[-2:]
        count = min(rows, columns)
        left, right = (rows, columns) if full_matrices else (count, count)
        results: list[lapack.Core] = [((count,), real_dtype(x.dtype))]
        if compute_uv:
            results += [((rows, left), x.dtype), ((right, columns), x.dtype)]
        if not count:
            return [
                np.broadcast_to(np.eye(*shape, dtype=dtype), (*x.shape[:-2], *shape))
                if len(shape) == 2
                else np.zeros((*x.shape[:-2], *shape), dtype)
                for shape, dtype in results
            ]
        name = "gesvd" if algorithm is SvdAlgorithm.QR else "gesdd"
        options: dict[str, Any] = {"compute_uv": compute_uv, "full_matrices": full_matrices}
        factor = lapack.routine(name, x.dtype)
        asked = lapack.routine(name + "_lwork", x.dtype)(rows, columns, **options)
        options["lwork"] = int(np.real(asked[0]))

        def one(a: np.ndarray) -> Any:
            # LAPACK may not terminate for numbers that are not finite.
            if not np.isfinite(a).all():
                return None
            u, s, vt, info = factor(a, **options)
            return None if info else [s, u, vt] if compute_uv else [s]

        return lapack.each(one, results, (x, 2))

    def jvp(
        self,
        primals: Sequence[Any],
        tangents: Sequence[Any],
        *,
        full_matrices: bool,
        compute_uv: bool,
        **params: Any,
    ) -> Any:
        (x,), (t,) = primals, tangents
        rows, columns = aval_of(x).shape[-2:]
        if compute_uv and full_matrices and rows != columns:
            raise NotImplementedError(
                three_lines(
                    f"derivative of svd of {aval_of(x)} at {current_source()}",
                    "Singular value decomposition JVP not implemented for full matrices",
                    "pass full_matrices=False",
                )
            )
        s, u, vt = self.bind(x, full_matrices=False, compute_uv=True, **params)
        inner = matmul(adjoint(u), matmul(t, adjoint(vt)))
        ds = real_part(diagonal(inner))
        if not compute_uv:
            return [s], [ds]
        # A = U S V^H with U^H dU and V^H dV skew: two equations for each pair of values.
        scale = convert_element_type(s, aval_of(u).dtype)
        factor = _inverse_differences(mul(scale, scale))
        by_column, by_row = scale_columns(inner, scale), scale_rows(inner, scale)
        turn_u = mul(factor, add(by_column, adjoint(by_column)))
        turn_v = mul(factor, add(by_row, adjoint(by_row)))
        inverse = safe_reciprocal(scale)
        if is_complex(x):
            # The phase that both vectors of a pair share is free: all of it goes to u.
            phase = imag(diagonal(inner))
            turn_u = add(
                turn_u, with_diagonal(mul(join_complex(full_like(phase, 0), phase), inverse))
            )
        du, dv = matmul(u, turn_u), matmul(adjoint(vt), turn_v)
        if rows != minimum(rows, columns):
            outside = matmul(t, adjoint(vt))
            outside = sub(outside, matmul(u, matmul(adjoint(u), outside)))
            du = add(du, scale_columns(outside, inverse))
        if columns != minimum(rows, columns):
            outside = matmul(adjoint(t), u)
            outside = sub(outside, matmul(adjoint(vt), matmul(vt, outside)))
            dv = add(dv, scale_columns(outside, inverse))
        return [s, u, vt], [ds, du, adjoint(dv)]


class Eig(Batched):
    """Return eigenvalues of general matrices, and optionally left and right eigenvectors."""

    name = "eig"
    multiple = True

    def infer(
        self,
        x: Any,
        *,
        compute_left_eigenvectors: bool,
        compute_right_eigenvectors: bool,
        enable_eigvec_derivs: bool,
        implementation: Any,
    ) -> list[ShapedArray]:
        check_matrix(self.name, x)
        check_square(self.name, x)
        if implementation not in (None, EigImplementation.LAPACK):
            raise ValueError(
                three_lines(
                    f"eig: implementation={implementation!r} at {current_source()}",
                    "Only the lapack implementation is supported on CPU.",
                    "leave the implementation out",
                )
            )
        dtype = complex_dtype(x.dtype)
        vectors = ShapedArray(x.shape, dtype, x.weak_type)
        count = compute_left_eigenvectors + compute_right_eigenvectors
        return [ShapedArray(x.shape[:-1], dtype, x.weak_type), *[vectors] * count]

    def numpy(
        self,
        x: Any,
        *,
        compute_left_eigenvectors: bool,
        compute_right_eigenvectors: bool,
        **_: Any,
    ) -> Any:
        solve = lapack.routine("geev", x.dtype)
        wanted = [compute_left_eigenvectors, compute_right_eigenvectors]
        options: dict[str, Any] = {
            "compute_vl": compute_left_eigenvectors,
            "compute_vr": compute_right_eigenvectors,
        }
        n = x.shape[-1]
        if n:
            asked = lapack.routine("geev_lwork", x.dtype)(n, **options)
            options["lwork"] = int(np.real(asked[0]))

        def one(a: np.ndarray) -> Any:
            if not np.isfinite(a).all():
                return None
            *values, left, right, info = solve(a, **options)
            if info:
                return None
            w = values[0] if a.dtype.kind == "c" else values[0] + 1j * values[1]
            return [w, *[_paired(v, w, a) for v, c in zip((left, right), wanted, strict=True) if c]]

        dtype = complex_dtype(x.dtype)
        results = [((n,), dtype), *[((n, n), dtype)] * sum(wanted)]
        return lapack.each(one, results, (x, 2))

    def jvp(
        self,
        primals: Sequence[Any],
        tangents: Sequence[Any],
        *,
        compute_left_eigenvectors: bool,
        compute_right_eigenvectors: bool,
        enable_eigvec_derivs: bool,
        implementation: Any,
    ) -> Any:
        wanted = compute_left_eigenvectors or compute_right_eigenvectors
        if wanted and not enable_eigvec_derivs:
            raise NotImplementedError(
                three_lines(
                    f"derivative of eig of {aval_of(primals[0])} at {current_source()}",
                    "Derivatives of non-symmetric eigenvectors are only valid under assumptions on "
                    "the input that cannot be checked: distinct eigenvalues",
                    "Pass enable_eigvec_derivs=True to lax.linalg.eig, or use eigvals",
                )
            )
        values, left, right = self.bind(
            *primals,
            compute_left_eigenvectors=True,
            compute_right_eigenvectors=True,
            # Derivatives of the values do not depend on the undetermined phase of the vectors.
            enable_eigvec_derivs=True,
            implementation=implementation,
        )
        t = convert_element_type(tangents[0], aval_of(right).dtype)
        inner = linear_solve(right, matmul(t, right))
        outs, moved = [values], [diagonal(inner)]
        if compute_left_eigenvectors:
            inner_left = linear_solve(left, matmul(adjoint(t), left))
            outs.append(left)
            moved.append(_motion_of_vectors(left, conjugated(values), inner_left))
        if compute_right_eigenvectors:
            outs.append(right)
            moved.append(_motion_of_vectors(right, values, inner))
        return outs, moved


def _paired(v: np.ndarray, w: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Return complex vectors; for real matrices two columns hold real and imaginary parts."""
    if a.dtype.kind == "c":
        return v
    out = v.astype(w.dtype)
    for i in np.flatnonzero(w.imag > 0):
        out[:, i] = v[:, i] + 1j * v[:, i + 1]
        out[:, i + 1] = out[:, i].conj()
    return out


def _motion_of_vectors(v: Any, values: Any, inner: Any) -> Any:
    """Return the tangent of eigenvectors that keep norm 1 and a real largest component."""
    free = matmul(v, mul(_inverse_differences(values), inner))
    rank = aval_of(v).ndim
    growth = real(reduce_sum(mul(conjugated(v), free), (rank - 2,)))
    largest = expand_dims(argmax(abs(v), rank - 2, np.int32), (rank - 2,))
    largest = along_columns(reduce_sum(largest, (rank - 2,)), aval_of(v).shape)
    chosen = eq(broadcasted_iota(np.int32, aval_of(v).shape, rank - 2), largest)

    def at_largest(x: Any) -> Any:
        return reduce_sum(select(chosen, x, full_like(x, 0)), (rank - 2,))

    turn = div(at_largest(imag(free)), at_largest(real(v)))
    return sub(free, scale_columns(v, join_complex(growth, turn)))


eigh_p = Eigh()
svd_p = SVD()
eig_p = Eig()


def eigh(
    x: ArrayLike,
    *,
    lower: bool = True,
    symmetrize_input: bool = True,
    sort_eigenvalues: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    implementation: EighImplementation | None = None,
) -> tuple[Array, Array]:
    """Return eigenvectors, as columns, and ascending eigenvalues of Hermitian matrices.

    Eigenvectors come first, unlike in `jnp.linalg.eigh`.

    Without `symmetrize_input` only one triangle is read, the lower one if `lower`.

    Example:
        >>> vectors, values = lax.linalg.eigh(jnp.array([[2.0, 1.0], [1.0, 2.0]]))
        >>> values.round(4)
        Array([1., 3.], dtype=float32)
    """
    vectors, values = eigh_p.bind(
        symmetrized("eigh", x) if symmetrize_input else x,
        algorithm=implementation,
        lower=bool(lower),
        sort_eigenvalues=bool(sort_eigenvalues),
        subset_by_index=subset_by_index,
    )
    return vectors, values


def svd(
    x: ArrayLike,
    *,
    full_matrices: bool = True,
    compute_uv: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    algorithm: SvdAlgorithm | None = None,
) -> Any:
    """Return U, singular values and V^H; only the values if not `compute_uv`.

    Shapes: (..., m, n) -> (..., m, k), (..., k), (..., k, n), k = min(m, n); with `full_matrices`,
        (..., m, m) and (..., n, n).
    Raises: NotImplementedError for a `subset_by_index` other than all values, and for an
        `algorithm` that CPUs lack.
    Example:
        >>> lax.linalg.svd(jnp.array([[3.0, 0.0], [0.0, 5.0]]), compute_uv=False)
        Array([5., 3.], dtype=float32)
    """
    values, *vectors = svd_p.bind(
        x,
        full_matrices=bool(full_matrices),
        compute_uv=bool(compute_uv),
        subset_by_index=subset_by_index,
        algorithm=algorithm,
    )
    return (vectors[0], values, vectors[1]) if compute_uv else values


def eig(
    x: ArrayLike,
    *,
    compute_left_eigenvectors: bool = True,
    compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = False,
    implementation: EigImplementation | None = None,
    use_magma: bool | None = None,
) -> list[Array]:
    """Return eigenvalues of general matrices, then left and right eigenvectors as columns.

    Eigenvectors are differentiable with `enable_eigvec_derivs`, if the eigenvalues are distinct.

    Example:
        >>> values, left, right = lax.linalg.eig(jnp.array([[2.0, 0.0], [0.0, 3.0]]))
        >>> values
        Array([2.+0.j, 3.+0.j], dtype=complex64)
    """
    return list(
        eig_p.bind(
            x,
            compute_left_eigenvectors=bool(compute_left_eigenvectors),
            compute_right_eigenvectors=bool(compute_right_eigenvectors),
            enable_eigvec_derivs=bool(enable_eigvec_derivs),
            implementation=implementation,
        )
    )
