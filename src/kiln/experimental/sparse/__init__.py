"""Sparse arrays: batched coordinates (BCOO), compressed rows (BCSR), and functions of them.

They are pytrees of arrays, and their operations are written with gathers, scatters and sums, so
they run under all transformations, and on every engine.
"""

from kiln.experimental.sparse import linalg as linalg
from kiln.experimental.sparse import methods as _methods
from kiln.experimental.sparse.ad import grad as grad
from kiln.experimental.sparse.ad import jacfwd as jacfwd
from kiln.experimental.sparse.ad import jacobian as jacobian
from kiln.experimental.sparse.ad import jacrev as jacrev
from kiln.experimental.sparse.ad import value_and_grad as value_and_grad
from kiln.experimental.sparse.api import empty as empty
from kiln.experimental.sparse.api import eye as eye
from kiln.experimental.sparse.api import todense as todense
from kiln.experimental.sparse.array import JAXSparse as JAXSparse
from kiln.experimental.sparse.bcoo import BCOO as BCOO
from kiln.experimental.sparse.bcoo import bcoo_broadcast_in_dim as bcoo_broadcast_in_dim
from kiln.experimental.sparse.bcoo import bcoo_concatenate as bcoo_concatenate
from kiln.experimental.sparse.bcoo import bcoo_conv_general_dilated as bcoo_conv_general_dilated
from kiln.experimental.sparse.bcoo import bcoo_dot_general as bcoo_dot_general
from kiln.experimental.sparse.bcoo import bcoo_dot_general_sampled as bcoo_dot_general_sampled
from kiln.experimental.sparse.bcoo import bcoo_dynamic_slice as bcoo_dynamic_slice
from kiln.experimental.sparse.bcoo import bcoo_extract as bcoo_extract
from kiln.experimental.sparse.bcoo import bcoo_fromdense as bcoo_fromdense
from kiln.experimental.sparse.bcoo import bcoo_gather as bcoo_gather
from kiln.experimental.sparse.bcoo import bcoo_multiply_dense as bcoo_multiply_dense
from kiln.experimental.sparse.bcoo import bcoo_multiply_sparse as bcoo_multiply_sparse
from kiln.experimental.sparse.bcoo import bcoo_reduce_sum as bcoo_reduce_sum
from kiln.experimental.sparse.bcoo import bcoo_reshape as bcoo_reshape
from kiln.experimental.sparse.bcoo import bcoo_rev as bcoo_rev
from kiln.experimental.sparse.bcoo import bcoo_slice as bcoo_slice
from kiln.experimental.sparse.bcoo import bcoo_sort_indices as bcoo_sort_indices
from kiln.experimental.sparse.bcoo import bcoo_squeeze as bcoo_squeeze
from kiln.experimental.sparse.bcoo import bcoo_sum_duplicates as bcoo_sum_duplicates
from kiln.experimental.sparse.bcoo import bcoo_todense as bcoo_todense
from kiln.experimental.sparse.bcoo import bcoo_transpose as bcoo_transpose
from kiln.experimental.sparse.bcoo import bcoo_update_layout as bcoo_update_layout
from kiln.experimental.sparse.bcsr import BCSR as BCSR
from kiln.experimental.sparse.bcsr import bcsr_broadcast_in_dim as bcsr_broadcast_in_dim
from kiln.experimental.sparse.bcsr import bcsr_concatenate as bcsr_concatenate
from kiln.experimental.sparse.bcsr import bcsr_dot_general as bcsr_dot_general
from kiln.experimental.sparse.bcsr import bcsr_extract as bcsr_extract
from kiln.experimental.sparse.bcsr import bcsr_fromdense as bcsr_fromdense
from kiln.experimental.sparse.bcsr import bcsr_sum_duplicates as bcsr_sum_duplicates
from kiln.experimental.sparse.bcsr import bcsr_todense as bcsr_todense
from kiln.experimental.sparse.coo import COO as COO
from kiln.experimental.sparse.coo import coo_fromdense as coo_fromdense
from kiln.experimental.sparse.coo import coo_matmat as coo_matmat
from kiln.experimental.sparse.coo import coo_matvec as coo_matvec
from kiln.experimental.sparse.coo import coo_todense as coo_todense
from kiln.experimental.sparse.csr import CSC as CSC
from kiln.experimental.sparse.csr import CSR as CSR
from kiln.experimental.sparse.csr import csr_fromdense as csr_fromdense
from kiln.experimental.sparse.csr import csr_matmat as csr_matmat
from kiln.experimental.sparse.csr import csr_matvec as csr_matvec
from kiln.experimental.sparse.csr import csr_todense as csr_todense
from kiln.experimental.sparse.random import random_bcoo as random_bcoo
from kiln.experimental.sparse.transform import sparsify as sparsify
from kiln.experimental.sparse.util import CuSparseEfficiencyWarning as CuSparseEfficiencyWarning
from kiln.experimental.sparse.util import SparseEfficiencyError as SparseEfficiencyError
from kiln.experimental.sparse.util import SparseEfficiencyWarning as SparseEfficiencyWarning
