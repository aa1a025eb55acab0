"""The public `kiln.lax.linalg`: decompositions of matrices, defined in `kiln.ops`."""

from __future__ import annotations

from kiln.ops.linalg import (
    cholesky,
    cholesky_p,
    lu,
    lu_p,
    lu_pivots_to_permutation,
    lu_pivots_to_permutation_p,
    triangular_solve,
    triangular_solve_p,
)
from kiln.ops.orthogonal import (
    geqp3_p,
    geqrf,
    geqrf_p,
    householder_product,
    householder_product_p,
    qr,
    qr_p,
)
from kiln.ops.spectral import (
    EighImplementation,
    EigImplementation,
    SvdAlgorithm,
    eig,
    eig_p,
    eigh,
    eigh_p,
    svd,
    svd_p,
)

__all__ = [
    "EigImplementation",
    "EighImplementation",
    "SvdAlgorithm",
    "cholesky",
    "cholesky_p",
    "eig",
    "eig_p",
    "eigh",
    "eigh_p",
    "geqp3_p",
    "geqrf",
    "geqrf_p",
    "householder_product",
    "householder_product_p",
    "lu",
    "lu_p",
    "lu_pivots_to_permutation",
    "lu_pivots_to_permutation_p",
    "qr",
    "qr_p",
    "svd",
    "svd_p",
    "triangular_solve",
    "triangular_solve_p",
]
