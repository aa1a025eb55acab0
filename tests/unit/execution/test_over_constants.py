"""What depends on closed-over arrays alone: computed once for these arrays, and freed."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.errors import JaxRuntimeError
from kiln.base.options.config import override
from kiln.core.engines.engine import DividedExecutable
from kiln.execution import over_constants
from kiln.execution.over_constants import Bound

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def on_the_host() -> Iterator[None]:
    with override(engine="native", disk_cache=False):
        yield


def array(*shape: int, dtype: Any = np.float32) -> kiln.Array:
    """Return an array of random numbers."""
    return jnp.asarray(RNG.standard_normal(shape).astype(dtype))


def programs(f: Any) -> list[Any]:
    """Return what the calls of a jitted function run."""
    return [run for entry in f._entries.values() for run in entry._over.values()]


def kept(f: Any) -> int:
    """Return the bytes that a jitted function keeps for its constants."""
    return sum(run.kept_bytes for run in programs(f) if isinstance(run, Bound))


def same(found: Any, expected: Any) -> None:
    """Check that two arrays have the same bits."""
    assert np.asarray(found).tobytes() == np.asarray(expected).tobytes()


def product(w: Any) -> Any:
    """Return a new function that multiplies by a matrix, transposed."""
    return kiln.jit(lambda x: jnp.tanh(x @ w.T))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(45, 60), (32, 64), (257, 33)])
def test_bits_are_those_of_an_argument(shape: tuple[int, int], dtype: Any) -> None:
    with kiln.enable_x64():
        w, x = array(*shape, dtype=dtype), array(5, shape[1], dtype=dtype)
        f, expected = product(w), kiln.jit(lambda x, w: jnp.tanh(x @ w.T))(x, w)
        for _ in range(4):
            same(f(x), expected)
    assert kept(f) == -(-shape[0] // 32) * 32 * shape[1] * np.dtype(dtype).itemsize


def test_row_major_matrices_and_few_rows() -> None:
    w = array(400, 700)
    expected, f = kiln.jit(lambda x, w: x @ w), kiln.jit(lambda x: x @ w)
    for rows in (1, 2, 9, 10, 40):
        x = array(rows, 400)
        for _ in range(3):
            same(f(x), expected(x, w))
    assert kept(f) == 4 * 704 * 400 * 4


@pytest.mark.parametrize("shape", [(45, 0), (0, 45), (40, 3)])
def test_matrices_without_panels(shape: tuple[int, int]) -> None:
    w, x = array(*shape), array(5, shape[1])
    f, expected = product(w), np.tanh(np.asarray(x) @ np.asarray(w).T)
    for _ in range(3):
        # Where terms cancel, fused additions leave more than NumPy's.
        np.testing.assert_allclose(f(x), expected, rtol=1e-5, atol=1e-6)
    assert kept(f) == 0


@pytest.mark.parametrize("layouts", [("NCHW", "OIHW", "NCHW"), ("NHWC", "HWIO", "NHWC")])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kernels_of_convolutions(layouts: tuple[str, str, str], dtype: Any) -> None:
    sizes = {"N": 2, "C": 9, "H": 12, "W": 11, "O": 40, "I": 9}
    drawn = lambda axes, **more: array(*[{**sizes, **more}[a] for a in axes], dtype=dtype)

    def f(x: Any, w: Any, v: Any) -> Any:
        y = lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=layouts)
        y = lax.conv_general_dilated(
            jnp.tanh(y), v, (2, 1), [(0, 0)] * 2, rhs_dilation=(1, 2), dimension_numbers=layouts
        )
        z, most = lax.scan(lambda x, _: (jnp.sin(conv_again(x, w)), jnp.max(x)), x, None, length=9)
        return jnp.maximum(y, 0), z, most

    def conv_again(x: Any, w: Any) -> Any:
        y = lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=layouts)
        return lax.slice_in_dim(y, 3, 12, axis=layouts[0].index("C"))

    with kiln.enable_x64():
        x, w = drawn(layouts[0]), drawn(layouts[1], H=3, W=3)
        v = drawn(layouts[1], H=3, W=2, I=40, O=33)
        expected, g = kiln.jit(f)(x, w, v), kiln.jit(lambda x: f(x, w, v))
        for threads in (1, 2, 1):
            with kiln.num_threads(threads):
                kiln.tree.map(same, g(x), expected)
    assert kept(g) == 64 * (81 + 240) * np.dtype(dtype).itemsize


def test_a_convolution_with_an_epilogue() -> None:
    x, w = array(4, 16, 80, 80), array(48, 16, 3, 3)

    def f(x: Any, w: Any) -> Any:
        return jnp.maximum(lax.conv(x, w, (1, 1), "SAME") * 2 - 1, 0)

    g = kiln.jit(lambda x: f(x, w))
    expected = kiln.jit(f)(x, w)
    for _ in range(3):
        same(g(x), expected)
    assert kept(g) == 64 * 144 * 4


def test_batches_and_loops() -> None:
    w, x = array(60, 60) * 0.1, array(3, 7, 60)

    def f(x: Any, w: Any) -> Any:
        body = lambda h, y: (jnp.tanh(h @ w.T + y), h.sum())
        h, sums = lax.scan(body, x[0], x)
        return jnp.einsum("bij,kj->bik", x, w), h, sums, lax.while_loop(
            lambda c: (c[0] < 3), lambda c: (c[0] + 1, c[1] @ w.T), (0, h)
        )  # fmt: skip

    expected = kiln.jit(f)(x, w)
    g = kiln.jit(lambda x: f(x, w))
    for _ in range(3):
        kiln.tree.map(same, g(x), expected)
    assert kept(g) == 64 * 60 * 4


def test_a_statistic_is_computed_once() -> None:
    scale, w, x = array(300) ** 2, array(300, 300), array(4, 300)
    f = kiln.jit(lambda x: (x @ w.T) * lax.rsqrt(jnp.cumsum(scale)))
    expected = kiln.jit(lambda x, w, s: (x @ w.T) * lax.rsqrt(jnp.cumsum(s)))(x, w, scale)
    for _ in range(3):
        same(f(x), expected)
    (run,) = programs(f)
    text = run.base.executable.as_text("loops")
    before, main = text.split("\n\n", 1)
    assert "rsqrt" in before
    assert "rsqrt" not in main


def test_equal_functions_have_values_of_their_own() -> None:
    ws, x = [array(40, 50) for _ in range(3)], array(4, 50)
    fs = [product(w) for w in ws]
    for _ in range(3):
        for f, w in zip(fs, ws, strict=True):
            same(f(x), kiln.jit(lambda x, w: jnp.tanh(x @ w.T))(x, w))
    assert len({id(run.base) for f in fs for run in programs(f)}) == 1


def test_a_deleted_constant_raises() -> None:
    for calls in (0, 1, 3):
        w, x = array(40, 50), array(4, 50)
        f = product(w)
        if calls == 0:
            f.trace(x)
        for _ in range(calls):
            f(x)
        w.delete()
        for _ in range(2):
            with pytest.raises(RuntimeError, match="deleted"):
                f(x)


def test_a_constant_that_is_donated_elsewhere_raises() -> None:
    w, x = array(40, 50), array(4, 50)
    f = product(w)
    for _ in range(3):
        f(x)
    kiln.jit(lambda w: w + 1, donate_argnums=0)(w)
    with pytest.raises(RuntimeError, match="deleted"):
        f(x)


def test_donated_arguments() -> None:
    w = array(50, 50)
    f = kiln.jit(lambda x: jnp.tanh(x @ w.T), donate_argnums=0)
    for _ in range(4):
        x = array(5, 50)
        expected = kiln.jit(lambda x, w: jnp.tanh(x @ w.T))(x, w)
        same(f(x), expected)
        with pytest.raises(RuntimeError, match="deleted"):
            x + 1
    assert len(programs(f)) == 1
    assert kiln.cache_info().program_bytes > 64 * 50 * 4


def test_an_argument_that_is_a_constant_may_be_donated() -> None:
    w = array(50, 50)
    f = kiln.jit(lambda x: jnp.tanh(x @ w.T), donate_argnums=0)
    x = w.copy()
    expected = np.asarray(kiln.jit(lambda x, w: jnp.tanh(x @ w.T))(x, w))
    for _ in range(3):
        same(f(x.copy()), expected)
    same(f(w), expected)
    with pytest.raises((RuntimeError, JaxRuntimeError)):
        w + 1
    same(f(x), expected)


def test_first_calls_of_two_threads() -> None:
    w, x = array(300, 500), array(4, 500)
    expected = kiln.jit(lambda x, w: jnp.tanh(x @ w.T))(x, w)
    for _ in range(5):
        f, found = product(w), []
        start = threading.Barrier(4)

        def call(f: Any = f, found: Any = found, start: Any = start) -> None:
            start.wait()
            found.append([f(x) for _ in range(5)])

        threads = [threading.Thread(target=call) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 4
        kiln.tree.map(lambda y: same(y, expected), found)


def in_use() -> int:
    """Return the bytes of all that programs keep for constants."""
    gc.collect()
    return sum(each.kept_bytes for each in list(over_constants._bound))


def test_memory_comes_back() -> None:
    w, x, before = array(300, 500), array(4, 500), in_use()
    f = product(w)
    for _ in range(3):
        f(x)
    size = 320 * 500 * 4
    assert in_use() == before + size
    assert f.cache_info().bytes > size
    f.clear_cache()
    assert in_use() == before
    f(x)
    assert in_use() == before + size
    del f
    assert in_use() == before


def test_an_evicted_program_computes_again() -> None:
    w, x, before = array(300, 500), array(4, 500), in_use()
    f = product(w)
    expected = [f(x) for _ in range(3)][0]
    (run,) = programs(f)
    run.base.unload()
    assert in_use() == before
    for _ in range(3):
        same(f(x), expected)
    assert in_use() == before + 320 * 500 * 4


def test_all_programs_keep_a_bounded_amount(monkeypatch: pytest.MonkeyPatch) -> None:
    w, x = array(300, 500), array(4, 500)
    expected = product(w)(x)
    monkeypatch.setattr(over_constants, "physical_bytes", lambda: 0)
    f = product(w)
    for _ in range(3):
        same(f(x), expected)
    assert kept(f) == 0


def test_arrays_elsewhere_and_transformations() -> None:
    w, x = array(40, 50), array(4, 50)
    f = product(w)
    expected = f(x)
    placed = kiln.device_put(x)
    same(f(placed), expected)
    same(f(np.asarray(x)), expected)
    kiln.grad(lambda x: f(x).sum())(x)
    np.testing.assert_allclose(kiln.vmap(f)(x), expected, rtol=1e-5)
    same(kiln.jit(lambda x: f(x))(x), expected)
    with kiln.disable_jit():
        np.testing.assert_allclose(f(x), expected, rtol=1e-5)


def test_named_sizes_keep_nothing() -> None:
    w = array(40, 50)
    f = kiln.jit(lambda x: x @ w.T, abstracted_axes=({0: "n"},))
    for rows in (3, 4, 3, 5):
        x = array(rows, 50)
        np.testing.assert_allclose(f(x), np.asarray(x) @ np.asarray(w).T, rtol=1e-4, atol=1e-5)
    assert kept(f) == 0


def test_compiled_ahead_of_time_keeps_nothing() -> None:
    w, x = array(40, 50), array(4, 50)
    f = product(w)
    compiled = f.lower(x).compile()
    assert "kiln_gemm_pack" not in compiled.as_text("loops")
    same(compiled(x), f(x))


def test_references_may_change() -> None:
    ref, x = kiln.new_ref(array(40, 50)), array(4, 50)
    f = kiln.jit(lambda x: x @ ref[...].T)
    for _ in range(3):
        ref[...] = array(40, 50)
        same(f(x), kiln.jit(lambda x, w: x @ w.T)(x, ref[...]))


def test_a_called_executable_computes_all() -> None:
    w, x = array(40, 50), array(4, 50)
    f = product(w)
    expected = f(x)
    (run,) = programs(f)
    executable = run.base.executable
    assert isinstance(executable, DividedExecutable)
    same(run.base([w, x])[0], expected)
    assert executable.kept_bytes == 64 * 50 * 4


STORED = """
import numpy as np, kiln, kiln.numpy as jnp
from kiln.execution.over_constants import Bound
rng = np.random.default_rng(0)
w = jnp.asarray(rng.standard_normal((40, 50)).astype(np.float32))
x = jnp.asarray(rng.standard_normal((4, 50)).astype(np.float32))
f = kiln.jit(lambda x: jnp.sin(jnp.cos(jnp.exp(jnp.tanh(jnp.sin(jnp.cos(x @ w.T * 2) + 1))))))
found = [np.asarray(f(x)) for _ in range(300)]
assert all((found[0] == y).all() for y in found)
runs = [run for entry in f._entries.values() for run in entry._over.values()]
kept = sum(run.kept_bytes for run in runs if isinstance(run, Bound))
info = kiln.cache_info().disk
(run,) = runs
text = run.base.executable.as_text("loops")
print(kept, info.hits, info.rejected, "kiln_gemm_pack" in text, found[0].tobytes().hex()[:64])
"""


def test_programs_on_disk(tmp_path: Any) -> None:
    chosen = {"KILN_CACHE_DIR": str(tmp_path / "cache"), "KILN_CHECK": "0", "KILN_DISK_CACHE": "1"}
    environment = {**os.environ, **chosen}

    def run() -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", STORED], env=environment, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    first, second, third = run(), run(), run()
    assert first[0] == second[0] == third[0] == str(64 * 50 * 4)
    assert (first[1], second[1], third[1]) == ("0", "1", "1")
    assert first[2:] == second[2:] == third[2:]
    assert first[2:4] == ["0", "True"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_forked_children() -> None:
    code = """
import os, numpy as np, kiln, kiln.numpy as jnp
w, x = jnp.ones((40, 50)), jnp.ones((4, 50))
f = kiln.jit(lambda x: x @ w.T)
for _ in range(3): f(x)
child = os.fork()
if child == 0:
    os._exit(0 if (np.asarray(f(x)) == 50).all() else 3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "0", done.stderr


def test_unused_constants_are_left_out() -> None:
    first, w, x = array(3), array(40, 50), array(4, 50)

    def f(x: Any) -> Any:
        first + 1
        return x @ w.T

    g = kiln.jit(f)
    for _ in range(3):
        same(g(x), kiln.jit(lambda x, w: x @ w.T)(x, w))
    assert kept(g) == 64 * 50 * 4
