"""Executables of the native engine as bytes: stored here, loaded there, refused elsewhere."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.options.config import override
from kiln.core.arrays.array import from_host
from kiln.core.arrays.host_memory import HOST_MEMORY
from kiln.core.engines.engine import PortableCompiler, Program, engine
from kiln.core.staging import stage_pure
from kiln.core.trace import aval_of
from kiln.engines.native.executables import portable
from kiln.engines.native.executables.stored_sizes import number_data, number_of
from kiln.engines.native.loop_ir.extents import Grain
from kiln.errors import JaxRuntimeError
from kiln.ir.sizes.size import maximum, symbol

COMPILER = engine("native").compiler
ROWS = np.linspace(-2, 2, 48, dtype=np.float32).reshape(6, 8)
SQUARE = np.eye(6, dtype=np.float32) * 3 + 0.25
TABLE = np.arange(300, dtype=np.float32)


def _loop(x: Any) -> Any:
    return lax.while_loop(lambda c: c[0] < 20, lambda c: (c[0] + 1, jnp.sin(c[1]) + 1), (0, x))


PROGRAMS: dict[str, tuple[Callable[..., Any], list[np.ndarray]]] = {
    "elementwise": (lambda x: jnp.exp(x) * 2 + x, [ROWS]),
    "softmax": (lambda x: kiln.nn.softmax(x), [ROWS]),
    "kernels": (lambda x: (jnp.sort(x, 1), jnp.cumsum(x, 0), jnp.fft.rfft(x)), [ROWS]),
    "blas": (lambda x: (x @ x.T, jnp.linalg.solve(SQUARE, x)), [ROWS]),
    "epilogues": (
        lambda x, w: kiln.nn.softmax(jnp.maximum(x @ w, 0) @ w.T @ w),
        [np.eye(600, 20, dtype="f4"), np.eye(20, 500, dtype="f4")],
    ),
    "loops": (_loop, [ROWS]),
    "identity": (lambda x: (x, x + 1, x), [ROWS]),
    "constants": (lambda x: x[0, 0] + TABLE, [ROWS]),
    "scan": (lambda x: lax.scan(lambda c, r: (c + r, c * r), x[0], x), [ROWS]),
    "narrow": (lambda x: (x.astype(jnp.bfloat16) * 3).astype(np.float16), [ROWS]),
    "complex": (lambda x: jnp.sqrt(x + 1j * x), [ROWS]),
    "bits": (lambda x: kiln.random.normal(kiln.random.key(3), (5,)) + x[0, 0], [ROWS]),
    "rng": (lambda x: lax.rng_uniform(x[0, 0] * 0, x[0, 0] * 0 + 1, (3,)).shape[0] + x, [ROWS]),
}
ALL_AT_ONCE = [name for name in PROGRAMS if name != "rng"]


def program(name: str, **changes: Any) -> Program:
    function, operands = PROGRAMS[name]
    jaxpr = stage_pure(
        lambda *xs: kiln.tree.leaves(function(*xs)), [aval_of(x) for x in operands], name=name
    )
    return Program(jaxpr, name, **changes)


def run(executable: Any, name: str) -> list[np.ndarray]:
    buffers = [HOST_MEMORY.put(x) for x in PROGRAMS[name][1]]
    avals = executable.program.jaxpr.out_avals
    return [
        np.frombuffer(memory, aval.physical().dtype).reshape(aval.shape)
        for memory, aval in zip(executable(buffers), avals, strict=True)
    ]


def test_it_is_a_portable_compiler() -> None:
    assert isinstance(COMPILER, PortableCompiler)


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_stored_is_what_is_loaded(name: str) -> None:
    compiled = COMPILER.compile(program(name))
    stored = COMPILER.serialize(compiled)
    loaded = COMPILER.load(program(name), stored)
    for a, b in zip(run(compiled, name), run(loaded, name), strict=True):
        np.testing.assert_array_equal(a, b)
    assert loaded.as_text("loops") == compiled.as_text("loops")
    assert loaded.as_text("llvm") == compiled.as_text("llvm")
    assert loaded.cost_analysis() == compiled.cost_analysis()
    assert COMPILER.serialize(loaded) == stored


ELSEWHERE = """
import sys
from pathlib import Path
from tests.unit.engines.native.executables import test_portable as t
if sys.argv[1] == "digests":
    programs = [*map(t.program, t.PROGRAMS), *map(t.sized_program, t.SIZED)]
    print(*map(t.COMPILER.digest, programs))
