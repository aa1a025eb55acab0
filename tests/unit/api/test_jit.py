"""The options of `jit` that say how programs run: `threads`."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import override

X = np.linspace(0, 1, 1 << 21, dtype=np.float32)

COUNTED = """
import os
import numpy as np, kiln, kiln.numpy as jnp
from kiln import _runtime
x = np.linspace(0, 1, 1 << 21, dtype=np.float32)
before = len(os.listdir("/proc/self/task"))
kiln.set_num_threads(4)
for threads in {threads}:
    f = kiln.jit(lambda x: (jnp.sin(x) * 2, jnp.sum(x), jnp.sort(x)), threads=threads)
    f(x), f(x)
    m = np.ones((600, 600), np.float32)
    kiln.jit(lambda m: m @ m, threads=threads)(m)
    print(_runtime.pool_workers(), len(os.listdir("/proc/self/task")) - before)
"""


def workers(*threads: int | None) -> list[list[int]]:
    """Return for each call how many threads the pool has, and how many more the process."""
    done = subprocess.run(
        [sys.executable, "-c", COUNTED.format(threads=threads)],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return [[int(word) for word in line.split()] for line in done.stdout.splitlines()]


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_one_thread_makes_no_others() -> None:
    assert workers(1) == [[0, 0]]


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted in /proc")
def test_a_number_of_threads_counts_for_its_programs_only() -> None:
    assert workers(1, 2, None) == [[0, 0], [1, 1], [3, 3]]


@pytest.mark.parametrize("threads", [0, -1, True, 1.5, "2"])
def test_what_is_no_number_of_threads(threads: Any) -> None:
    with pytest.raises(ValueError, match="threads must be a positive int or None") as caught:
        kiln.jit(lambda x: x, threads=threads)
    assert len(str(caught.value).splitlines()) == 3
    with pytest.raises(ValueError, match="threads must be"):
        kiln.jit(threads=threads)(lambda x: x)


def test_results_do_not_depend_on_it() -> None:
    def f(x: Any) -> Any:
        return jnp.sum(x), jnp.cumsum(x), jnp.tanh(x)[::3]

    expected = kiln.jit(f)(X)
    for threads in (1, 2, 3):
        for a, b in zip(kiln.jit(f, threads=threads)(X), expected, strict=True):
            np.testing.assert_array_equal(a, b)


def test_programs_of_other_numbers_are_others() -> None:
    def f(x: Any) -> Any:
        return x + 1

    compiled = [kiln.jit(f, threads=n).lower(X).compile() for n in (1, 2, None)]
    assert len({id(each.runtime_executable()) for each in compiled}) == 3


def test_the_outermost_number_counts() -> None:
    inner = kiln.jit(lambda x: jnp.sin(x), threads=1)
    for outer in (kiln.jit(lambda x: inner(x) + 1), kiln.vmap(inner), kiln.jit(inner, threads=2)):
        assert np.asarray(outer(np.ones(3, np.float32))).shape == (3,)
    np.testing.assert_allclose(kiln.grad(inner)(1.0), np.cos(1.0), rtol=1e-6)


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_engines_that_run_on_the_calling_thread(engine: str) -> None:
    with override(engine=engine):
        assert float(kiln.jit(lambda x: x + 1, threads=1)(1.0)) == 2


def test_xla_has_no_threads_of_a_program() -> None:
    f = kiln.jit(lambda x: x.astype(jnp.float8_e4m3fn), threads=2)
    with pytest.raises(ValueError, match="threads=2") as caught:
        f(np.ones(3, np.float32))
    text = str(caught.value)
    assert len(text.splitlines()) == 3
    assert "f8_e4m3fn" in text
    with override(engine="xla"), pytest.raises(ValueError, match="option engine names it"):
        kiln.jit(lambda x: x + 1, threads=2)(1.0)
