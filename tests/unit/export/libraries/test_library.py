"""Functions become libraries that C calls: what a call means, and what is refused."""

from __future__ import annotations

import ctypes
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import export
from kiln.ir.sizes.size import Dim

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


def built(folder: Path, function: Any, *args: Any, **options: Any) -> ctypes.CDLL:
    """Write a library named `m` and load it."""
    export.library(function, *args, name="m", path=folder, **options)
    library = ctypes.CDLL(str(folder / "libm.so"))
    library.m_create.restype = ctypes.c_void_p
    library.m_create.argtypes = [ctypes.c_int64]
    library.m_destroy.argtypes = [ctypes.c_void_p]
    library.m_error.restype = ctypes.c_char_p
    library.m_workspace_size.restype = ctypes.c_int64
    return library


def context(library: ctypes.CDLL, *sizes: int) -> ctypes.c_void_p:
    """Return a context for calls with given sizes."""
    needed = library.m_workspace_size(*map(ctypes.c_int64, sizes))
    return ctypes.c_void_p(library.m_create(needed))


def at(array: np.ndarray) -> ctypes.c_void_p:
    """Return the address of an array."""
    return ctypes.c_void_p(array.ctypes.data)


def struct(*arrays: np.ndarray) -> ctypes.c_void_p:
    """Return the address of a structure of addresses."""
    made = (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays])
    return ctypes.cast(made, ctypes.c_void_p)


def test_files(tmp_path: Path) -> None:
    def squash(x: Any) -> Any:
        return jnp.tanh(x)

    made = export.library(squash, jnp.ones(3), path=tmp_path / "out")
    assert made.files.keys() == {path.name for path in (tmp_path / "out").iterdir()}
    assert made.files["libsquash.so"] < 20_000
    described = json.loads((tmp_path / "out" / "squash.json").read_text())
    assert described["functions"] == [
        {
            "symbol": "squash",
            "function": "squash",
            "sizes": [],
            "workspace_bytes": 0,
            "arguments": [
                {
                    "name": "x",
                    "type": "array",
                    "path": "x",
                    "dtype": "float32",
                    "shape": [3],
                    "direction": "in",
                },
                {
                    "name": "out",
                    "type": "array",
                    "path": "result",
                    "dtype": "float32",
                    "shape": [3],
                    "direction": "out",
                },
            ],
        }
    ]
    assert described["versions"]["kiln"] == kiln.__version__


def test_trees_are_structures_with_their_names(tmp_path: Path) -> None:
    def f(params: Any, x: Any) -> Any:
        y = x @ params["layers"][0]["w"] + params["layers"][1]["w"].sum()
        return {"y": y, "both": (y + 1, params["for"])}

    params = {"layers": [{"w": jnp.ones((3, 2))}, {"w": jnp.ones(4)}], "for": jnp.arange(2)}
    x = jnp.ones((5, 3))
    library = built(tmp_path, f, params, x)
    header = (tmp_path / "m.h").read_text()
    text = re.sub(r"/\*.*?\*/|\s+", " ", header)
    assert re.search(
        r"typedef struct m_params \{ const int32_t \*for_; struct \{ "
        r"struct \{ const float \*w; \} item0; struct \{ const float \*w; \} item1; "
        r"\} layers; \} m_params;",
        re.sub(r" +", " ", text),
    )
    y, more, kept = np.zeros((5, 2), "f"), np.zeros((5, 2), "f"), np.zeros(2, "i")
    given = [np.array(leaf) for leaf in kiln.tree.leaves(params)]
    status = library.m(context(library), struct(*given), at(np.array(x)), struct(more, kept, y))
    assert status == 0
    expected = kiln.jit(f)(params, x)
    np.testing.assert_array_equal(y, expected["y"])
    np.testing.assert_array_equal(more, expected["both"][0])
    np.testing.assert_array_equal(kept, [0, 1])


