"""Compilation: once for each program, from any number of threads."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from kiln.base.errors import UnexpectedTracerError
from kiln.base.options.config import override
from kiln.base.process.memory import physical_bytes
from kiln.control.effects.callback import pure_callback
from kiln.core.arrays.array import from_host
from kiln.core.engines import engine as engines
from kiln.core.engines.engine import engine
from kiln.core.staging import stage, stage_pure
from kiln.execution import compilation
from kiln.execution.compilation import as_array, compile_jaxpr
from kiln.execution.engine_choice import Choice
from kiln.execution.programs import program_of
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.types import ShapedArray
from kiln.jit.signatures.struct import ShapeDtypeStruct
from kiln.ops.elements.elementwise import add, cos, mul, sin

AVAL = ShapedArray((3,), np.dtype(np.float32))
X = from_host(np.array([1.0, 2.0, 3.0], np.float32))
SHAPE = ShapeDtypeStruct((3,), np.float32)
REFERENCE = Choice("reference", "the test asks for it")
XLA = Choice("xla", "the test asks for it")


def chosen(home: Any, monkeypatch: pytest.MonkeyPatch) -> Choice:
    """Return the choice of an engine of a test's own."""
    monkeypatch.setitem(engines._loaded, home.name, home)
    return Choice(home.name, "the test asks for it")


@pytest.fixture
def compiled() -> Iterator[list[str]]:
    """Return the names of what is compiled during the test."""
    names: list[str] = []
    compilation.clear()
    stop = compilation.on_compile(lambda name, seconds: names.append(name))
    yield names
    stop()


def program() -> Jaxpr:
    return stage_pure(lambda x, unused: [mul(sin(x), x)], [AVAL, AVAL])


def test_equal_programs_are_compiled_once(compiled: list[str]) -> None:
    first = compile_jaxpr(program(), "f", choice=REFERENCE)
    assert compile_jaxpr(program(), "g", choice=REFERENCE) is first
    assert compiled == ["f"]


def test_what_separates_programs(compiled: list[str]) -> None:
    compile_jaxpr(program(), "f", choice=REFERENCE)
    compile_jaxpr(program(), "f", choice=REFERENCE, keep_unused=True)
    compile_jaxpr(program(), "f", choice=XLA)
    option = ("xla_backend_optimization_level", 0)
    compile_jaxpr(program(), "f", choice=XLA, compiler_options=(option,))
    with override(default_matmul_precision="highest"):
        compile_jaxpr(program(), "f", choice=REFERENCE)
    compile_jaxpr(stage_pure(lambda x, y: [mul(cos(x), x)], [AVAL, AVAL]), "f", choice=REFERENCE)
    assert len(compiled) == 6


def test_clear_forgets(compiled: list[str]) -> None:
    compile_jaxpr(program(), "f", choice=REFERENCE)
    compilation.clear()
    compile_jaxpr(program(), "f", choice=REFERENCE)
    assert compiled == ["f", "f"]


def test_unused_inputs_and_dead_code_go() -> None:
    jaxpr = stage_pure(lambda x, y: [cos(y), sin(x)][1:], [AVAL, AVAL])
    program, kept = program_of(jaxpr, "f")
    clean = program.jaxpr
    assert str(clean) == "{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }"
    assert kept == [0]
    program, kept = program_of(jaxpr, "f", keep_unused=True)
    clean = program.jaxpr
    assert (len(clean.invars), len(clean.eqns), kept) == (2, 1, None)


def test_running_takes_the_inputs_that_stay() -> None:
    run = compile_jaxpr(program(), "f", choice=REFERENCE)
    (out,) = run([X, 7.0])
    np.testing.assert_allclose(np.asarray(out), np.sin([1, 2, 3]) * [1, 2, 3], 1e-6)
    assert run.out_avals == (AVAL,)


