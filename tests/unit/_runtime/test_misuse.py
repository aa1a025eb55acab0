"""Whatever is called in the extension, and with whatever: an exception, no signal."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kiln.numpy as jnp
from kiln import _runtime
from kiln.core.arrays.array import ConcreteArray
from kiln.core.arrays.host_memory import HOST_MEMORY
from kiln.core.engines.engine import engine

ROOT = Path(__file__).parents[3]
CALLS = 500


@pytest.mark.parametrize(
    "seed", [*range(2), *[pytest.param(n, marks=pytest.mark.full) for n in range(2, 40)]]
)
def test_calls_drawn_at_random(seed: int, tmp_path: Path) -> None:
    note = tmp_path / "call"
    command = [sys.executable, "-X", "faulthandler", *["-S"] * sys.flags.no_site]
    done = subprocess.run(
        [*command, "-m", "tests.unit._runtime.misuse", str(seed), str(CALLS), str(note)],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    made = note.read_text().strip() if note.exists() else "before the first call"
    assert done.returncode == 0, f"seed {seed}, {made}: {done.returncode}\n{done.stderr[-3000:]}"
    assert "survived" in done.stdout


def test_a_program_without_what_runs_it() -> None:
    x = jnp.ones(3)
    unmade = [
        c.__new__(c) for c in (_runtime.CompiledProgram, _runtime.PlacedProgram, _runtime.Launcher)
    ]
    for program in unmade:
        with pytest.raises(TypeError, match="__init__"):
            program([x])
    program = _runtime.CompiledProgram(list, [x.aval], None, HOST_MEMORY, True)
    assert program([x])[0].tolist() == [1, 1, 1]
    with pytest.raises(TypeError, match="once"):
        program.__init__(list, [], None, HOST_MEMORY, True)  # type: ignore[misc]
    with pytest.raises(AttributeError):
        program.out_avals = ()  # type: ignore[misc]
    with pytest.raises(TypeError, match="iterable"):
        _runtime.CompiledProgram(list, 3, None, HOST_MEMORY, True)  # type: ignore[arg-type]
    del program._call
    with pytest.raises(TypeError, match="__init__"):
        program([x])
    with pytest.raises(TypeError):
        _runtime.NodeKind.__new__(_runtime.NodeKind).take_apart(3)


def test_a_list_of_arguments_that_is_emptied_meanwhile() -> None:
    given: list[Any] = [jnp.ones(3) * 2, jnp.ones(3) * 3]

    def run(buffers: Any) -> Any:
        given.clear()
        return list(buffers)

    avals = [x.aval for x in given]
    program = _runtime.CompiledProgram(run, avals, None, HOST_MEMORY, True)
    placed = _runtime.PlacedProgram(program, None, None, False, (0,), (0,), None)
    assert [y.tolist() for y in program(given)] == [[2] * 3, [3] * 3]
    given += [jnp.ones(3) * 2, jnp.ones(3) * 3]
    with pytest.raises(AttributeError, match="warn_of_unusable"):
        placed(given)


def test_the_fields_of_an_array_stay() -> None:
    x = jnp.ones(3)
    for name in ("aval", "_host", "_buffer", "_memory", "_sharding", "_committed"):
        with pytest.raises((AttributeError, TypeError)):
            delattr(x, name)
    with pytest.raises(TypeError, match="once"):
        x.__init__(x.aval, None)  # type: ignore[misc]
    with pytest.raises(TypeError, match="another array"):
        ConcreteArray(x.aval, x)  # type: ignore[arg-type]
    assert (x + 1).tolist() == [2, 2, 2]


@pytest.mark.parametrize("host", [np.ones(2, np.float32), np.ones((), np.float32), "text", None])
def test_an_array_that_is_not_what_its_type_says(host: Any) -> None:
    x = ConcreteArray(jnp.ones(1000).aval, host)
    for use in (lambda: x + 1, lambda: -x, lambda: x == x, lambda: memoryview(x).tobytes()):
        with pytest.raises(Exception, match=r"."):
            assert np.asarray(use()).shape == (1000,)


def test_less_memory_than_an_array_needs() -> None:
    few = _runtime.allocate(8)
    x = ConcreteArray(jnp.ones(1000).aval, few)  # type: ignore[arg-type]
    for use in (lambda: x + 1, lambda: -x, lambda: repr(x), lambda: memoryview(x)):
        with pytest.raises(ValueError, match="8 bytes of memory"):
            use()
    with pytest.raises(ValueError, match="8 bytes of memory"):
        _runtime.CompiledProgram(len, [], None, engine("xla").memory, False)([x])


def test_subclasses_of_the_data_live_and_die() -> None:
    class Mine(_runtime.ArrayData):
        pass

    before = sys.getrefcount(Mine)
    for _ in range(100):
        Mine(jnp.ones(1).aval, None)
    assert sys.getrefcount(Mine) == before


def test_a_dtype_function_that_lies() -> None:
    def capsule() -> Any:
        return np.arange(3, dtype=np.int32).__dlpack__()

    for wrong in (np.dtype("O"), np.dtype("f8"), np.dtype("i1"), np.dtype("(2,)i2"), "f4"):
        with pytest.raises(TypeError):
            _runtime.from_dlpack(capsule(), lambda *_, d=wrong: d)  # type: ignore[misc]
    one = capsule()

    def thief(*_: Any) -> np.dtype:
        _runtime.from_dlpack(one, lambda *_: np.dtype("i4"))
        return np.dtype("i4")

    with pytest.raises(BufferError, match="meanwhile"):
        _runtime.from_dlpack(one, thief)
    for values, bits in ((np.ones(3, "O"), 64), (np.ones(3, np.int8), 64)):
        with pytest.raises(BufferError):
            _runtime.to_dlpack(values, 2, bits, True, False)


F4 = np.dtype("f4")
INPUT, CONSTANT, SCRATCH, RESULT, MADE = range(5)


def plan(steps: list[Any], results: Any = None, buffers: Any = None, inputs: Any = None) -> Any:
    """Return a plan from one input of three floats to a result of three."""
    return _runtime.Plan(
        [(F4, 12)] if inputs is None else inputs,
        [(INPUT, 0), (RESULT, 12), (MADE, 0)] if buffers is None else buffers,
        steps,
        [(0, 1, jnp.ones(3).aval)] if results is None else results,
        0,
    )


def adding(*operands: Any, sizes: Any = (3,)) -> Any:
    """Return a step that adds two operands of (buffer, offset, stride)."""
    loop = _runtime.loop_of_ufunc(np.add, "fff")
    return (loop, sizes, [(b, o, (s,) * len(sizes)) for b, o, s in operands])


X, Y = (0, 0, 4), (1, 0, 4)


def test_a_plan_that_is_right() -> None:
    x = jnp.arange(3.0)
    assert plan([adding(X, X, Y)])(x).tolist() == [0, 2, 4]
    assert plan([adding(X, (0, 8, -4), Y)])(x).tolist() == [2, 2, 2]
    assert plan([adding(X, X, Y, sizes=(0, 3))])(x).shape == (3,)


@pytest.mark.parametrize(
    "steps",
    [
        [adding(X, (0, 4, 4), Y)],
        [adding(X, (0, -4, 4), Y)],
        [adding(X, (0, 0, 8), Y)],
        [adding(X, (0, 0, -4), Y)],
        [adding(X, X, (1, 4, 4))],
        [adding(X, (0, 2, 4), Y, sizes=(1,))],
        [adding(X, X, Y, sizes=(4,))],
        [adding(X, X, Y, sizes=(-1,))],
        [adding(X, X, Y, sizes=(2**62,))],
        [adding(X, X, Y, sizes=(2**40, 2**40))],
        [adding(X, X, Y, sizes=())],
        [adding(X, Y)],
        [adding(X, X, X)],
        [adding(X, X, (2, 0, 4))],
        [adding(X, (2, 0, 4), Y)],
        [adding(X, (7, 0, 4), Y)],
        [(_runtime.loop_of_ufunc(np.add, "ddd"), (3,), [(0, 0, (4,))] * 2 + [(1, 0, (4,))])],
        [(_runtime.loop_of_ufunc(np.matmul, "fff"), (3,), [(0, 0, (4,))] * 2 + [(1, 0, (4,))])],
        [(_runtime.loop_of_ufunc(np.add, "fff"), (3,), [(0, 0, ())] * 3, (4, 4, 4))],
        [(len, [(0, 0, F4, (4,), (4,))], [(2, 0, F4, (3,), (4,))])],
        [(len, [(0, 0, np.dtype("O"), (1,), (4,))], [(2, 0, F4, (3,), (4,))])],
        [(len, [(0, 0, F4, (3,), ())], [(2, 0, F4, (3,), (4,))])],
        [(len, [], [(1, 0, F4, (3,), (4,))])],
        [(len, [], [(2, 0, F4, (3,), (4,))] * 2)],
        [(len, [], [])],
    ],
)
def test_a_plan_that_leaves_its_memory(steps: list[Any]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        plan(steps)


@pytest.mark.parametrize(
    "parts",
    [
        {"results": [(1, 1, None)]},
        {"results": [(0, 2, None)]},
        {"results": [(9, 1, None)]},
        {"results": []},
        {"buffers": [(INPUT, 1), (RESULT, 12)]},
        {"buffers": [(INPUT, 0), (RESULT, -12)]},
        {"buffers": [(INPUT, 0), (SCRATCH, 12)]},
        {"buffers": [(INPUT, 0), (9, 12)]},
        {"inputs": [(F4, 8)]},
        {"inputs": [(np.dtype("O"), 12)]},
    ],
)
def test_parts_of_a_plan_that_are_none(parts: Any) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        plan([adding(X, X, Y)], **parts)


def test_loops_over_what_is_no_number() -> None:
    fake = type("numpy.ufunc", (), {})()
    assert _runtime.loop_of_ufunc(np.add, "OOO") is None
    assert _runtime.loop_of_ufunc(fake, "fff") is None
    with pytest.raises(TypeError):
        plan([(3, 4)])
    with pytest.raises(TypeError):
        plan([3])
