# ruff: noqa: E501
"""Rows of `kiln.experimental.sparse`: by the values that are stored, and by dense operands."""

from __future__ import annotations

SPARSE = """
bcoo_broadcast_in_dim: bcoo_broadcast_in_dim(bcoo_fromdense(x, nse=6), shape=(2, 2, 3), broadcast_dimensions=(1, 2)).todense()
bcoo_concatenate: bcoo_concatenate([BCOO.fromdense(x, nse=6), BCOO.fromdense(y, nse=6)], dimension=1).todense()
bcoo_conv_general_dilated: bcoo_conv_general_dilated(bcoo_fromdense(n[None, None], nse=12), v[None, None], window_strides=(1,), padding='SAME').todense()
bcoo_dot_general: bcoo_dot_general(bcoo_fromdense(x, nse=6), m, dimension_numbers=(((1,), (0,)), ((), ())))
bcoo_dot_general: bcoo_dot_general(bcoo_fromdense(x, nse=6), bcoo_fromdense(m, nse=6), dimension_numbers=(((1,), (0,)), ((), ()))).todense()
bcoo_dot_general: bcoo_dot_general(bcoo_fromdense(B, n_batch=1, nse=12), B + 1, dimension_numbers=(((2,), (2,)), ((0,), (0,))))
bcoo_dot_general_sampled: bcoo_dot_general_sampled(x, m, np.array([[0, 1], [1, 0]]), dimension_numbers=(((1,), (0,)), ((), ())))
bcoo_dynamic_slice: bcoo_dynamic_slice(bcoo_fromdense(W, nse=12), (1, 1), (2, 2)).todense()
bcoo_extract: bcoo_extract(bcoo_fromdense(np.eye(3, 4), nse=3), W).data
bcoo_fromdense: bcoo_fromdense(x, nse=6).data
bcoo_gather: bcoo_gather(bcoo_fromdense(v, nse=4), np.array([[1], [2]]), lax.GatherDimensionNumbers(**dims('gather', (), (0,), (0,))), (1,)).todense()
bcoo_multiply_dense: bcoo_multiply_dense(bcoo_fromdense(x, nse=6), y)
bcoo_multiply_sparse: bcoo_multiply_sparse(bcoo_fromdense(x, nse=6), bcoo_fromdense(y, nse=6)).todense()
bcoo_reduce_sum: bcoo_reduce_sum(bcoo_fromdense(x, nse=6), axes=(1,)).todense()
bcoo_reshape: bcoo_reshape(bcoo_fromdense(x, nse=6), new_sizes=(3, 2)).todense()
bcoo_rev: bcoo_rev(bcoo_fromdense(x, nse=6), (1,)).todense()
bcoo_slice: bcoo_slice(bcoo_fromdense(W, nse=12), start_indices=(0, 1), limit_indices=(2, 3)).todense()
bcoo_sort_indices: bcoo_sort_indices(BCOO((v, np.array([[3], [0], [2], [1]])), shape=(4,))).data
bcoo_squeeze: bcoo_squeeze(bcoo_fromdense(x[:1], nse=3), dimensions=(0,)).todense()
bcoo_sum_duplicates: bcoo_sum_duplicates(BCOO((v, np.array([[3], [0], [3], [1]])), shape=(4,)), nse=4).todense()
bcoo_todense: bcoo_todense(BCOO((v, np.array([[3], [0], [3], [1]])), shape=(5,)))
bcoo_transpose: bcoo_transpose(bcoo_fromdense(x, nse=6), permutation=(1, 0)).todense()
bcoo_update_layout: bcoo_update_layout(bcoo_fromdense(x, nse=6), n_batch=1, on_inefficient=None).todense()
bcsr_broadcast_in_dim: bcsr_broadcast_in_dim(bcsr_fromdense(x, nse=6), shape=(2, 2, 3), broadcast_dimensions=(1, 2)).todense()
bcsr_concatenate: bcsr_concatenate([bcsr_fromdense(x, nse=6), bcsr_fromdense(y, nse=6)], dimension=0).todense()
bcsr_dot_general: bcsr_dot_general(bcsr_fromdense(x, nse=6), m, dimension_numbers=(((1,), (0,)), ((), ())))
bcsr_extract: bcsr_extract(np.array([0, 2, 1]), np.array([0, 2, 3, 3]), W)
bcsr_fromdense: bcsr_fromdense(x, nse=6).data
bcsr_sum_duplicates: bcsr_sum_duplicates(bcsr_fromdense(x, nse=6), nse=6).todense()
bcsr_todense: bcsr_todense(bcsr_fromdense(x, nse=6))
coo_fromdense: coo_fromdense(x, nse=6).data
coo_matmat: coo_matmat(coo_fromdense(x, nse=6), m)
coo_matvec: coo_matvec(coo_fromdense(x, nse=6), v[:3])
coo_todense: coo_todense(coo_fromdense(x, nse=6))
csr_fromdense: csr_fromdense(x, nse=6).data
csr_matmat: csr_matmat(csr_fromdense(x, nse=6), m)
csr_matvec: csr_matvec(csr_fromdense(x, nse=6), v[:3])
csr_todense: csr_todense(csr_fromdense(x, nse=6))
todense: todense(bcoo_fromdense(x, nse=6))
sparsify: sparsify(lambda a, b: a @ b)(bcoo_fromdense(x, nse=6), m)
sparsify: sparsify(lambda a, b: (a * b + b).sum(0))(bcoo_fromdense(x, nse=6), bcoo_fromdense(y, nse=6)).todense()
grad: grad(lambda a: jnp.sum(a.todense() ** 3))(bcoo_fromdense(x, nse=6)).data
value_and_grad: value_and_grad(lambda a: jnp.sum(a.todense() ** 3))(bcoo_fromdense(x, nse=6))[1].data
jacfwd: jacfwd(lambda a: a.todense() ** 3)(bcoo_fromdense(v, nse=4)).data
jacrev: jacrev(lambda a: a.todense() ** 3)(bcoo_fromdense(v, nse=4)).data
jacobian: jacobian(lambda a: a.todense() ** 3)(bcoo_fromdense(v, nse=4)).data
"""

LINALG = "spsolve: spsolve(s.ravel(), np.tile(np.arange(3), 3), np.array([0, 3, 6, 9]), v[:3])"

TEXTS = [("experimental.sparse", SPARSE), ("experimental.sparse.linalg", LINALG)]
