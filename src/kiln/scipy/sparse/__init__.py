"""Sparse linear algebra, by the names of `scipy.sparse`."""

from kiln.scipy.sparse import linalg as linalg
