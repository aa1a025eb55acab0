"""Sparse arrays have jax's values, layouts and numbers of stored elements.

In an expression `s(2, 3)` is a BCOO array of that shape with zeros in many places, `d(2, 3)` one
that stores elements twice, out of order and outside; both take `n_batch` and `n_dense`, and `seed`.
`r(2, 3)` is a BCSR array. A sparse result is compared as a dense array, its layout, and nse.
"""

from __future__ import annotations

import functools
import importlib
import math
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import kiln
from kiln.base.options.config import override
from tests.differential.expressions import lines, names
from tests.differential.operands import smooth
from tests.differential.oracle import Case, Topic

VALUES: dict[str, str] = {
    "construction": """
        sparse.BCOO.fromdense(f(3, 4))
        stored(s(3, 4))
        stored(s(3, 4, nse=9))
        stored(s(3, 4, nse=2))
        stored(s(2, 3, 4, n_batch=1))
        stored(s(2, 3, 4, n_dense=1))
        stored(s(2, 3, 4, n_batch=2, n_dense=1))
        stored(s(3, 4, n_batch=2))
        stored(s(3, 4, n_dense=2))
        stored(s(0, 4)), stored(s(4)), stored(sparse.BCOO.fromdense(i(3)[1]))
        stored(sparse.BCOO.fromdense(i(3, 4) % 3, index_dtype='int8'))
        jax.jit(lambda x: sparse.BCOO.fromdense(x, nse=5).todense())(f(3, 4))
        jax.grad(lambda x: (sparse.BCOO.fromdense(x, nse=12).data ** 2).sum())(f(3, 4))
        jax.grad(lambda x: (sparse.BCOO.fromdense(x, nse=5).todense() ** 2).sum())(f(3, 4))
        jax.vmap(lambda x: sparse.BCOO.fromdense(x, nse=3))(f(2, 3, 4))
        stored(sparse.BCOO.from_scipy_sparse(scipy_sparse.csr_matrix(np.eye(3, 4, 1))))
        d(3, 4), d(2, 3, 4, n_batch=1), d(2, 3, 4, n_dense=1)
        jax.grad(lambda x: (d(3, 4, data=x).todense() ** 3).sum())(f(6))
        jax.jvp(lambda x: d(3, 4, data=x).todense(), (f(6),), (f(6, seed='t'),))
        stored(sparse.eye(3)), stored(sparse.eye(3, 5, k=1)), stored(sparse.eye(4, 3, k=-2))
        stored(sparse.eye(3, 4, n_batch=1)), stored(sparse.eye(3, k=1, n_dense=1)), sparse.eye(3, k=7)
        [sparse.eye(3, 4, 1, sparse_format=k).todense() for k in ('coo', 'csr', 'csc')]
        stored(sparse.empty((3, 4), nse=2)), stored(sparse.empty((2, 3), 'int32', n_batch=1))
        [sparse.empty((3, 4), sparse_format=k).todense() for k in ('coo', 'csr', 'csc', 'bcsr')]
        sparse.BCOO((f(3), i(4, 2)), shape=(3, 4))
        sparse.BCOO.fromdense(f(3, 4), n_batch=3)
        stored(random_bcoo(jax.random.key(0), (4, 5)))
        stored(random_bcoo(jax.random.key(0), (2, 4, 5), n_batch=1, nse=3, sorted_indices=True))
        stored(random_bcoo(jax.random.key(1), (4, 5, 2), n_dense=1, generator=jax.random.normal))
        stored(random_bcoo(jax.random.key(1), (4, 5), unique_indices=False, indices_dtype='int16'))
        random_bcoo(jax.random.key(0), (2, 3), nse=6)
        np.asarray([len(s(3, 4)), s(3, 4).size, s(3, 4).ndim])
    """,
    "order": """
        stored(d(3, 4).sort_indices()), stored(d(2, 3, 4, n_batch=1).sort_indices())
        stored(d(3, 4).sum_duplicates()), stored(d(3, 4).sum_duplicates(nse=8))
        stored(d(3, 4).sum_duplicates(nse=2)), stored(d(3, 4).sum_duplicates(remove_zeros=False))
        stored(d(2, 3, 4, n_batch=1).sum_duplicates()), stored(d(2, 3, 4, n_dense=1).sum_duplicates())
        stored(s(3, 4, n_batch=2).sum_duplicates()), stored(d(5).sum_duplicates())
        jax.jit(lambda m: m.sum_duplicates(nse=5))(d(3, 4))
        jax.grad(lambda x: (d(3, 4, data=x).sum_duplicates(nse=6, remove_zeros=False).data ** 2).sum())(f(6))
        jax.grad(lambda x: (d(3, 4, data=x).sort_indices().data[:2] ** 2).sum())(f(6))
        jax.vmap(lambda m: m.sum_duplicates(nse=4))(d(2, 3, 4, n_batch=1))
        stored(bcoo.bcoo_eliminate_zeros(sparse.BCOO((arr([1., 0., 2.]), arr([[0], [1], [2]])), shape=(4,))))
        stored(sparse.bcoo_extract(s(3, 4), f(3, 4, seed='x')))
        stored(sparse.bcoo_extract(d(3, 4), f(3, 4, seed='x')))
        stored(sparse.bcoo_extract(d(3, 4), f(3, 4, seed='x'), assume_unique=True))
        stored(sparse.bcoo_extract(s(2, 3, 4, n_batch=1), f(2, 3, 4, seed='x')))
        stored(sparse.bcoo_extract(s(2, 3, 4, n_dense=1), f(2, 3, 4, seed='x')))
        sparse.bcoo_extract(s(3, 4), f(4, 3))
        sparse.bcoo_extract(f(3, 4), f(3, 4))
    """,
    "layout": """
        s(3, 4, 2).update_layout(n_batch=1, on_inefficient=None)
        s(3, 4, 2).update_layout(n_dense=1, on_inefficient=None)
        s(3, 4, 2, n_batch=1).update_layout(n_batch=0), s(3, 4, 2, n_dense=1).update_layout(n_dense=0)
        s(3, 4, 2, n_dense=2).update_layout(n_dense=1), s(3, 4, 2, n_batch=2).update_layout(n_batch=1)
        s(3, 4, 2, n_batch=1, n_dense=1).update_layout(n_batch=0, n_dense=0)
        s(1, 4, 1).update_layout(n_batch=1, n_dense=1)
        d(3, 4, 2, n_batch=1).update_layout(n_batch=0), d(3, 4).update_layout(n_batch=1, on_inefficient=None)
        d(3, 4).update_layout(n_dense=1, on_inefficient='warn')
        s(3, 4).update_layout(n_batch=1)
        s(3, 4).update_layout(n_batch=2, n_dense=1)
        s(3, 4).update_layout(n_batch=-1)
        s(1, 4).update_layout(n_batch=1, on_inefficient='x')
    """,
    "axes": """
        s(3, 4).T, d(3, 4).T, s(2, 3, 4).transpose((1, 2, 0))
        s(2, 3, 4, n_batch=1).transpose((0, 2, 1)), s(2, 3, 4, n_dense=1).transpose((1, 0, 2))
        s(2, 3, 4, 5, n_batch=2).transpose((1, 0, 3, 2)), s(2, 3, 4, n_dense=2).transpose((0, 2, 1))
        s(2, 3, 4, n_batch=1).transpose((1, 0, 2))
        s(2, 3, 4).transpose((0, 0, 1))
        sparse.bcoo_broadcast_in_dim(s(3, 4), shape=(2, 3, 4), broadcast_dimensions=(1, 2))
        sparse.bcoo_broadcast_in_dim(s(3, 4), shape=(3, 4, 1), broadcast_dimensions=(0, 1))
        sparse.bcoo_broadcast_in_dim(s(3, 4), shape=(3, 1, 4), broadcast_dimensions=(0, 2))
        sparse.bcoo_broadcast_in_dim(s(3, 4, n_batch=1), shape=(3, 2, 4), broadcast_dimensions=(0, 2))
        sparse.bcoo_broadcast_in_dim(s(3, 4, n_dense=1), shape=(2, 3, 5, 4), broadcast_dimensions=(1, 3))
        sparse.bcoo_broadcast_in_dim(s(3, 4, n_dense=1), shape=(2, 3, 4), broadcast_dimensions=(1, 2))
        sparse.bcoo_broadcast_in_dim(s(3, 4), shape=(3, 4, 5), broadcast_dimensions=(0, 1))
        sparse.bcoo_broadcast_in_dim(s(3, 4), shape=(2, 3, 4), broadcast_dimensions=(1,))
        sparse.bcoo_squeeze(s(1, 3, 1), dimensions=(0, 2)), sparse.bcoo_squeeze(s(1, 3, 1, n_batch=1, n_dense=1), dimensions=(0, -1))
        sparse.bcoo_squeeze(s(1, 3, 1), dimensions=(1,))
        sparse.bcoo_rev(s(3, 4), dimensions=(0,)), sparse.bcoo_rev(d(3, 4), dimensions=(0, 1))
        sparse.bcoo_rev(s(2, 3, 4, n_batch=1), dimensions=(0, 2)), sparse.bcoo_rev(s(2, 3, 4, n_dense=1), dimensions=(0, 2))
        s(3, 4).reshape(4, 3), d(3, 4).reshape(12), s(3, 4).reshape(2, 2, 3), s(12).reshape(3, 4)
        s(2, 3, 4, n_batch=1).reshape(2, 12), s(6, 4, n_batch=1).reshape(2, 3, 4)
        s(2, 3, 4, n_dense=1).reshape(6, 2, 2), s(2, 1).reshape(1, 2, 1), s(1, 1).reshape(())
        s(2, 3, n_batch=1).reshape(3, 2)
        s(2, 3, n_dense=1).reshape(3, 2)
        sparse.bcoo_reshape(s(3, 4), new_sizes=(2, 6), dimensions=(1, 0))
        sparse.bcoo_concatenate([s(3, 4), d(2, 4)], dimension=0), sparse.bcoo_concatenate([s(3, 4), s(3, 2)], dimension=1)
        sparse.bcoo_concatenate([s(3, 4, n_batch=1), s(2, 4, n_batch=1, seed='2')], dimension=0)
        sparse.bcoo_concatenate([s(3, 4, n_batch=1), s(3, 2, n_batch=1)], dimension=1)
        sparse.bcoo_concatenate([s(3, 4, n_dense=1), s(2, 4, n_dense=1)], dimension=0)
        sparse.bcoo_concatenate([s(3, 4, n_dense=1), s(3, 4, n_dense=1)], dimension=1)
        sparse.bcoo_concatenate([s(3, 4), s(3, 4, n_batch=1)], dimension=0)
        sparse.bcoo_concatenate([s(3, 4), s(3, 5)], dimension=0)
        sparse.bcoo_concatenate([s(3, 4), s(1, 4, n_batch=1)], dimension=0)
        repeated(), repeated().transpose((0, 1)), -repeated(), abs(repeated())
    """,
    "parts": """
        s(3, 4)[1], s(3, 4)[1:], s(3, 4)[:, 1], s(3, 4)[::2, 1:3], s(3, 4)[-1], s(3, 4)[2, 3]
        d(3, 4)[1], d(3, 4)[1:, :3], d(3, 4)[::2], s(3, 4)[None], s(3, 4)[..., 0], s(3, 4)[:, ::-1]
        s(2, 3, 4, n_batch=1)[1], s(2, 3, 4, n_batch=1)[:, 1:], s(2, 3, 4, n_dense=1)[0, :, 1:]
        s(3, 4)[arr([2, 0])], s(3, 4)[:, arr([1, 1, 3])], s(3, 4)[arr([2, 0]), arr([1, 3])]
        s(3, 4)[arr([[2, 0], [1, 1]])], s(2, 3, 4, n_batch=1)[arr([1, 0])]
        s(3, 4)[5]
        s(3, 4)[1, 2, 0]
        jax.jit(lambda m, i: m[i])(s(3, 4), 1), jax.jit(lambda m, i: m[:, i])(s(3, 4), -1)
        [x for x in s(3, 4)]
        sparse.bcoo_slice(s(3, 4), start_indices=(1, 0), limit_indices=(3, 4), strides=(1, 2))
        sparse.bcoo_slice(repeated(), start_indices=(1, 0), limit_indices=(3, 2))
        sparse.bcoo_slice(s(3, 4), start_indices=(1, 0), limit_indices=(5, 4))
        sparse.bcoo_dynamic_slice(s(3, 4), (1, 1), (2, 2)), sparse.bcoo_dynamic_slice(s(3, 4), (2, -1), (2, 2))
        sparse.bcoo_dynamic_slice(s(2, 3, 4, n_batch=1), (1, 1, 0), (1, 2, 2))
        sparse.bcoo_dynamic_slice(s(2, 3, 4, n_dense=1), (1, 1, 1), (1, 2, 2)), sparse.bcoo_dynamic_slice(repeated(), (1, 1), (2, 2))
        sparse.bcoo_dynamic_slice(s(3, 4), (1, 1), (4, 2))
        jax.grad(lambda x: (d(3, 4, data=x)[1:].todense() ** 2).sum())(f(6))
    """,
    "products": """
        s(3, 4) @ f(4), s(3, 4) @ f(4, 2), f(3) @ s(3, 4), f(2, 3) @ s(3, 4), d(3, 4) @ f(4, 2)
        s(4) @ f(4), f(4) @ s(4), s(4) @ f(4, 2), s(3, 4) @ i(4)
        s(2, 3, 4, n_batch=1) @ f(2, 4, 5), s(2, 3, 4, n_batch=1) @ f(4), f(2, 5, 3) @ s(2, 3, 4, n_batch=1)
        s(3, 4, n_batch=1) @ f(4, 2), s(3, 4, n_batch=2) @ f(4, 2), f(2, 3) @ s(3, 4, n_batch=1)
        s(3, 4, n_dense=1) @ f(4)
        f(2, 3) @ s(3, 4, n_dense=1)
        jax.jit(lambda m, v: m @ v)(s(3, 4), f(4))
        jax.grad(lambda x, v: ((d(3, 4, data=x) @ v) ** 2).sum(), (0, 1))(f(6), f(4))
        jax.grad(lambda x, v: ((v @ d(3, 4, data=x)) ** 2).sum(), (0, 1))(f(6), f(2, 3))
        jax.vmap(lambda m, v: m @ v)(s(2, 3, 4, n_batch=1), f(2, 4))
        jax.vmap(lambda m, v: m @ v, (0, None), 1)(s(2, 3, 4, n_batch=1), f(4))
        jax.vmap(lambda m: m.T)(s(2, 3, 4, n_batch=1)), jax.vmap(lambda x: 2 * s(3, 4) * x)(f(2))
        jax.vmap(lambda m: m.T)(s(2, 3, 4))
        jax.jacfwd(lambda x: d(3, 4, data=x) @ f(4))(f(6))
        s(3, 4) @ s(4, 2), d(3, 4) @ d(4, 3), s(3, 4) @ s(4), s(4) @ s(4, 2), s(4) @ s(4, seed='2')
        s(2, 3, 4, n_batch=1) @ s(2, 4, 3, n_batch=1), s(3, 4, n_batch=1) @ s(4, 2)
        jax.jacfwd(lambda x: ((d(3, 4, data=x) @ d(4, 3)).todense() ** 2).sum())(f(6))
        sparse.bcoo_dot_general(s(2, 3, 4), f(3, 4, 5), dimension_numbers=(((1, 2), (0, 1)), ((), ())))
        sparse.bcoo_dot_general(s(2, 3, 4, n_batch=1), f(2, 3), dimension_numbers=(((0, 1), (0, 1)), ((), ())))
        sparse.bcoo_dot_general(s(2, 3, 4, n_batch=2), f(2, 3, 5), dimension_numbers=(((1,), (1,)), ((0,), (0,))))
        sparse.bcoo_dot_general(s(2, 3, 4, n_batch=1, n_dense=1), f(3, 5), dimension_numbers=(((1,), (0,)), ((), ())))
        sparse.bcoo_dot_general(repeated(), f(3, 2), dimension_numbers=(((1,), (0,)), ((), ())))
        sparse.bcoo_dot_general(s(2, 3), f(4), dimension_numbers=(((), ()), ((), ())))
        sparse.bcoo_dot_general(s(2, 3), f(2, 4), dimension_numbers=(((), ()), ((0,), (0,))))
        sparse.bcoo_dot_general(i(2, 3), s(3, 4), dimension_numbers=(((1,), (0,)), ((), ())), preferred_element_type='float32')
        sparse.bcoo_dot_general_sampled(f(3, 4), f(4, 2), s(3, 2).indices, dimension_numbers=(((1,), (0,)), ((), ())))
        sparse.bcoo_dot_general_sampled(f(3), f(2), s(3, 2).indices, dimension_numbers=(((), ()), ((), ())))
        sparse.bcoo_dot_general_sampled(f(4, 3), f(4, 2), s(3, 2, n_batch=1).indices, dimension_numbers=(((0,), (0,)), ((), ())))
        sparse.bcoo_conv_general_dilated(s(1, 1, 6), f(1, 1, 3), window_strides=(1,), padding=[(1, 1)])
        sparse.bcoo_conv_general_dilated(s(1, 1, 6), s(1, 1, 3), window_strides=(1,), padding='VALID')
    """,
    "elements": """
        s(3, 4) * 2, 2 * s(3, 4), s(3, 4) / 2.0, -s(3, 4), +s(3, 4), abs(s(3, 4)), s(3, 4) ** 2
        abs(d(3, 4)), d(3, 4) ** 3, s(3, 4) * f(3, 4), s(3, 4) * f(4), f(3, 1) * s(3, 4), d(3, 4) * f(3, 4)
        s(2, 3, 4, n_batch=1) * f(3, 4), s(2, 3, 4, n_dense=1) * f(4), s(3, 4) / f(3, 4), repeated() * f(4, 3)
        s(3, 4) + s(3, 4, seed='2'), d(3, 4) - s(3, 4), s(3, 4) + f(3, 4), f(3, 4) + s(3, 4), s(4) + f(3, 4)
        s(2, 3, n_batch=1) + s(2, 3, n_batch=1, seed='2')
        s(3, 4) + s(3, 4, n_batch=1)
        s(3, 4) + s(3, 5)
        s(3, 4) + 1.0
        s(3, 4) - f(3, 4)
        1.0 / s(3, 4)
        s(3, 4) ** -1
        s(3, 4) > 0
        s(3, 4) == s(3, 4)
        s(3, 4) * s(3, 4, seed='2'), d(3, 4) * s(3, 4), s(3, 4) * s(3, 1), s(2, 3, n_batch=1) * s(2, 3, n_batch=1, seed='2')
        s(2, 3, n_batch=1) * s(2, 3, seed='2'), s(2, 3, n_dense=1) * s(2, 3, n_dense=1, seed='2')
        s(3, 4).sum(), s(3, 4).sum(0), s(3, 4).sum((0, 1)), d(3, 4).sum(axis=1), s(3, 4).sum(1, keepdims=True)
        s(2, 3, 4, n_batch=1).sum(0), s(2, 3, 4, n_dense=1).sum((0, 2)), s(2, 3, 4, n_batch=2).sum(1)
        sparse.bcoo_reduce_sum(repeated(), axes=(1,))
        s(3, 4).astype('int32'), s(3, 4).astype('bfloat16'), d(3, 4).astype('complex64')
        sparse.sparsify(jnp.sin)(d(3, 4)), sparse.sparsify(jnp.tanh)(s(2, 3, 4, n_batch=1))
        jax.grad(lambda x: (abs(d(3, 4, data=x)).todense() * f(3, 4)).sum())(f(6))
        sparse.sparsify(jnp.cos)(s(3, 4))
    """,
    "sparsify": """
        sparse.sparsify(lambda m, v: 2 * m.T @ v)(s(3, 4), f(3))
        sparse.sparsify(lambda m: (jnp.sin(m).sum(0), m * 2, 3.0))(s(3, 4))
        sparse.sparsify(lambda m: {'a': m + m, 'b': [m.T]})(s(3, 4))['b']
        sparse.sparsify(jax.jit(lambda m, v: m @ v))(s(3, 4), f(4)), jax.jit(sparse.sparsify(lambda m, v: m @ v))(s(3, 4), f(4))
        sparse.sparsify(lambda m: sparse.todense(m) + 1)(s(3, 4)), sparse.todense(s(3, 4)), sparse.todense(f(2))
        sparse.sparsify(lambda m, k: lax.cond(k > 0, lambda m: 2 * m, lambda m: -m, m))(s(3, 4), 1)
        sparse.sparsify(lambda m: lax.fori_loop(0, 3, lambda i, m: 2 * m, m))(s(3, 4))
        sparse.sparsify(lambda m, v: lax.while_loop(lambda v: v.sum() < 1e3, lambda v: abs(m @ v) + 1, v))(s(3, 3), abs(f(3)))
        sparse.sparsify(lambda m, v: lax.scan(lambda v, _: (m @ v, v[0]), v, None, 3))(s(3, 3), f(3))
        sparse.sparsify(lambda m: jnp.concatenate([m, m], 1))(s(3, 4)), sparse.sparsify(lambda m: jnp.stack([m, m]))(s(3, 4))
        sparse.sparsify(lambda m: jnp.squeeze(m[None], 0))(s(3, 4)), sparse.sparsify(lambda m: m.reshape(-1)[::-1])(s(3, 4))
        sparse.sparsify(lambda m, v: jnp.dot(v, m))(s(3, 4), f(3)), sparse.sparsify(lambda m: jnp.einsum('ij,j->i', m, jnp.ones(4)))(s(3, 4))
        sparse.sparsify(lambda m: jnp.exp(m))(s(3, 4))
        sparse.sparsify(lambda x, m: x + m)(f(3, 4), s(3, 4)), sparse.sparsify(lambda x, *, k: x * k)(s(3, 4), k=3)
        jax.grad(lambda v: sparse.sparsify(lambda m, v: jnp.sin(m @ v).sum())(s(3, 4), v))(f(4))
        jax.vmap(lambda m, v: sparse.sparsify(lambda m, v: m @ v)(m, v))(s(2, 3, 4, n_batch=1), f(2, 4))
    """,
    "derivatives": """
        sparse.grad(lambda m, v: ((m @ v) ** 2).sum())(s(3, 4), f(4))
        sparse.grad(lambda m, v: ((m @ v) ** 2).sum(), (0, 1))(s(3, 4), f(4))
        sparse.value_and_grad(lambda v, m: ((m @ v) ** 2).sum(), 1)(f(4), s(3, 4))
        sparse.grad(lambda p, v: ((p['m'] @ v + p['b']) ** 2).sum())({'m': s(3, 4), 'b': f(3)}, f(4))['m']
        sparse.grad(lambda m: ((m @ f(4)).sum(), 2.0), has_aux=True)(s(3, 4))
        sparse.jacfwd(lambda m: m @ f(4))(s(3, 4)), sparse.jacrev(lambda m: m @ f(4))(s(3, 4))
        sparse.jacobian(lambda v, m: m @ v, 0)(f(4), s(3, 4))
        jax.grad(lambda m: (m @ f(4)).sum())(s(3, 4))
    """,
    "rows": """
        r(3, 4), r(2, 3, 4, n_batch=1), r(3, 4, 2, n_dense=1), rows(r(3, 4)), rows(r(3, 4, nse=9))
        r(3, 4) @ f(4), r(3, 4) @ f(4, 2), r(2, 3, 4, n_batch=1) @ f(2, 4, 2), jax.jit(lambda m, v: m @ v)(r(3, 4), f(4))
        f(2, 3) @ r(3, 4)
        jax.vmap(lambda m, v: m @ v)(r(2, 3, 4, n_batch=1), f(2, 4)), jax.grad(lambda v: (r(3, 4) @ v).sum())(f(4))
        sparse.sparsify(jnp.sin)(r(3, 4)), sparse.sparsify(lambda m: -m)(r(3, 4)), r(3, 4).to_bcoo(), rows(sparse.BCSR.from_bcoo(d(3, 4)))
        sparse.bcsr_concatenate([r(3, 4), r(2, 4)], dimension=0), sparse.bcsr_broadcast_in_dim(r(3, 4), shape=(2, 3, 4), broadcast_dimensions=(1, 2))
        sparse.BCSR.from_bcoo(d(3, 4)).sum_duplicates(), sparse.bcsr_extract(r(3, 4).indices, r(3, 4).indptr, f(3, 4, seed='x'))
        rows(sparse.BCSR.from_scipy_sparse(scipy_sparse.csr_matrix(np.eye(3, 4, 1))))
        sparse.BCSR.fromdense(f(3))
        sparse.BCSR.from_bcoo(s(3, 4, 2))
        r(3, 4) + r(3, 4)
        r(3, 4).T
        [k.fromdense(g(3, 4)).todense() for k in (sparse.COO, sparse.CSR, sparse.CSC)]
        [k.fromdense(g(3, 4)) @ f(4) for k in (sparse.COO, sparse.CSR, sparse.CSC)]
        [k.fromdense(g(3, 4)) @ f(4, 2) for k in (sparse.COO, sparse.CSR, sparse.CSC)]
        [k.fromdense(g(3, 4)).T.todense() for k in (sparse.COO, sparse.CSR, sparse.CSC)]
        [k.fromdense(g(3, 4)).T @ i(3) for k in (sparse.COO, sparse.CSR, sparse.CSC)]
        sparse.coo_matvec(sparse.COO.fromdense(g(3, 4)), f(3), transpose=True), sparse.csr_matmat(sparse.CSR.fromdense(g(3, 4)), f(3, 2), transpose=True)
        sparse.COO.fromdense(g(3, 4)) @ sparse.COO.fromdense(g(4, 3))
        sparse.CSR.fromdense(g(3, 4)) @ f(4, 2, 2)
        jax.grad(lambda x: (sparse.COO((x, i(3) % 3, i(3) % 4), shape=(3, 4)) @ f(4)).sum())(f(3))
    """,
}


