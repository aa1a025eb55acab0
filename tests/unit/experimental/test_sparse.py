"""What sparse arrays do beyond jax's, or by themselves; tests/differential has their values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.experimental import sparse
from kiln.experimental.sparse.util import broadcasting_vmap

DENSE = jnp.array([[0.0, 2.0, 0.0], [1.0, 0.0, 4.0]])


def repeated() -> sparse.BCOO:
    """Return an array whose indices repeat along the batch axis."""
    data = jnp.arange(1.0, 9.0).reshape(4, 2)
    return sparse.BCOO((data, jnp.array([[[0], [2]]])), shape=(4, 3))


def test_texts() -> None:
    mat = sparse.BCOO.fromdense(DENSE)
    assert repr(mat) == "BCOO(float32[2, 3], nse=3)"
    batched = sparse.BCOO.fromdense(DENSE, n_batch=1)
    assert repr(batched) == "BCOO(float32[2, 3], nse=2, n_batch=1)"
    assert repr(sparse.BCOO.fromdense(DENSE, n_dense=1)) == "BCOO(float32[2, 3], nse=2, n_dense=1)"
    assert repr(sparse.CSR.fromdense(DENSE)) == "CSR(float32[2, 3], nse=3)"
    seen = []
    kiln.jit(lambda m: seen.append(repr(m)))(mat)
    assert seen[0].endswith("[BCOO(float32[2, 3], nse=3)]")
    hollow = kiln.tree_util.tree_map(lambda x: None, mat)
    assert repr(hollow) == "BCOO(<invalid>)"


def test_they_are_pytrees_with_hashable_statements() -> None:
    mat = sparse.BCOO.fromdense(DENSE)
    leaves, tree = kiln.tree_util.tree_flatten(mat)
    assert len(leaves) == 2
    assert hash(tree) == hash(kiln.tree_util.tree_structure(2 * mat))
    buffers, stated = mat.tree_flatten()
    assert stated == {"shape": (2, 3), "indices_sorted": True, "unique_indices": True}
    again = sparse.BCOO.tree_unflatten(stated, buffers)
    np.testing.assert_array_equal(again.todense(), DENSE)
    with pytest.raises(ValueError, match="invalid"):
        sparse.BCOO.tree_unflatten({"shape": (2, 3)}, buffers)


@pytest.mark.parametrize("indices", [jnp.zeros((3, 2), int), jnp.zeros((3, 1)), jnp.zeros(3, int)])
def test_indices_that_do_not_fit(indices: Any) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        sparse.BCOO((jnp.ones(3), indices), shape=(3,))


def test_the_number_of_elements_must_be_known() -> None:
    with pytest.raises(TypeError, match="nse"):
        kiln.jit(lambda x: sparse.BCOO.fromdense(x).todense())(DENSE)
    with pytest.raises(TypeError, match="nse"):
        kiln.jit(lambda m: m.sum_duplicates())(sparse.BCOO.fromdense(DENSE))


def test_a_sum_over_the_same_places_stores_nothing_twice() -> None:
    mat = sparse.BCOO.fromdense(DENSE)
    assert (mat + mat).nse == (mat - 2 * mat).nse == mat.nse
    assert (mat + sparse.BCOO.fromdense(DENSE)).nse == 2 * mat.nse


def test_batch_axes_that_repeat() -> None:
    mat = repeated()
    dense = mat.todense()
    np.testing.assert_array_equal(mat.reshape(2, 2, 3).todense(), dense.reshape(2, 2, 3))
    np.testing.assert_array_equal(mat.update_layout(n_batch=0).todense(), dense)
    np.testing.assert_array_equal(mat.sum(0).todense(), dense.sum(0))
    np.testing.assert_array_equal(sparse.bcoo_extract(mat, dense).todense(), dense)
    np.testing.assert_array_equal((mat * jnp.ones((4, 3))).todense(), dense)
    np.testing.assert_array_equal(mat.sort_indices().todense(), dense)


def test_products_can_be_differentiated_in_reverse() -> None:
    mat = sparse.BCOO.fromdense(DENSE)

    def of_sparse(data: Any) -> Any:
        left = sparse.BCOO((data, mat.indices), shape=mat.shape)
        return ((left @ mat.T).todense() ** 2).sum()

    def of_dense(data: Any) -> Any:
        return ((DENSE.at[tuple(mat.indices.T)].set(data) @ DENSE.T) ** 2).sum()

    found, expected = kiln.grad(of_sparse)(mat.data), kiln.grad(of_dense)(mat.data)
    np.testing.assert_allclose(found, expected, 1e-6)


def test_scan_over_a_sparse_array_is_refused() -> None:
    def total(mat: Any) -> Any:
        return kiln.lax.scan(lambda c, row: (c + row.sum(), None), 0.0, mat)[0]

    with pytest.raises(NotImplementedError, match="scan"):
        sparse.sparsify(total)(sparse.BCOO.fromdense(DENSE))


def test_dense_arrays_are_scanned_over_under_sparsify() -> None:
    def powers(mat: Any, xs: Any) -> Any:
        return kiln.lax.scan(lambda c, x: (mat @ c + x, c), jnp.ones(2), xs)[0]

    square = sparse.BCOO.fromdense(DENSE[:, :2])
    np.testing.assert_allclose(
        sparse.sparsify(powers)(square, jnp.arange(3.0)), powers(DENSE[:, :2], jnp.arange(3.0))
    )


def test_what_a_layout_does_not_have_says_what_does() -> None:
    with pytest.raises(NotImplementedError, match="use BCOO"):
        -sparse.CSR.fromdense(DENSE)
    with pytest.raises(ValueError, match="must have ndim=2"):
        sparse.COO((jnp.ones(1), jnp.zeros(1, int), jnp.zeros(1, int)), shape=(3,))
    with pytest.raises(ValueError, match="not recognized"):
        sparse.eye(3, sparse_format="lil")


def test_maps_with_axes_that_repeat() -> None:
    add = broadcasting_vmap(jnp.add)
    np.testing.assert_array_equal(add(jnp.ones((1, 2)), jnp.ones((3, 2))), 2 * np.ones((3, 2)))
    assert add(jnp.ones((1, 2)), jnp.ones((1, 2))).shape == (1, 2)
    with pytest.raises(ValueError, match="mismatched"):
        add(jnp.ones((2, 2)), jnp.ones((3, 2)))


def test_results_of_vmap_state_the_shape_of_the_stack() -> None:
    stack = sparse.BCOO.fromdense(jnp.stack([DENSE, 2 * DENSE]), n_batch=1)
    out = kiln.vmap(lambda m: {"m": m.T, "v": m @ jnp.ones(3)})(stack)
    assert out["m"].shape == (2, 3, 2)
    np.testing.assert_array_equal(out["m"].todense()[1], 2 * DENSE.T)
    made = kiln.vmap(lambda x: sparse.BCOO.fromdense(x, nse=3))(jnp.stack([DENSE, DENSE]))
    assert (made.shape, made.n_batch) == ((2, 2, 3), 1)
    with pytest.raises(ValueError, match="out_axis=1"):
        kiln.vmap(lambda m: m, out_axes=1)(stack)


def test_systems_are_solved_and_differentiated() -> None:
    with kiln.enable_x64(True):
        dense = jnp.diag(jnp.arange(1.0, 6.0)) + 0.5 * jnp.eye(5, k=1)
        mat = sparse.CSR.fromdense(dense)
        b = jnp.arange(5.0)

        def by_parts(data: Any, b: Any) -> Any:
            return sparse.linalg.spsolve(data, mat.indices, mat.indptr, b)

        def whole(data: Any, b: Any) -> Any:
            matrix = sparse.CSR((data, mat.indices, mat.indptr), shape=(5, 5)).todense()
            return jnp.linalg.solve(matrix, b)

        np.testing.assert_allclose(kiln.jit(by_parts)(mat.data, b), whole(mat.data, b), 1e-12)
        found, expected = (
            kiln.grad(lambda *xs, f=f: (f(*xs) ** 2).sum(), (0, 1))(mat.data, b)
            for f in (by_parts, whole)
        )
        for mine, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(mine, theirs, 1e-10, 1e-12)
        inverse = kiln.vmap(by_parts, (None, 0), 1)(mat.data, jnp.eye(5))
        np.testing.assert_allclose(inverse, np.linalg.inv(dense), 1e-12, 1e-14)


def test_largest_eigenvalues() -> None:
    guess = np.random.default_rng(0).normal(size=(60, 60))
    matrix = (guess @ guess.T).astype(np.float32)
    start = jnp.asarray(guess[:, :4], jnp.float32)
    with kiln.numpy_rank_promotion("raise"):
        theta, vectors, steps = sparse.linalg.lobpcg_standard(matrix, start)
    np.testing.assert_allclose(theta, np.linalg.eigvalsh(matrix)[::-1][:4], 1e-5)
    np.testing.assert_allclose(matrix @ vectors, vectors * theta, atol=1e-2)
    assert 0 < steps < 100
    same = kiln.jit(lambda x: sparse.linalg.lobpcg_standard(lambda v: matrix @ v, x))(start)
    np.testing.assert_allclose(same[0], theta, 1e-5)
    assert sparse.linalg.lobpcg_standard(matrix, start, m=2)[2] == 2
    with pytest.raises(ValueError, match="search dim"):
        sparse.linalg.lobpcg_standard(matrix, jnp.asarray(guess[:, :20], jnp.float32))
    with pytest.raises(ValueError, match="same dtypes"):
        sparse.linalg.lobpcg_standard(lambda v: (matrix @ v).astype(int), start)


def test_zeros_of_a_dense_element_have_slopes() -> None:
    x = np.array([[1.0, 0.0], [0.0, 2.0]], np.float32)

    def round_trip(x: Any) -> Any:
        return sparse.BCOO.fromdense(x, nse=1, n_batch=0, n_dense=2).todense()

    assert kiln.jacobian(round_trip)(x).reshape(4, 4).tolist() == np.eye(4).tolist()
