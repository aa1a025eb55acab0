"""Linear algebra with NumPy's names, on batches of matrices in the last two axes."""

from __future__ import annotations

from kiln.base.lazy import suggest_names as _suggest_names
from kiln.numpy.linalg.determinants import SlogdetResult as SlogdetResult
from kiln.numpy.linalg.determinants import det as det
from kiln.numpy.linalg.determinants import slogdet as slogdet
from kiln.numpy.linalg.equations import inv as inv
from kiln.numpy.linalg.equations import lstsq as lstsq
from kiln.numpy.linalg.equations import pinv as pinv
from kiln.numpy.linalg.equations import solve as solve
from kiln.numpy.linalg.equations import tensorinv as tensorinv
from kiln.numpy.linalg.equations import tensorsolve as tensorsolve
from kiln.numpy.linalg.factorizations import EighResult as EighResult
from kiln.numpy.linalg.factorizations import EigResult as EigResult
from kiln.numpy.linalg.factorizations import QRResult as QRResult
from kiln.numpy.linalg.factorizations import SVDResult as SVDResult
from kiln.numpy.linalg.factorizations import cholesky as cholesky
from kiln.numpy.linalg.factorizations import cross as cross
from kiln.numpy.linalg.factorizations import diagonal as diagonal
from kiln.numpy.linalg.factorizations import eig as eig
from kiln.numpy.linalg.factorizations import eigh as eigh
from kiln.numpy.linalg.factorizations import eigvals as eigvals
from kiln.numpy.linalg.factorizations import eigvalsh as eigvalsh
from kiln.numpy.linalg.factorizations import matrix_power as matrix_power
from kiln.numpy.linalg.factorizations import matrix_transpose as matrix_transpose
from kiln.numpy.linalg.factorizations import multi_dot as multi_dot
from kiln.numpy.linalg.factorizations import outer as outer
from kiln.numpy.linalg.factorizations import qr as qr
from kiln.numpy.linalg.factorizations import svd as svd
from kiln.numpy.linalg.factorizations import svdvals as svdvals
from kiln.numpy.linalg.factorizations import trace as trace
from kiln.numpy.linalg.norms import cond as cond
from kiln.numpy.linalg.norms import matrix_norm as matrix_norm
from kiln.numpy.linalg.norms import matrix_rank as matrix_rank
from kiln.numpy.linalg.norms import norm as norm
from kiln.numpy.linalg.norms import vector_norm as vector_norm
from kiln.numpy.products import matmul as matmul
from kiln.numpy.products import tensordot as tensordot
from kiln.numpy.products import vecdot as vecdot

__all__ = [
    "EigResult",
    "EighResult",
    "QRResult",
    "SVDResult",
    "SlogdetResult",
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "trace",
    "vecdot",
    "vector_norm",
]

_suggest_names(globals())