def _names(lib: Any) -> dict[str, Any]:
    known = names(lib)
    if isinstance(lib, ModuleType):
        sparse = importlib.import_module(f"{lib.__name__}.experimental.sparse")
        bcoo = importlib.import_module(f"{lib.__name__}.experimental.sparse.bcoo")
    else:
        sparse = lib.experimental.sparse
        bcoo = sparse.bcoo
    jnp = lib.numpy

    def thinned(*shape: int, seed: str = "") -> np.ndarray:
        x = smooth("float32", shape, seed)
        return np.where(smooth("float32", shape, seed + "zero") > 0.5, x, 0).astype(np.float32)

    def coordinates(*shape: int, seed: str = "", **layout: Any) -> Any:
        return sparse.BCOO.fromdense(jnp.asarray(thinned(*shape, seed=seed)), **layout)

    def compressed(*shape: int, seed: str = "", **layout: Any) -> Any:
        return sparse.BCSR.fromdense(jnp.asarray(thinned(*shape, seed=seed)), **layout)

    def untidy(*shape: int, n_batch: int = 0, n_dense: int = 0, data: Any = None) -> Any:
        batch, dense = shape[:n_batch], shape[len(shape) - n_dense :]
        inner = shape[n_batch : len(shape) - n_dense]
        steps = 5 * np.arange(math.prod(batch) * 6 * len(inner)).reshape(*batch, 6, len(inner)) % 7
        indices = np.minimum(steps, inner)
        indices[..., 5, :] = indices[..., 1, :]
        if data is None:
            data = smooth("float32", (*batch, 6, *dense), "untidy")
        return sparse.BCOO((jnp.asarray(data), jnp.asarray(indices)), shape=shape)

    def repeated() -> Any:
        indices = jnp.asarray(np.array([[[0], [2]]]))
        return sparse.BCOO((jnp.asarray(smooth("float32", (4, 2), "")), indices), shape=(4, 3))

    more = {
        "sparse": sparse,
        "bcoo": bcoo,
        "random_bcoo": sparse.random_bcoo,
        "s": coordinates,
        "r": compressed,
        "d": untidy,
        "g": lambda *shape: jnp.asarray(thinned(*shape)),
        "repeated": repeated,
        "stored": lambda m: [m.data, m.indices, m],
        "rows": lambda m: [m.data, m.indices, m.indptr],
        "scipy_sparse": importlib.import_module("scipy.sparse"),
    }
    return known | more


def _plain(out: Any) -> Any:
    if isinstance(out, (list, tuple)):
        return [_plain(x) for x in out]
    if isinstance(out, dict):
        return [_plain(out[key]) for key in sorted(out)]
    if hasattr(out, "todense"):
        layout = [out.nse, out.n_batch, out.n_dense] if hasattr(out, "n_batch") else [out.nse]
        return [out.todense(), np.asarray([*layout, *out.shape])]
    return out


def _run(lib: Any, text: str) -> Any:
    with lib.threefry_partitionable(True):
        return _plain(eval(text, _names(lib)))


def _cases() -> Iterable[Case]:
    for group, text in VALUES.items():
        for line in lines(text):
            yield Case(group, line, functools.partial(_run, text=line), tolerance=1e-5)


TOPIC = Topic("sparse", _cases())


@pytest.mark.parametrize("group", TOPIC.groups)
def test_as_jax(group: str) -> None:
    TOPIC.check(group, kiln)


# Elements are combined with arrays of other ranks, which is the user's request.
@pytest.mark.parametrize("group", sorted({*TOPIC.groups} - {"elements"}))
def test_no_rank_is_promoted(group: str) -> None:
    with override(numpy_rank_promotion="raise"):
        TOPIC.check(group, kiln)
