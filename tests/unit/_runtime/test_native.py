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
#include <stdint.h>
#include <stddef.h>
struct fault { int32_t site; int64_t index, iteration; };
struct call {
  const void *const *operands; void *const *results; const int64_t *sizes; char *workspace;
  void *pool; struct fault *fault;
};
typedef int32_t (*poll)(struct call *);
typedef int32_t (*python)(struct call *, void *const *, const int64_t *);
poll kiln_poll;
python kiln_call_python;
void link(void *p, void *c) { kiln_poll = (poll)p; kiln_call_python = (python)c; }
#define IN(type, i) ((const type *)c->operands[i])
#define OUT(type, i) ((type *)c->results[i])
#define ENTRY(name) int32_t name(struct call *c)
ENTRY(add) { OUT(float, 0)[0] = IN(float, 0)[0] + IN(float, 1)[0]; return 0; }
ENTRY(wide) { OUT(double, 0)[0] = IN(double, 0)[0]; return 0; }
ENTRY(whole) { OUT(int, 0)[0] = -IN(int, 0)[0]; return 0; }
ENTRY(truth) { OUT(char, 0)[0] = !IN(char, 0)[0]; return 0; }
ENTRY(twice) {
  for (long i = 0; i < 100000; ++i) OUT(float, 0)[i] = 2 * IN(float, 0)[i];
  return 0;
}
ENTRY(copy) {
  for (int i = 0; i < 21; ++i) OUT(float, i)[0] = IN(float, i)[0];
  return 0;
}
ENTRY(nothing) { return 0; }
ENTRY(by_workspace) {
  float *kept = (float *)c->workspace;
  if ((uintptr_t)kept % 64 != 0) return 3;
  for (int i = 0; i < 1000; ++i) kept[i] = c->sizes[1] * IN(float, 0)[0];
  OUT(float, 0)[0] = kept[999];
  return 0;
}
ENTRY(fails) {
  c->fault->site = 4; c->fault->index = 1L << 40; c->fault->iteration = 7;
  return (int32_t)IN(float, 0)[0];
}
ENTRY(endless) {
  for (;;) { int32_t status = kiln_poll(c); if (status != 0) return status; }
}
ENTRY(polls) {
  for (long i = 0; i < 100000000; ++i) {
    int32_t status = kiln_poll(c);
    if (status != 0) return status;
  }
  OUT(float, 0)[0] = 1;
  return 0;
}
ENTRY(calls) {
  float kept = IN(float, 0)[0];
  void *buffers[] = {&kept, c->results[0]};
  for (int64_t which = 0; which < c->sizes[0]; ++which) {
    int32_t status = kiln_call_python(c, buffers, &which);
    if (status != 0) return status;
    kept = OUT(float, 0)[0];
  }
  return 0;
}
"""

Make = Callable[..., _runtime.CompiledProgram]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder: Path = tmp_path_factory.mktemp("native")
    (folder / "f.c").write_text(SOURCE)
    built = folder / "f.so"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", folder / "f.c", "-o", built], check=True)
    loaded = ctypes.CDLL(str(built))
    symbols = _runtime.native_symbols()
    loaded.link(*(ctypes.c_void_p(symbols[n]) for n in ("kiln_poll", "kiln_call_python")))
    return loaded


@pytest.fixture
def program(library: ctypes.CDLL) -> Make:
    def make(
        name: str, ins: list[Any], outs: list[Any], kept: Any = None, **options: Any
    ) -> _runtime.CompiledProgram:
        address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        assert address is not None

        def types(values: list[Any]) -> list[tuple[Any, int]]:
            return [(np.asarray(x).dtype, np.asarray(x).nbytes) for x in values]

        native = _runtime.Native(address, types(ins), types(outs), library, **options)
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
