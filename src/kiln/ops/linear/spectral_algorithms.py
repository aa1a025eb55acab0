"""The names of libraries and algorithms for eigenvalues and singular values."""

from __future__ import annotations

import enum


class EighImplementation(enum.Enum):
    """The algorithm for eigenvalues of Hermitian matrices.

    Example:
        >>> lax.linalg.EighImplementation.QR.name
        'QR'
    """

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


class EigImplementation(enum.Enum):
    """The library for eigenvalues of general matrices.

    Example:
        >>> lax.linalg.EigImplementation.LAPACK.name
        'LAPACK'
    """

    CUSOLVER = "cusolver"
    MAGMA = "magma"
    LAPACK = "lapack"


class SvdAlgorithm(enum.Enum):
    """The algorithm for singular values.

    Example:
        >>> lax.linalg.SvdAlgorithm.DEFAULT.name
        'DEFAULT'
    """

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    POLAR = "polar"
    DIVIDE_AND_CONQUER = "divide_and_conquer"