def test_donated_arguments_are_replaced(tmp_path: Path) -> None:
    def step(params: Any, x: Any) -> Any:
        new = kiln.tree.map(lambda p: p + x.sum(), params)
        # The second result reads both: the first must not be written before.
        return {"a": new["b"] * 2, "b": params["a"] + params["b"]}, x.sum()

    params = {"a": np.arange(4, dtype="f"), "b": np.arange(4, 8, dtype="f")}
    x = np.ones(3, "f")
    expected, total = kiln.jit(step)(params, x)
    library = built(tmp_path, kiln.jit(step, donate_argnums=0), params, x)
    assert "float *a; /* float32[4]; replaced by the result */" in (tmp_path / "m.h").read_text()
    out = np.zeros((), "f")
    own = [params["a"].copy(), params["b"].copy()]
    assert library.m(context(library), struct(*own), at(x), at(out)) == 0
    np.testing.assert_array_equal(own[0], expected["a"])
    np.testing.assert_array_equal(own[1], expected["b"])
    assert out == total


def test_named_sizes(tmp_path: Path) -> None:
    n, m = export.symbolic_shape("n, m")

    def f(x: Any, y: Any) -> Any:
        return jnp.concatenate([(x @ y).sum(0), x[:, 0]]), jnp.sort(y, axis=0)

    def of(*shape: Dim) -> kiln.ShapeDtypeStruct:
        return kiln.ShapeDtypeStruct(shape, "float32")

    library = built(tmp_path, f, of(n, m), of(m, n))
    largest = context(library, 40, 50)
    jitted = kiln.jit(f, abstracted_axes=(("n", "m"), ("m", "n")))
    for rows, columns in ((1, 1), (3, 4), (40, 50)):
        x = np.random.RandomState(rows).randn(rows, columns).astype("f")
        y = np.random.RandomState(columns).randn(columns, rows).astype("f")
        first, second = np.zeros(2 * rows, "f"), np.zeros_like(y)
        sizes = ctypes.c_int64(columns), ctypes.c_int64(rows)
        assert library.m(largest, *sizes, at(x), at(y), at(first), at(second)) == 0
        expected = jitted(x, y)
        np.testing.assert_array_equal(first, expected[0])
        np.testing.assert_array_equal(second, expected[1])


def test_wrong_sizes_and_contexts_are_errors(tmp_path: Path) -> None:
    scope = export.SymbolicScope(["n >= 8", "mod(n, 4) == 0"])
    (n,) = export.symbolic_shape("n", scope=scope)
    f = lambda x: jnp.sort(jnp.cumsum(x) * 2).reshape(-1, 4)
    library = built(tmp_path, f, kiln.ShapeDtypeStruct((n,), "float32"))
    x, out = np.ones(400, "f"), np.zeros(400, "f")

    def status(made: ctypes.c_void_p | None, size: int) -> bytes:
        found: bytes = library.m_error(library.m(made, ctypes.c_int64(size), at(x), at(out)))
        return found

    assert status(context(library, 16), 16) == b"no error"
    assert status(None, 16) == b"the context is a null pointer"
    for size in (-4, 0, 4, 10, 1 << 40):
        assert status(context(library, 16), size).startswith(b"a size is less than its least")
    assert status(context(library, 16), 400) == (
        b"the context was created with a smaller workspace than needed"
    )
    assert library.m_error(99) == b"unknown error"


def test_constants_are_embedded_once(tmp_path: Path) -> None:
    w = jnp.asarray(np.random.RandomState(0).randn(64, 64), dtype="float32")
    x = np.random.RandomState(1).randn(64).astype("f")
    first, second = (lambda x: w @ x), (lambda x: (x * w).sum(1))
    library = built(tmp_path, {"first": (first, x), "second": (second, x)}, blas=False)
    assert json.loads((tmp_path / "m.json").read_text())["constant_bytes"] == 64 * 64 * 4
    out = np.zeros(64, "f")
    assert library.m_second(context(library), at(x), at(out)) == 0
    np.testing.assert_array_equal(out, kiln.jit(second)(x))
    assert library.m_first(context(library), at(x), at(out)) == 0
    np.testing.assert_allclose(out, kiln.jit(first)(x), 1e-5)


