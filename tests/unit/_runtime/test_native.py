"""Compiled functions called by their address."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import _runtime
from kiln.base.tree import tree_flatten
from kiln.core.host_memory import HOST_MEMORY

SOURCE = """
void add(const float *const *in, float *const *out) { out[0][0] = in[0][0] + in[1][0]; }
void wide(const double *const *in, double *const *out) { out[0][0] = in[0][0]; }
void whole(const int *const *in, int *const *out) { out[0][0] = -in[0][0]; }
void truth(const char *const *in, char *const *out) { out[0][0] = !in[0][0]; }
void twice(const float *const *in, float *const *out) {
  for (long i = 0; i < 100000; ++i) out[0][i] = 2 * in[0][i];
}
void copy(const float *const *in, float *const *out) {
  for (int i = 0; i < 21; ++i) out[i][0] = in[i][0];
}
"""

Make = Callable[..., _runtime.CompiledProgram]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder: Path = tmp_path_factory.mktemp("native")
    (folder / "f.c").write_text(SOURCE)
    built = folder / "f.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", folder / "f.c", "-o", built], check=True)
    return ctypes.CDLL(str(built))


@pytest.fixture
def program(library: ctypes.CDLL) -> Make:
    def make(
        name: str, ins: list[Any], outs: list[Any], kept: Any = None
    ) -> _runtime.CompiledProgram:
        address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        assert address is not None

        def types(values: list[Any]) -> list[tuple[Any, int]]:
            return [(np.asarray(x).dtype, np.asarray(x).nbytes) for x in values]

        native = _runtime.Native(address, types(ins), types(outs), library)
        avals = [jnp.asarray(x).aval for x in outs]
        return _runtime.CompiledProgram(native, avals, kept, HOST_MEMORY, True)

    return make


ONE = np.float32(1)


@pytest.mark.parametrize(
    "given",
    [jnp.float32(2), np.float32(2), 2.0, 2, True, np.ones(1, np.float32) * 2, np.float64(2)],
)
def test_operands_of_all_kinds(program: Make, given: Any) -> None:
    (out,) = program("add", [ONE, ONE], [ONE])([given, jnp.float32(5)])
    assert type(out) is type(jnp.float32(1))
    assert float(out) == 5 + float(np.asarray(given).reshape(()))
    assert float(out + 1) == float(out) + 1 and out.tolist() == float(out)


def test_other_dtypes(program: Make) -> None:
    with kiln.enable_x64(True):
        assert program("wide", [1.0], [1.0])([1e-300])[0].tolist() == 1e-300
        assert program("wide", [1.0], [1.0])([np.float64(2)])[0].dtype == np.float64
    whole = program("whole", [np.int32(1)], [np.int32(1)])
    assert [int(whole([x])[0]) for x in (3, True, jnp.int32(4))] == [-3, -1, -4]
    assert bool(program("truth", [np.True_], [np.True_])([False])[0])
    with pytest.raises(OverflowError):
        whole([2**31])


def test_views_are_read_in_order(program: Make) -> None:
    large = np.zeros(100_000, np.float32)
    twice = program("twice", [large], [large])
    backwards = np.arange(100_000, dtype=np.float32)[::-1]
    np.testing.assert_array_equal(np.asarray(twice([backwards])[0]), 2 * backwards)
    spread = jnp.ones(100_000)
    assert float(twice([spread])[0][-1]) == 2
    # The result of one program is the operand of the next, and of XLA's.
    again = twice(twice([spread]))[0]
    assert float(kiln.jit(lambda x: x.sum())(again)) == 400_000


def test_wrong_operands_are_refused(program: Make) -> None:
    add = program("add", [ONE, ONE], [ONE])
    for wrong in ([1.0], [1.0, 2.0, 3.0], [1.0, np.ones(2, np.float32)], [1.0, "a"], [1.0, None]):
        with pytest.raises((TypeError, ValueError)):
            add(wrong)
    with pytest.raises(ValueError, match="address"):
        _runtime.Native(0, [], [])
    x = jnp.float32(1)
    x.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        add([x, 1.0])


def test_inputs_that_are_not_taken(program: Make) -> None:
    add = program("add", [ONE, ONE], [ONE], [0, 2])
    assert float(add([1.0, "not taken", 2.0])[0]) == 3.0


def test_a_jitted_function_runs_one(program: Make) -> None:
    tree = {f"k{i}": {f"l{j}": jnp.float32(3 * i + j) for j in range(3)} for i in range(7)}
    leaves, structure = tree_flatten(tree)
    jitted = kiln.jit(lambda d: d)
    types = tuple(x.aval for x in leaves)
    assert jitted.remember(
        1, (), [], [(0, tree)], types, (), program("copy", leaves, leaves), structure
    )
    out = jitted(tree)
    assert kiln.tree.map(float, out) == kiln.tree.map(float, tree)
    assert jitted.cache_info().traces == 0
