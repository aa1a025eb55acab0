"""The public `kiln.lax.linalg`: decompositions of matrices, defined in `kiln.ops`."""

from __future__ import annotations

from kiln.base.lazy import suggest_names as _suggest_names
from kiln.lax.condensed import hessenberg as hessenberg
from kiln.lax.condensed import schur as schur
from kiln.lax.condensed import tridiagonal as tridiagonal
from kiln.lax.factors import cholesky_update as cholesky_update
from kiln.lax.factors import ormqr as ormqr
from kiln.lax.factors import qdwh as qdwh
from kiln.lax.factors import symmetric_product as symmetric_product
from kiln.lax.factors import tridiagonal_solve as tridiagonal_solve
from kiln.ops.linear.linalg import cholesky as cholesky
from kiln.ops.linear.linalg import cholesky_p as cholesky_p
from kiln.ops.linear.linalg import lu as lu
from kiln.ops.linear.linalg import lu_p as lu_p
from kiln.ops.linear.linalg import triangular_solve as triangular_solve
from kiln.ops.linear.linalg import triangular_solve_p as triangular_solve_p
from kiln.ops.linear.orthogonal import geqp3_p as geqp3_p
from kiln.ops.linear.orthogonal import geqrf as geqrf
from kiln.ops.linear.orthogonal import geqrf_p as geqrf_p
from kiln.ops.linear.orthogonal import householder_product as householder_product
from kiln.ops.linear.orthogonal import householder_product_p as householder_product_p
from kiln.ops.linear.orthogonal import qr as qr
from kiln.ops.linear.orthogonal import qr_p as qr_p
from kiln.ops.linear.pivots import lu_pivots_to_permutation as lu_pivots_to_permutation
from kiln.ops.linear.pivots import lu_pivots_to_permutation_p as lu_pivots_to_permutation_p
from kiln.ops.linear.spectral import eig as eig
from kiln.ops.linear.spectral import eig_p as eig_p
from kiln.ops.linear.spectral import eigh as eigh
from kiln.ops.linear.spectral import eigh_p as eigh_p
from kiln.ops.linear.spectral import svd as svd
from kiln.ops.linear.spectral import svd_p as svd_p
from kiln.ops.linear.spectral_algorithms import EighImplementation as EighImplementation
from kiln.ops.linear.spectral_algorithms import EigImplementation as EigImplementation
from kiln.ops.linear.spectral_algorithms import SvdAlgorithm as SvdAlgorithm

__all__ = [
    "EigImplementation",
    "EighImplementation",
    "SvdAlgorithm",
    "cholesky",
    "cholesky_p",
    "cholesky_update",
    "eig",
    "eig_p",
    "eigh",
    "eigh_p",
    "geqp3_p",
    "geqrf",
    "geqrf_p",
    "hessenberg",
    "householder_product",
    "householder_product_p",
    "lu",
    "lu_p",
    "lu_pivots_to_permutation",
    "lu_pivots_to_permutation_p",
    "ormqr",
    "qdwh",
    "qr",
    "qr_p",
    "schur",
    "svd",
    "svd_p",
    "symmetric_product",
    "triangular_solve",
    "triangular_solve_p",
    "tridiagonal",
    "tridiagonal_solve",
]

_suggest_names(globals())
