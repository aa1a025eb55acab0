"""Linear algebra with SciPy's names, on matrices in the last two axes."""

from __future__ import annotations

from kiln.base.lazy import suggest_names as _suggest_names
from kiln.scipy.linalg.factorizations import cho_factor as cho_factor
from kiln.scipy.linalg.factorizations import cholesky as cholesky
from kiln.scipy.linalg.factorizations import eigh as eigh
from kiln.scipy.linalg.factorizations import eigh_tridiagonal as eigh_tridiagonal
from kiln.scipy.linalg.factorizations import hessenberg as hessenberg
from kiln.scipy.linalg.factorizations import lu as lu
from kiln.scipy.linalg.factorizations import lu_factor as lu_factor
from kiln.scipy.linalg.factorizations import polar as polar
from kiln.scipy.linalg.factorizations import qr as qr
from kiln.scipy.linalg.factorizations import qr_multiply as qr_multiply
from kiln.scipy.linalg.factorizations import schur as schur
from kiln.scipy.linalg.factorizations import svd as svd
from kiln.scipy.linalg.functions import expm as expm
from kiln.scipy.linalg.functions import expm_frechet as expm_frechet
from kiln.scipy.linalg.functions import funm as funm
from kiln.scipy.linalg.functions import rsf2csf as rsf2csf
from kiln.scipy.linalg.functions import sqrtm as sqrtm
from kiln.scipy.linalg.structured import block_diag as block_diag
from kiln.scipy.linalg.structured import circulant as circulant
from kiln.scipy.linalg.structured import companion as companion
from kiln.scipy.linalg.structured import convolution_matrix as convolution_matrix
from kiln.scipy.linalg.structured import dft as dft
from kiln.scipy.linalg.structured import fiedler as fiedler
from kiln.scipy.linalg.structured import fiedler_companion as fiedler_companion
from kiln.scipy.linalg.structured import hadamard as hadamard
from kiln.scipy.linalg.structured import hankel as hankel
from kiln.scipy.linalg.structured import helmert as helmert
from kiln.scipy.linalg.structured import hilbert as hilbert
from kiln.scipy.linalg.structured import invhilbert as invhilbert
from kiln.scipy.linalg.structured import invpascal as invpascal
from kiln.scipy.linalg.structured import leslie as leslie
from kiln.scipy.linalg.structured import pascal as pascal
from kiln.scipy.linalg.structured import toeplitz as toeplitz
from kiln.scipy.linalg.systems import cho_solve as cho_solve
from kiln.scipy.linalg.systems import det as det
from kiln.scipy.linalg.systems import inv as inv
from kiln.scipy.linalg.systems import lu_solve as lu_solve
from kiln.scipy.linalg.systems import solve as solve
from kiln.scipy.linalg.systems import solve_sylvester as solve_sylvester
from kiln.scipy.linalg.systems import solve_triangular as solve_triangular

_suggest_names(globals())