else:
    from kiln.engines.native.llvm import assembly
    def refuse(*_): raise AssertionError("nothing is compiled")
    assembly.assemble = refuse
    for name in t.ALL_AT_ONCE:
        loaded = t.COMPILER.load(t.program(name), (Path(sys.argv[1]) / name).read_bytes())
        for i, out in enumerate(t.run(loaded, name)):
            (Path(sys.argv[1]) / f"{name}{i}").write_bytes(out.tobytes())
    for name in t.SIZED:
        stored = (Path(sys.argv[1]) / f"sized {name}").read_bytes()
        for i, out in enumerate(t.run_sized(t.COMPILER.load(t.sized_program(name), stored), 77)):
            (Path(sys.argv[1]) / f"sized {name}{i}").write_bytes(out.tobytes())
assert "jaxlib" not in sys.modules
"""


def elsewhere(argument: Any, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run in a fresh process, in which hashes of strings are others."""
    return subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(argument)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "PYTHONHASHSEED": "77", **environment},
    )


def test_a_fresh_process_loads_and_runs_what_another_stored(tmp_path: Path) -> None:
    for name in ALL_AT_ONCE:
        (tmp_path / name).write_bytes(COMPILER.serialize(COMPILER.compile(program(name))))
    sized = {name: COMPILER.compile(sized_program(name)) for name in SIZED}
    for name, executable in sized.items():
        (tmp_path / f"sized {name}").write_bytes(COMPILER.serialize(executable))
    done = elsewhere(tmp_path)
    assert done.returncode == 0, done.stderr
    for name, executable in sized.items():
        for i, out in enumerate(run_sized(executable, 77)):
            assert (tmp_path / f"sized {name}{i}").read_bytes() == out.tobytes(), name
    for name in ALL_AT_ONCE:
        for i, out in enumerate(run(COMPILER.compile(program(name)), name)):
            assert (tmp_path / f"{name}{i}").read_bytes() == out.tobytes(), name


def test_digests_are_the_same_in_another_process() -> None:
    names = list(map(COMPILER.digest, [*map(program, PROGRAMS), *map(sized_program, SIZED)]))
    assert None not in names
    assert len(set(names)) == len(names)
    done = elsewhere("digests")
    assert done.stdout.split() == names, done.stderr


def test_a_digest_names_a_program_and_how_it_is_compiled() -> None:
    plain = program("elementwise")
    others = [
        program("softmax"),
        dataclasses.replace(plain, donated=(0,)),
        dataclasses.replace(plain, compiler_options=(("threads", 2),)),
        dataclasses.replace(plain, name="other"),
    ]
    for change in (lambda x: x + 1.5, lambda x: x + 2.5, lambda x: x + np.float32(1.5).repeat(8)):
        jaxpr = stage_pure(lambda x, f=change: [f(x)], [aval_of(ROWS)], name="elementwise")
        others.append(Program(jaxpr, "elementwise"))
    names = [COMPILER.digest(each) for each in (plain, *others)]
    assert len(set(names)) == len(names)
    assert COMPILER.digest(program("elementwise")) == names[0]


def test_donation_is_stored() -> None:
    donating = program("elementwise", donated=(0,))
    compiled = COMPILER.compile(donating)
    assert compiled.taken
    assert COMPILER.load(donating, COMPILER.serialize(compiled)).taken == compiled.taken


@pytest.mark.skipif(platform.machine() != "x86_64", reason="needs several levels of a processor")
@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3"])
def test_code_for_other_processors_is_refused(level: str, tmp_path: Path) -> None:
    if COMPILER.serialize(COMPILER.compile(program("elementwise"))).find(level.encode()) >= 0:
        pytest.skip("the host's own level")
    for name in ALL_AT_ONCE:
        (tmp_path / name).write_bytes(COMPILER.serialize(COMPILER.compile(program(name))))
    done = elsewhere(tmp_path, KILN_TARGET=level)
    assert done.returncode != 0
    assert f"and this is {level}" in done.stderr


def refusal(stored: bytes, name: str = "elementwise") -> str:
    with pytest.raises(JaxRuntimeError, match="loading a compiled program") as caught:
        COMPILER.load(program(name), stored)
    text = str(caught.value)
    assert len(text.splitlines()) == 3
    return text


def test_other_bytes_are_refused() -> None:
    stored = COMPILER.serialize(COMPILER.compile(program("elementwise")))
    assert "not a compiled program" in refusal(b"")
    assert "not a compiled program" in refusal(b"\x7fELF" + stored)
    assert "damaged" in refusal(stored[:-1])
    assert "damaged" in refusal(stored[:200] + bytes([stored[200] ^ 1]) + stored[201:])
    assert "other types" in refusal(stored, "blas")