def test_what_depends_on_constants_alone_is_computed_before(tmp_path: Path) -> None:
    w = jnp.asarray(np.random.RandomState(0).randn(300, 200), dtype="float32")
    f = lambda x: jnp.tanh(x @ w) @ jnp.exp(w.T)
    x = np.random.RandomState(1).randn(100, 300).astype("f")
    library = built(tmp_path, f, x)
    out = np.zeros((100, 300), "f")
    assert library.m(context(library), at(x), at(out)) == 0
    np.testing.assert_array_equal(out, kiln.jit(f)(x))


def test_results_that_are_arguments_or_alike(tmp_path: Path) -> None:
    f = lambda x, y: (x, x + y, x, y, jnp.float32(3))
    x, y = np.arange(3, dtype="f"), np.ones(3, "f")
    library = built(tmp_path, f, x, y)
    outs = [*[np.zeros(3, "f") for _ in range(4)], np.zeros((), "f")]
    assert library.m(context(library), at(x), at(y), *map(at, outs)) == 0
    for found, expected in zip(outs, f(x, y), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_derivatives_static_arguments_and_keys(tmp_path: Path) -> None:
    def f(x: Any, power: int, key: Any) -> Any:
        return jnp.sum(x**power * kiln.random.normal(key, (3,)))

    jitted = kiln.jit(kiln.value_and_grad(f), static_argnums=1)
    x, key = np.arange(1, 4, dtype="f"), kiln.random.key(5)
    library = built(tmp_path, jitted, x, 3, key)
    data = np.array(kiln.random.key_data(key))
    value, gradient = np.zeros((), "f"), np.zeros(3, "f")
    assert library.m(context(library), at(x), at(data), at(value), at(gradient)) == 0
    expected = jitted(x, 3, key)
    np.testing.assert_array_equal(value, expected[0])
    np.testing.assert_array_equal(gradient, expected[1])


def test_unaligned_results(tmp_path: Path) -> None:
    w = jnp.asarray(np.random.RandomState(0).randn(33, 65), dtype="float32")
    f = lambda x: (jnp.exp(x), jnp.sort(x), x @ w)
    x = np.random.RandomState(1).randn(17, 33).astype("f")
    library = built(tmp_path, f, x)
    expected = kiln.jit(f)(x)
    rooms = [np.zeros(y.size + 1, "f") for y in expected]
    outs = [room[1:].reshape(y.shape) for room, y in zip(rooms, expected, strict=True)]
    moved = np.zeros(x.size + 1, "f")[1:].reshape(x.shape)
    moved[:] = x
    assert library.m(context(library), at(moved), *map(at, outs)) == 0
    for found, y in zip(outs, expected, strict=True):
        np.testing.assert_array_equal(found, y)


def test_constants_in_a_file(tmp_path: Path) -> None:
    w, b = jnp.asarray(np.random.RandomState(0).randn(33, 20), dtype="float32"), jnp.arange(20.0)
    f = lambda x: jnp.tanh(x @ w + b)
    x = np.random.RandomState(1).randn(40, 33).astype("f")
    library = built(tmp_path, {"f": (f, x), "g": (lambda x: x + 1, x)}, mapped=True)
    assert (tmp_path / "m.constants").stat().st_size > w.nbytes + b.nbytes
    out, made = np.zeros((40, 20), "f"), context(library)
    missing = b"the file of constants is not mapped, or belongs to another library"
    assert library.m_error(library.m_f(made, at(x), at(out))) == missing
    # What reads no constants is called without them.
    assert library.m_g(made, at(x), at(np.zeros_like(x))) == 0
    damaged = tmp_path / "damaged"
    damaged.write_bytes(b"0" + (tmp_path / "m.constants").read_bytes()[1:])
    for path in (tmp_path / "nowhere", damaged, tmp_path / "m.h"):
        assert library.m_error(library.m_map_constants(made, str(path).encode())) == missing
    assert library.m_map_constants(made, str(tmp_path / "m.constants").encode()) == 0
    assert library.m_f(made, at(x), at(out)) == 0
    np.testing.assert_array_equal(out, kiln.jit(f)(x))
    library.m_destroy(made)


def test_threads_compute_the_same_bits(tmp_path: Path) -> None:
    f = lambda x: (jnp.tanh(x @ x) / jnp.exp(x).sum(), jnp.sort(x.reshape(-1)), jnp.cumsum(x, 1))
    x = np.random.RandomState(1).randn(500, 500).astype("f")
    library = built(tmp_path, f, x, threads=True)
    expected = kiln.jit(f)(x)
    made = context(library)
    for threads in (1, 4, 2, 0):
        assert library.m_set_threads(made, threads) == 0
        for _ in range(3):
            outs = [np.zeros(y.shape, "f") for y in expected]
            assert library.m(made, at(x), *map(at, outs)) == 0
            for found, y in zip(outs, expected, strict=True):
                np.testing.assert_array_equal(found, y)
    library.m_destroy(made)
    assert library.m_error(library.m_set_threads(None, 2)) == b"the context is a null pointer"


def test_other_levels(tmp_path: Path) -> None:
    f = lambda x: jnp.tanh(x @ x) + jnp.fft.rfft(x).real[:, :1]
    x = np.random.RandomState(1).randn(40, 40).astype("f")
    for level in ("x86-64-v2", "x86-64-v3"):
        library = built(tmp_path / level, f, x, target=level)
        out = np.zeros((40, 40), "f")
        assert library.m(context(library), at(x), at(out)) == 0
        np.testing.assert_allclose(out, kiln.jit(f)(x), 1e-4, 1e-4)


_ON_A_LEVEL = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
library.m_create.restype = ctypes.c_void_p
library.m_workspace_size.restype = ctypes.c_int64
x = (ctypes.c_float * 1600)(*[i % 7 / 7 for i in range(1600)])
out, more = (ctypes.c_float * 1600)(), (ctypes.c_float * 1600)()
made = ctypes.c_void_p(library.m_create(ctypes.c_int64(library.m_workspace_size())))
assert library.m_set_threads(made, 2) == 0
if len(sys.argv) > 2:
    assert library.m_map_constants(made, sys.argv[2].encode()) == 0
assert library.m_f(made, x, out) == 0 and library.m_g(made, out, more) == 0
sys.stdout.buffer.write(bytes(more))
library.m_destroy(made)
"""


@pytest.mark.parametrize("mapped", [False, True])
def test_one_library_for_several_levels(mapped: bool, tmp_path: Path) -> None:
    w = jnp.asarray(np.random.RandomState(0).randn(40, 40) / 7, dtype="float32")
    functions = {"f": (lambda x: jnp.tanh(x @ w)), "g": (lambda x: jnp.sort(x @ w + jnp.exp(x)))}
    x = (np.arange(1600) % 7 / 7).astype("f").reshape(40, 40)
    made = export.library(
        {name: (function, x) for name, function in functions.items()},
        name="m",
        path=tmp_path,
        target="x86-64",
        threads=True,
        mapped=mapped,
    )
    assert made.target == "x86-64"
    assert made.constant_bytes == w.nbytes
    expected = kiln.jit(functions["g"])(kiln.jit(functions["f"])(x))
    words = [str(tmp_path / "libm.so"), *[str(tmp_path / "m.constants")] * mapped]
    command = [sys.executable, "-S", "-E", "-c", _ON_A_LEVEL, *words]
    found = {}
    for level in ("x86-64-v2", "x86-64-v3", "x86-64-v4", ""):
        done = subprocess.run(command, capture_output=True, check=True, env={"KILN_TARGET": level})
        found[level] = np.frombuffer(done.stdout, "f").reshape(40, 40)
        np.testing.assert_allclose(found[level], expected, 1e-5, 1e-5)
    assert found["x86-64-v2"].tobytes() != found["x86-64-v3"].tobytes()
    np.testing.assert_array_equal(found[""], expected)


def test_nothing_else_is_visible_or_needed(tmp_path: Path) -> None:
    w = jnp.ones((5, 5))
    built(tmp_path, lambda x: jnp.sort(jnp.fft.fft(x @ w).real), np.ones((5, 5), "f"))
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", str(tmp_path / "libm.so")],
        capture_output=True,
        text=True,
        check=True,
    )
    names = sorted(line.split()[-1] for line in listed.stdout.splitlines())
    assert names == ["m", "m_create", "m_destroy", "m_error", "m_workspace_size"]
    needed = subprocess.run(
        ["readelf", "-d", str(tmp_path / "libm.so")], capture_output=True, text=True, check=True
    )
    shared = set(re.findall(r"Shared library: \[(.*?)\]", needed.stdout))
    assert shared <= {"libc.so.6", "libm.so.6"}


def test_libraries_do_not_meet(tmp_path: Path) -> None:
    """Two static libraries with the same kernels are linked into one program."""
    x = np.ones((30, 30), "f")
    for name, scale in (("first", 1.0), ("second", 2.0)):
        made = export.library(
            lambda x, scale=scale: jnp.sort(x @ x) * scale,
            x,
            name=name,
            path=tmp_path,
            shared=False,
        )
        assert made.functions == (name,)
    (tmp_path / "main.c").write_text(
        '#include "first.h"\n#include "second.h"\nstatic float x[900], y[900], z[900];\n'
        "int main(void) {\n  for (int i = 0; i < 900; ++i) x[i] = (float)i;\n"
        "  first_context *a = first_create(first_workspace_size());\n"
        "  second_context *b = second_create(second_workspace_size());\n"
        "  if (first(a, x, y) != 0 || second(b, x, z) != 0) return 1;\n"
        "  return 2 * y[17] == z[17] && y[17] != 0 ? 0 : 2;\n}\n"
    )
    command = ["cc", "main.c", "libfirst.a", "libsecond.a", "-lm", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True)
    subprocess.run([str(tmp_path / "main")], check=True)


REFUSED = {
    "callback": (
        lambda x: kiln.pure_callback(np.sin, x, x),
        "it calls 1 Python function, and a library has no Python",
        "leave callbacks",
    ),
    "print": (lambda x: kiln.debug.print("{}", x), "it calls 1 Python function", "debug.print"),
    "LAPACK": (
        lambda x: jnp.linalg.cholesky(x),
        "routines of LAPACK (kiln_cholesky_f32)",
        "blas=True",
    ),
    "element type": (
        lambda x: x.astype("float8_e4m3fn"),
        "C has no type for elements of float8_e4m3fn",
        "convert it inside",
    ),
    "hidden state": (
        lambda x: x + kiln.lax.rng_uniform(0.0, 1.0, (3, 3)),
        "a hidden state of this process",
        "kiln.random.uniform(key)",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_leave_is_refused_before_anything_is_written(
    what: str, tmp_path: Path
) -> None:
    function, wrong, remedy = REFUSED[what]
    with pytest.raises(NotImplementedError) as error:
        export.library(function, jnp.eye(3), name="m", path=tmp_path / "out")
    lines = str(error.value).splitlines()
    assert len(lines) == 3
    assert f"{__file__}:" in lines[0]
    assert lines[0].startswith("library m of <lambda>")
    assert wrong in lines[1]
    assert remedy in lines[2]
    assert not (tmp_path / "out").exists()


def test_programs_of_the_other_engine_are_refused(tmp_path: Path) -> None:
    struct = kiln.ShapeDtypeStruct(export.symbolic_shape("n, 4, 4"), "float32")
    factors = export.export(kiln.jit(jnp.linalg.cholesky))(struct)
    with pytest.raises(NotImplementedError, match=r"potrf.* of type float32\[\?,4,4\]") as error:
        export.library(export.deserialize(factors.serialize()), name="m", path=tmp_path / "out")
    assert "leave out what only XLA runs" in str(error.value).splitlines()[2]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["1st", "a-b", "", "float"])
def test_names_are_names_in_c(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not name functions of a library"):
        export.library({"f": (jnp.sin, 1.0)}, name=name, path=tmp_path)
    with pytest.raises(ValueError, match="does not name functions of a library"):
        export.library({"create": (jnp.sin, 1.0)}, name="m", path=tmp_path)


def test_an_unknown_target_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no such target"):
        export.library(jnp.sin, 1.0, name="m", path=tmp_path, target="z80")


def test_without_a_c_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(RuntimeError, match="there is no no-such-compiler"):
        export.library(jnp.sin, 1.0, name="m", path=tmp_path)
    made = export.library(jnp.sin, 1.0, name="m", path=tmp_path, shared=False)
    assert "libm.a" in made.files
