"""Compilation: once for each program, whoever asks, from however many threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from kiln.base.config import override
from kiln.base.errors import UnexpectedTracerError
from kiln.core import compilation
from kiln.core.array import from_host
from kiln.core.compilation import as_array, compile_jaxpr, prepare
from kiln.core.engine import engine
from kiln.core.staging import stage, stage_pure
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.types import ShapedArray
from kiln.ops.elementwise import add, cos, mul, sin

AVAL = ShapedArray((3,), np.dtype(np.float32))
X = from_host(np.array([1.0, 2.0, 3.0], np.float32))


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
    first = compile_jaxpr(program(), "f", on="reference")
    assert compile_jaxpr(program(), "g", on="reference") is first
    assert compiled == ["f"]


def test_what_separates_programs(compiled: list[str]) -> None:
    compile_jaxpr(program(), "f", on="reference")
    compile_jaxpr(program(), "f", on="reference", keep_unused=True)
    compile_jaxpr(program(), "f", on="reference", compiler_options=(("a", 1),))
    with override(default_matmul_precision="highest"):
        compile_jaxpr(program(), "f", on="reference")
    compile_jaxpr(stage_pure(lambda x, y: [mul(cos(x), x)], [AVAL, AVAL]), "f", on="reference")
    assert len(compiled) == 5


def test_clear_forgets(compiled: list[str]) -> None:
    compile_jaxpr(program(), "f", on="reference")
    compilation.clear()
    compile_jaxpr(program(), "f", on="reference")
    assert compiled == ["f", "f"]


def test_unused_inputs_and_dead_code_go() -> None:
    jaxpr = stage_pure(lambda x, y: [cos(y), sin(x)][1:], [AVAL, AVAL])
    clean, kept = prepare(jaxpr)
    assert str(clean) == "{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }"
    assert kept == [0]
    clean, kept = prepare(jaxpr, keep_unused=True)
    assert (len(clean.invars), len(clean.eqns), kept) == (2, 1, None)


def test_running_takes_the_inputs_that_stay() -> None:
    run = compile_jaxpr(program(), "f", on="reference")
    (out,) = run([X, 7.0])
    np.testing.assert_allclose(np.asarray(out), np.sin([1, 2, 3]) * [1, 2, 3], 1e-6)
    assert run.out_avals == [AVAL]


def test_threads_share_one_compilation(compiled: list[str]) -> None:
    home = engine("reference")

    class Slow:
        name = "slow"
        host_memory = True

        def compile(self, program: Any) -> Any:
            time.sleep(0.1)
            return home.compile(program)

    results: list[Any] = []
    jaxpr = program()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compilation, "engine", lambda name: Slow())
        threads = [
            threading.Thread(target=lambda: results.append(compile_jaxpr(jaxpr, "f", on="slow")))
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

        def compile(self, program: Any) -> Any:
            raise RuntimeError("no")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compilation, "engine", lambda name: Broken())
        with pytest.raises(RuntimeError, match="no"):
            compile_jaxpr(program(), "f", on="broken")
        patch.setattr(Broken, "compile", lambda self, p: engine("reference").compile(p))
        compile_jaxpr(program(), "f", on="broken")
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


def test_the_log_names_what_is_compiled(caplog: pytest.LogCaptureFixture) -> None:
    compilation.clear()
    with override(log_compiles=True), caplog.at_level("WARNING", "kiln"):
        compile_jaxpr(program(), "step", on="reference")
    assert "Compiling step" in caplog.text
