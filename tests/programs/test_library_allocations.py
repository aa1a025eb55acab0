"""Calls of libraries allocate no memory, not even the first: contexts have what kernels need.

The program that makes the calls counts allocations (`c_driver.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import export, lax
from tests.programs.c_driver import COMPILER, Call, have_same_bits, run_calls

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")


def _random(*shape: int) -> np.ndarray:
    return np.random.RandomState(sum(shape)).randn(*shape).astype(np.float32)


def _grown(x: Any) -> Any:
    """Double a matrix by products until its elements are large."""
    return lax.while_loop(lambda y: jnp.abs(y).max() < 1e3, lambda y: y @ x + y, x)


def _convolved(x: Any, features: Any) -> Any:
    numbers = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, features, (1, 1), "SAME", dimension_numbers=numbers)


NOT_FINITE = _random(4, 60)
NOT_FINITE[1, 7], NOT_FINITE[2, 3:5] = np.inf, np.nan
ROWS = _random(3, 31 * 67)
SPD = _random(90, 90)
SPD = SPD @ SPD.T + 90 * np.eye(90, dtype=np.float32)
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "product": (lambda a, b: a @ b, (_random(300, 700), _random(700, 90))),
    "batch": (lambda a, b: jnp.tanh(a @ b), (_random(7, 65, 33), _random(7, 33, 40))),
    "transposed": (lambda a, b: a.T @ b.T, (_random(400, 50), _random(70, 400))),
    "vector": (lambda a, x: a.T @ (a @ x), (_random(500, 333), _random(333))),
    "complex_product": (lambda a, b: (a + 1j) @ (b - 1j), (_random(60, 50), _random(50, 70))),
    "bytes": (
        lambda a, b: lax.dot(
            a.astype(jnp.int8), b.astype(jnp.int8), preferred_element_type=jnp.int32
        ),
        (30 * _random(200, 130), 30 * _random(130, 100)),
    ),
    "convolution": (_convolved, (_random(2, 20, 20, 16), _random(3, 3, 16, 24))),
    "gradient": (
        kiln.grad(lambda w, x: (_convolved(x, w) ** 2).sum()),
        (_random(3, 3, 8, 12), _random(2, 14, 14, 8)),
    ),
    "sort": (lambda x: jnp.sort(x, axis=0), (_random(700, 30),)),
    "order": (lambda x: jnp.argsort(x.ravel()), (_random(300, 70),)),
    "transform": (lambda x: jnp.abs(jnp.fft.fft(x)), (_random(40, 256),)),
    "prime": (lambda x: jnp.abs(jnp.fft.fft(x)), (_random(3, 1009),)),
    "real": (lambda x: jnp.fft.irfft(jnp.fft.rfft(x)), (_random(5, 4096 * 3),)),
    "axes": (lambda x: jnp.abs(jnp.fft.fft2(x)), (_random(96, 130),)),
    "odd": (lambda x: jnp.fft.irfft(jnp.fft.rfft(x), n=x.shape[1]), (ROWS,)),
    "not_finite": (lambda x: jnp.abs(jnp.fft.fft(x)), (NOT_FINITE,)),
    "not_finite_real": (lambda x: jnp.fft.rfft(x).real, (NOT_FINITE,)),
    "factors": (lambda x: jnp.linalg.cholesky(x), (SPD,)),
    "solution": (lambda a, b: jnp.linalg.solve(a, b), (SPD, _random(90, 7))),
    "loop": (_grown, (0.05 * _random(40, 40),)),
    "sums": (lambda x: jnp.cumsum(x, axis=0), (_random(1000, 20),)),
}


def _made(
    name: str, folder: Path, *args: Any, **options: Any
) -> tuple[Callable[..., Any], Callable[..., Call]]:
    run = kiln.jit(PROGRAMS[name][0])
    made = export.library(
        run, *args, name=name, path=folder / name, blas=True, shared=False, **options
    )
    return run, functools.partial(Call, Path(made.path), name)


@pytest.mark.parametrize("threads", [None, 3], ids=["alone", "threads"])
def test_no_call_allocates(threads: int | None, tmp_path: Path) -> None:
    calls, expected = [], []
    for name, (_, args) in PROGRAMS.items():
        run, call = _made(name, tmp_path, *args, threads=threads is not None)
        calls.append(call({}, args))
        expected.append(np.asarray(run(*args)))
    for (found,), y, name in zip(
        run_calls(calls, tmp_path, threads=threads), expected, PROGRAMS, strict=True
    ):
        assert found.shape == y.shape, name
        assert have_same_bits(found, y), name


def test_no_call_with_named_sizes_allocates(tmp_path: Path) -> None:
    calls = []
    for name in ("product", "transform", "real", "sort"):
        given = PROGRAMS[name][1]
        n = export.symbolic_shape("n")[0]
        shapes = [(n, *x.shape[1:]) if i == 0 else x.shape for i, x in enumerate(given)]
        types = [kiln.ShapeDtypeStruct(shape, "float32") for shape in shapes]
        _, call = _made(name, tmp_path, *types)
        for size in (1, 60, 127, 1000):
            values = [_random(*[size if d is n else d for d in shape]) for shape in shapes]
            calls.append(call({"n": size}, values))
    assert len(run_calls(calls, tmp_path)) == len(calls)