def test_threads_share_one_compilation(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = engine("reference")

    class Slow:
        name = "slow"
        memory = home.memory

        @property
        def compiler(self) -> Any:
            return self

        def compile(self, program: Any) -> Any:
            time.sleep(0.1)
            return home.compiler.compile(program)

    results: list[Any] = []
    jaxpr = program()
    slow = chosen(Slow(), monkeypatch)
    threads = [
        threading.Thread(target=lambda: results.append(compile_jaxpr(jaxpr, "f", choice=slow)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert compiled == ["f"]
    assert len(set(map(id, results))) == 1


def test_a_failure_is_not_kept(compiled: list[str]) -> None:
    class Broken:
        name = "broken"
        memory = engine("reference").memory

        @property
        def compiler(self) -> Any:
            return self

        def compile(self, program: Any) -> Any:
            raise RuntimeError("no")

    with pytest.MonkeyPatch.context() as patch:
        broken = chosen(Broken(), patch)
        with pytest.raises(RuntimeError, match="no"):
            compile_jaxpr(program(), "f", choice=broken)
        patch.setattr(Broken, "compile", lambda self, p: engine("reference").compiler.compile(p))
        compile_jaxpr(program(), "f", choice=broken)
    assert compiled == ["f"]


def test_values_become_arrays() -> None:
    mine = np.ones(2)
    made = as_array(mine)
    mine[:] = 2
    assert np.asarray(made).tolist() == [1, 1]
    assert made.dtype == np.float32
    assert as_array(X) is X
    assert as_array(2.5).weak_type
    leak: list[Any] = []
    stage(lambda x: leak.append(add(x, 1.0)) or [], [AVAL])
    with pytest.raises(UnexpectedTracerError):
        as_array(leak[0])


def test_a_type_has_no_value() -> None:
    with pytest.raises(TypeError, match=r"it has a type but no value(.|\n)*float32\[3\]"):
        as_array(SHAPE)
    with pytest.raises(TypeError, match="it has a type but no value"):
        compile_jaxpr(program(), "f")([SHAPE, X])


def test_the_log_names_what_is_compiled(caplog: pytest.LogCaptureFixture) -> None:
    compilation.clear()
    with override(log_compiles=True), caplog.at_level("WARNING", "kiln"):
        compile_jaxpr(program(), "step", choice=REFERENCE)
    assert "Compiling step" in caplog.text


# Executables that go and come back.


def programs(count: int) -> list[Jaxpr]:
    return [stage_pure(lambda x, i=i: [mul(sin(x), float(i))], [AVAL]) for i in range(count)]


def test_executables_are_bounded_by_bytes(compiled: list[str]) -> None:
    jaxprs = programs(40)
    with override(executable_cache_mb=0):
        runs = [compile_jaxpr(jaxpr, "f", choice=REFERENCE) for jaxpr in jaxprs]
    assert [run.is_loaded for run in runs] == [False] * 39 + [True]
    assert len(compilation._cache) == 1


def test_what_ran_last_stays(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    jaxprs = programs(9)
    runs = [compile_jaxpr(jaxpr, "f", choice=REFERENCE) for jaxpr in jaxprs[:8]]
    size = compilation._cache.size
    for i in (0, 2, 4, 6):
        runs[i]([X])
    monkeypatch.setattr(compilation._cache, "_limit", lambda: size * 6 // 8)
    compile_jaxpr(jaxprs[8], "f", choice=REFERENCE)
    assert [run.is_loaded for run in runs] == [True, False] * 4


def test_an_executable_comes_back_when_it_is_called(compiled: list[str]) -> None:
    first, second = programs(3)[1:]
    with override(executable_cache_mb=0, default_matmul_precision="highest"):
        run = compile_jaxpr(first, "first", choice=REFERENCE)
        other = compile_jaxpr(second, "second", choice=REFERENCE)
    assert not run.is_loaded
    returned: list[str] = []
    stop = compilation.on_recompile(lambda name, seconds: returned.append(name))
    with override(executable_cache_mb=0):
        (out,) = run([X])
    stop()
    np.testing.assert_allclose(np.asarray(out), np.sin([1, 2, 3]), 1e-6)
    assert run.is_loaded
    assert not other.is_loaded
    assert compiled == ["first", "second", "first"]
    assert returned == ["first"]
    assert other.executable is other.executable
    assert other.is_loaded


def test_all_callers_of_an_evicted_program_get_the_same(compiled: list[str]) -> None:
    first, second = programs(3)[1:]
    with override(executable_cache_mb=0):
        run = compile_jaxpr(first, "first", choice=REFERENCE)
        compile_jaxpr(second, "second", choice=REFERENCE)
        assert compile_jaxpr(first, "first", choice=REFERENCE) is run
    assert run.is_loaded
    assert compiled == ["first", "second", "first"]


def test_pinned_executables_stay_with_their_holder(compiled: list[str]) -> None:
    first, second = programs(3)[1:]
    with override(executable_cache_mb=0):
        run = compile_jaxpr(first, "first", choice=REFERENCE)
        run.pin()
        compile_jaxpr(second, "second", choice=REFERENCE)
    compilation.clear()
    run([X])
    assert compiled == ["first", "second"]


def test_the_limit_grows_by_what_comes_back_unless_it_is_set(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compilation, "AUTOMATIC_MB", 0)
    first, second = programs(3)[1:]
    one, two = (compile_jaxpr(jaxpr, "f", choice=REFERENCE) for jaxpr in (first, second))
    assert (one.is_loaded, two.is_loaded) == (False, True)
    for _ in range(3):
        one([X])
        two([X])
    assert (one.is_loaded, two.is_loaded) == (True, True)
    assert len(compiled) <= 5
    compilation.clear()
    assert compilation._limit() == 0
    with override(executable_cache_mb=3):
        assert compilation._limit() == 3 << 20
    monkeypatch.setattr(compilation, "_recompiled_bytes", 1 << 60)
    assert compilation._limit() == physical_bytes() // 8


def test_programs_die_with_those_who_hold_them(compiled: list[str]) -> None:
    run = compile_jaxpr(program(), "f", choice=REFERENCE)
    watch, key = weakref.ref(run), run.key
    gc.disable()
    try:
        compilation.clear()
        assert watch() is run
        del run
        assert watch() is None
    finally:
        gc.enable()
    assert key not in compilation._alive


def test_threads_that_call_it_bring_an_executable_back_once(compiled: list[str]) -> None:
    run = compile_jaxpr(program(), "f", choice=REFERENCE)
    compilation.clear()
    compiled.clear()
    together = threading.Barrier(8)

    def work() -> None:
        together.wait()
        run([X, 7.0])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert compiled == ["f"]


def test_keys_are_compared_under_no_lock(compiled: list[str]) -> None:
    """A key may hold the user's objects, whose `__eq__` may call kiln."""

    class Option:
        def __hash__(self) -> int:
            return 7

        def __eq__(self, other: object) -> bool:
            if compares:
                compile_jaxpr(inner, "inner", choice=REFERENCE)
            return self is other

    inner, compares = program(), True
    for _ in range(3):
        compile_jaxpr(program(), "f", choice=REFERENCE, donated=(Option(),))  # type: ignore[arg-type]
    compares = False
    assert compiled.count("f") == 3


def test_memory_is_estimated() -> None:
    small = compile_jaxpr(programs(2)[1], "f", choice=XLA)
    large = stage_pure(lambda x: [_chain(x, 60)], [AVAL])
    assert 100_000 < small.size < compile_jaxpr(large, "f", choice=XLA).size


def _chain(x: Any, length: int) -> Any:
    for _ in range(length):
        x = add(sin(x), cos(x))
    return x


def test_programs_with_the_users_functions_die_with_their_holder(compiled: list[str]) -> None:
    def on_host(x: Any) -> Any:
        return x

    def with_callback() -> Jaxpr:
        return stage_pure(lambda x: [pure_callback(on_host, SHAPE, x)], [AVAL])

    own, equal = with_callback(), with_callback()
    run = compile_jaxpr(own, "f", choice=REFERENCE)
    assert compile_jaxpr(own, "f", choice=REFERENCE) is run
    assert compile_jaxpr(equal, "f", choice=REFERENCE) is not run
    assert compilation._cache.size == run.size
    watch = weakref.ref(run)
    compilation.clear()
    run([X])
    assert compiled == ["f", "f", "f"]
    del run
    assert watch() is None
    assert len(compilation._cache) == 0


def test_weakly_typed_results_are_called_by_address_until_eviction(compiled: list[str]) -> None:
    strong, other = programs(3)[1:]
    choice = Choice("native", "the test asks for it")
    run = compile_jaxpr(strong, "first", choice=choice)
    retyped = run.giving([ShapedArray((3,), np.dtype(np.float32), weak_type=True)])
    assert retyped is not run
    for _ in range(2):
        for _ in range(2):
            (out,) = retyped([X])
        assert out.aval.weak_type
        np.testing.assert_allclose(np.asarray(out), np.sin([1, 2, 3]), 1e-6)
        assert retyped._call is run._call
        retyped.used = compilation.CLOCK.now + 5
        assert compilation._used(lambda: run) == retyped.used
        with override(executable_cache_mb=0):
            compile_jaxpr(other, "second", choice=choice)
            run.unload()
        assert retyped._call is not run._call
    assert compiled[:3] == ["first", "second", "first"]