def test_another_build_of_kiln_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = COMPILER.serialize(COMPILER.compile(program("elementwise")))
    monkeypatch.setattr(portable, "_build", lambda: "another")
    assert "the build of kiln" in refusal(stored)


def test_a_program_that_calls_python_has_no_stored_form() -> None:
    def calling(x: Any) -> list[Any]:
        return [kiln.pure_callback(np.sin, kiln.ShapeDtypeStruct((6, 8), np.float32), x)]

    calls = Program(stage_pure(calling, [aval_of(from_host(ROWS))]), "calling")
    assert COMPILER.digest(calls) is None
    with pytest.raises(ValueError, match="calls 1 Python function"):
        COMPILER.serialize(COMPILER.compile(calls))


SIZED: dict[str, Callable[..., Any]] = {
    "elementwise": lambda x: jnp.exp(x) * 2 + x.shape[0],
    "reductions": lambda x: (kiln.nn.softmax(x, 0), x.sum(0), x.mean(1)),
    "kernels": lambda x: (jnp.sort(x, 0), jnp.cumsum(x, 0), jnp.repeat(x, 2, axis=0)),
    "pieces": lambda x: jnp.concatenate([x, x[x.shape[0] // 2 :], x * 2]),
    "blas": lambda x: (x @ x.T, x.T @ x),
    "loops": lambda x: lax.scan(lambda c, r: (c + r, c * r), x[0], x),
}


def sized_program(name: str) -> Program:
    jaxpr = kiln.make_jaxpr(SIZED[name], abstracted_axes=({0: "n"},))(ROWS).jaxpr
    return Program(jaxpr, name, sizes=("n",))


def run_sized(executable: Any, n: int) -> list[np.ndarray]:
    """Return the bytes of the results for rows of a number."""
    x = np.linspace(-1, 1, 8 * n, dtype=np.float32).reshape(n, 8)
    return [np.frombuffer(y, np.uint8) for y in executable.for_sizes([n])([HOST_MEMORY.put(x)])]


@pytest.mark.parametrize("name", SIZED)
def test_what_is_stored_for_all_sizes_is_what_is_loaded(name: str) -> None:
    compiled = COMPILER.compile(sized_program(name))
    stored = COMPILER.serialize(compiled)
    loaded = COMPILER.load(sized_program(name), stored)
    for n in (1, 2, 6, 130, 3001):
        for a, b in zip(run_sized(compiled, n), run_sized(loaded, n), strict=True):
            np.testing.assert_array_equal(a, b)
    assert loaded.as_text("loops") == compiled.as_text("loops")
    assert COMPILER.serialize(loaded) == stored == COMPILER.serialize(compiled.for_sizes([4]))
    assert "other types" in refusal(stored)
    digest = COMPILER.digest(sized_program(name))
    assert digest is not None
    assert digest == COMPILER.digest(sized_program(name))
    fixed = kiln.make_jaxpr(SIZED[name])(ROWS).jaxpr
    assert digest != COMPILER.digest(Program(fixed, name))


def test_sizes_that_no_call_supplies_have_no_digest() -> None:
    assert COMPILER.digest(dataclasses.replace(sized_program("blas"), sizes=())) is None


def test_numbers_of_calls_as_data() -> None:
    n, m = symbol("n"), symbol("m")
    for number in (
        *(7, n, 3 * n * m - 2, (n + 5) // 4 * m, maximum(n - m, m // 3, 2) * n),
        Grain(4096, n * m // 2, 8),
    ):
        data = json.loads(json.dumps(number_data(number)))
        assert number_of(data) == number


def test_what_is_not_compiled_for_the_host_has_no_digest() -> None:
    narrow = stage_pure(lambda x: [x.astype(jnp.float8_e4m3fn)], [aval_of(ROWS)])
    assert COMPILER.digest(Program(narrow, "narrow")) is None


def test_checks_are_found_after_loading_and_figures_are_not_stored() -> None:
    def falling(x: Any) -> Any:
        return kiln.lax.scan(lambda c, _: (c - 1, jnp.sqrt(c)), x, None, length=6)[1]

    compiler = engine("native").compiler
    lowered = kiln.jit(falling, check="nan").lower(2.5)
    program = lowered._program
    stored = compiler.serialize(compiler.compile(program))
    with pytest.raises(FloatingPointError, match=r"`sqrt` of .*, iteration 3 of scan"):
        compiler.load(program, stored)([np.float32(2.5)])
    with override(profile=True):
        assert compiler.digest(program) is None
        with pytest.raises(ValueError, match="is instrumented"):
            compiler.serialize(compiler.compile(program))
