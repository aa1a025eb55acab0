"""With the option `batch_invariant` a row has the same bits alone and in a batch of any size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax, nn

SIZES = (1, 2, 3, 4, 5, 7, 8, 16, 17, 33, 100)
MOST = max(SIZES)
Row = Callable[[Any], Any]


def _weights(*shape: int, dtype: Any = np.float32) -> Any:
    drawn = np.random.default_rng(sum(shape)).standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        drawn = drawn + 1j * drawn[..., ::-1]
    return jnp.asarray(drawn.astype(np.float32) if dtype == jnp.bfloat16 else drawn, dtype)


def _conv(x: Any, *shape: int, **options: Any) -> Any:
    return lax.conv_general_dilated(x[None], _weights(*shape), (1, 1), "SAME", **options)[0]


def _near_identity(a: Any) -> Any:
    return a / a.shape[-1] + jnp.eye(a.shape[-1])


PRODUCTS = [(5, 3), (9, 1), (16, 16), (37, 29), (64, 512), (300, 1), (1000, 10), (513, 257)]
LENGTHS = [3, 4, 5, 16, 31, 1000, 5000, 40000]
ORDERS = [3, 16, 17, 50]

ROWS: dict[str, tuple[Row, tuple[int, ...]]] = {
    **{f"v @ w {k} x {n}": (lambda v, k=k, n=n: v @ _weights(k, n), (k,)) for k, n in PRODUCTS},
    **{f"w @ v {n} x {k}": (lambda v, k=k, n=n: _weights(n, k) @ v, (k,)) for k, n in PRODUCTS},
    **{f"sum of {n}": (lambda v: v.sum(), (n,)) for n in LENGTHS},
    **{f"exp, sum of {n}": (lambda v: jnp.exp(v).sum(), (n,)) for n in LENGTHS},
    "product": (lambda v: (1 + v / 10).prod(), (64,)),
    "sum of rows": (lambda m: m.sum(0), (40, 500)),
    "sum of few rows": (lambda m: m.sum(0), (100, 3)),
    "sum of columns": (lambda m: m.sum(1), (100, 70)),
    "sum of all": (lambda m: m.sum(), (1000, 70)),
    "sum of outer axes": (lambda m: m.sum((0, 2)), (20, 30, 10)),
    "tanh of a product, sum": (lambda v: jnp.tanh(v @ _weights(64, 128)).sum(), (64,)),
    "two layers": (
        lambda v: nn.log_softmax(jnp.tanh(v @ _weights(64, 128)) @ _weights(128, 10)),
        (64,),
    ),
    "their gradient": (
        kiln.grad(lambda v: (jnp.tanh(v @ _weights(64, 128)) @ _weights(128, 10)).sum()),
        (64,),
    ),
    "variance": (lambda v: v.var(), (333,)),
    "softmax along columns": (lambda m: nn.softmax(m, axis=0), (100, 30)),
    "m @ w": (lambda m: m @ _weights(40, 30), (12, 40)),
    "m.T @ m": (lambda m: m.T @ m, (50, 40)),
    "attention": (lambda m: nn.softmax(m @ m.T / 8) @ m, (33, 64)),
    "einsum": (lambda m: jnp.einsum("ij,kj->ik", m, m), (20, 30)),
    "running sum": (lambda v: jnp.cumsum(v), (1000,)),
    "running sum of columns": (lambda m: jnp.cumsum(m, axis=0), (100, 30)),
    "windows": (lambda v: lax.reduce_window(v, 0.0, lax.add, (5,), (1,), "SAME"), (64,)),
    "segments": (
        lambda v: kiln.ops.segment_sum(v, np.arange(60) % 7, num_segments=7),
        (60,),
    ),
    "fft": (lambda v: jnp.fft.rfft(v), (100,)),
    "fft of columns": (lambda m: jnp.fft.fft(m, axis=0), (64, 30)),
    "fft of a prime": (lambda v: jnp.fft.fft(v), (101,)),
    "convolution": (lambda x: _conv(x, 8, 3, 3, 3), (3, 16, 16)),
    "convolution of many features": (lambda x: _conv(x, 64, 32, 3, 3), (32, 14, 14)),
    "convolution by one": (lambda x: _conv(x, 16, 32, 1, 1), (32, 9, 9)),
    "depthwise convolution": (
        lambda x: _conv(x, 16, 1, 3, 3, feature_group_count=16),
        (16, 12, 12),
    ),
    "gradient of a convolution": (
        kiln.grad(lambda x: (_conv(x, 8, 3, 3, 3) ** 2).sum()),
        (3, 16, 16),
    ),
    **{f"solve {n}": (lambda a: jnp.linalg.solve(_near_identity(a), a), (n, n)) for n in ORDERS},
    **{
        f"one matrix, solve {n}": (
            lambda v, n=n: kiln.scipy.linalg.solve_triangular(_near_identity(_weights(n, n)), v),
            (n,),
        )
        for n in ORDERS
    },
    **{f"cholesky {n}": (lambda a: jnp.linalg.cholesky(a @ a.T), (n, n)) for n in ORDERS},
    **{f"qr {n}": (lambda a: jnp.linalg.qr(a)[1], (n, n)) for n in ORDERS},
    **{f"eigh {n}": (lambda a: jnp.linalg.eigh(a @ a.T)[0], (n, n)) for n in ORDERS},
    **{f"svd {n}": (lambda a: jnp.linalg.svd(a)[1], (n, n)) for n in ORDERS},
}
COMPLEX = (
    "v @ w 37 x 29",
    "v @ w 1000 x 10",
    "w @ v 29 x 37",
    "sum of 1000",
    "sum of rows",
    "einsum",
    "running sum",
    "solve 16",
    "one matrix, solve 17",
)
NARROW = ("v @ w 37 x 29", "w @ v 29 x 37", "sum of 1000", "sum of rows", "two layers")
IN_EVERY_RUN = ("tanh of a product, sum", "v @ w 37 x 29", "sum of 40000", "their gradient")


def _differing(
    f: Row, shape: tuple[int, ...], axis: int, sizes: tuple[int, ...], dtype: Any
) -> Any:
    """Return the batch sizes in which some row has other bits than alone."""
    rows = _weights(MOST, *shape, dtype=dtype)
    one = kiln.jit(f)
    alone = [np.asarray(one(rows[i])).tobytes() for i in range(MOST)]
    found = []
    for size in sizes:
        batch = jnp.moveaxis(rows[:size], 0, axis)
        made = np.asarray(kiln.jit(kiln.vmap(f, in_axes=axis))(batch))
        if [made[i].tobytes() for i in range(size)] != alone[:size]:
            found.append(size)
    return found


@pytest.mark.parametrize("name", IN_EVERY_RUN)
def test_a_row_has_the_same_bits_in_batches(name: str) -> None:
    f, shape = ROWS[name]
    with kiln.batch_invariant():
        assert _differing(f, shape, 0, (2, 7, 100), np.float32) == []
        assert _differing(f, shape, len(shape), (7,), np.float32) == []


def test_without_the_option_bits_depend_on_the_batch() -> None:
    # Or the tests above would show nothing.
    f, shape = ROWS["tanh of a product, sum"]
    assert _differing(f, shape, 0, (7,), np.float32) == [7]


@pytest.mark.full
@pytest.mark.parametrize("name", ROWS)
def test_every_row_in_every_batch(name: str) -> None:
    f, shape = ROWS[name]
    with kiln.batch_invariant():
        for axis in range(len(shape) + 1):
            assert _differing(f, shape, axis, SIZES, np.float32) == []


@pytest.mark.full
@pytest.mark.parametrize("name", [*NARROW, *COMPLEX])
def test_other_dtypes(name: str) -> None:
    f, shape = ROWS[name]
    with kiln.batch_invariant(), kiln.enable_x64(True):
        for dtype in (np.float64, np.complex64) if name in COMPLEX else (np.float64, jnp.bfloat16):
            assert _differing(f, shape, 0, SIZES, dtype) == []
            assert _differing(f, shape, len(shape), SIZES, dtype) == []


@pytest.mark.full
def test_values_are_those_without_the_option() -> None:
    for name, (f, shape) in ROWS.items():
        for axis in (0, len(shape)):
            row = _weights(5, *shape)
            batch = jnp.moveaxis(row, 0, axis)
            usual = np.asarray(kiln.jit(kiln.vmap(f, in_axes=axis))(batch))
            with kiln.batch_invariant():
                mine = np.asarray(kiln.jit(kiln.vmap(f, in_axes=axis))(batch))
            scale = np.abs(usual).max()
            np.testing.assert_allclose(mine, usual, rtol=1e-3, atol=1e-4 * scale, err_msg=name)


def test_rows_of_eager_products_and_sums() -> None:
    rows, w = _weights(100, 64), _weights(64, 128)
    with kiln.batch_invariant():
        whole = np.asarray(jnp.tanh(rows @ w).sum(1))
        for i in (0, 3, 99):
            assert np.asarray(jnp.tanh(rows[i] @ w).sum()).tobytes() == whole[i].tobytes()


def test_values_are_those_of_other_programs() -> None:
    rows = _weights(7, 1000)
    with kiln.batch_invariant():
        total = kiln.jit(lambda x: (x.sum(1), x @ x.T, jnp.prod(1 + x / 100, axis=1)))(rows)
    x = np.asarray(rows, np.float64)
    for mine, right in zip(total, (x.sum(1), x @ x.T, np.prod(1 + x / 100, axis=1)), strict=True):
        np.testing.assert_allclose(mine, right, rtol=2e-5, atol=1e-4)


def test_a_program_that_runs_elsewhere_is_refused() -> None:
    with kiln.batch_invariant(), pytest.raises(ValueError, match="batch_invariant") as error:
        kiln.jit(lambda x: x + x, compiler_options={"xla_backend_optimization_level": 1})(1.0)
    assert len(str(error.value).splitlines()) == 3


def test_the_option_is_part_of_the_key() -> None:
    f = kiln.jit(lambda v: v @ _weights(64, 128))
    rows = _weights(7, 64)
    before = np.asarray(f(rows))
    with kiln.batch_invariant():
        within = np.asarray(f(rows))
        assert within.tobytes() == np.asarray(f(rows)).tobytes()
    assert before.tobytes() == np.asarray(f(rows)).tobytes()
    assert f.cache_info().executables == 2
