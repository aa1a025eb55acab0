"""Compiled functions called by their address."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import _runtime
from kiln.base.tree import tree_flatten
from tests.unit._runtime.native import native_code

SOURCE = """
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


@pytest.fixture
def program() -> Make:
    def make(name: str, *given: Any, **options: Any) -> _runtime.CompiledProgram:
        return native_code.program(SOURCE, name, *given, **options)

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


def test_workspace_and_sizes(program: Make) -> None:
    scaled = program("by_workspace", [ONE], [ONE], workspace=4000, sizes=(7, 3))
    assert [float(scaled([x])[0]) for x in (1.0, 2.0)] == [3.0, 6.0]


def test_a_shared_result_is_its_operand(program: Make) -> None:
    same = program("nothing", [np.ones(3, np.float32)], [np.ones(3, np.float32)], shared=[(0, 0)])
    x = jnp.arange(3.0) * 2
    (y,) = same([x])
    assert y.unsafe_buffer_pointer() and y.tolist() == [0, 2, 4]
    x, view = jnp.arange(3.0) + 1, None
    (y,) = same([x])
    view = np.asarray(y)
    assert view.ctypes.data == np.asarray(x).ctypes.data
    x.delete()
    assert y.tolist() == [1, 2, 3]
    # Memory that others may write is copied.
    mine = np.ones(3, np.float32)
    (y,) = same([mine])
    mine[:] = 5
    assert y.tolist() == [1, 1, 1]
    assert float(program("nothing", [ONE], [ONE], shared=[(0, 0)])([2.5])[0]) == 2.5


def test_errors_are_explained(program: Make) -> None:
    told: list[tuple[int, ...]] = []

    def explain(*numbers: int) -> None:
        told.append(numbers)
        if numbers[0] == -2:
            raise IndexError("user's line")

    fails = program("fails", [ONE], [ONE], explain=explain)
    with pytest.raises(IndexError, match="user's line"):
        fails([-2.0])
    with pytest.raises(RuntimeError, match=f"status 5 at site 4, index {2**40}, iteration 7"):
        fails([5.0])
    assert told == [(-2, 4, 2**40, 7), (5, 4, 2**40, 7)]
    with pytest.raises(SystemError):
        fails([-1.0])
    assert len(fails([0.0])) == 1
    with pytest.raises(RuntimeError, match="status 3"):
        program("fails", [ONE], [ONE])([3.0])
    with pytest.raises(MemoryError, match="Out of memory"):
        program("fails", [ONE], [ONE])([1.0])


class Struck(Exception):
    pass


def test_signals_arrive_in_loops(program: Make) -> None:
    def strike(*_: Any) -> None:
        raise Struck

    endless = program("endless", [ONE], [ONE])
    before = signal.signal(signal.SIGALRM, strike)
    try:
        for _ in range(3):
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(Struck):
                endless([1.0])
    finally:
        signal.signal(signal.SIGALRM, before)
    assert float(program("polls", [ONE], [ONE])([1.0])[0]) == 1.0


def test_other_threads_run_during_loops(program: Make) -> None:
    """The loop ends when another thread, which needs the lock, has sent the signal."""

    def strike(*_: Any) -> None:
        raise Struck

    endless = program("endless", [ONE], [ONE])
    before = signal.signal(signal.SIGUSR1, strike)
    main = threading.main_thread().ident
    assert main is not None
    ready = threading.Event()

    def send() -> None:
        ready.wait()
        signal.pthread_kill(main, signal.SIGUSR1)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        with pytest.raises(Struck):
            ready.set()
            endless([1.0])
    finally:
        sender.join()
        signal.signal(signal.SIGUSR1, before)


def test_python_functions(program: Make) -> None:
    kept = []

    def plus(x: np.ndarray) -> tuple[np.ndarray]:
        kept.append(x)
        return (x + np.float32(1),)

    def fail(x: np.ndarray) -> Any:
        raise Struck

    one = [("float32", ())]
    table = [(plus, one, one), (plus, one, one), (fail, one, one)]
    calls = program("calls", [ONE], [ONE], sizes=(2,), callbacks=table)
    assert float(calls([3.0])[0]) == 5.0
    assert [float(x) for x in kept] == [3.0, 4.0] and kept[0].shape == ()
    with pytest.raises(Struck):
        program("calls", [ONE], [ONE], sizes=(3,), callbacks=table)([3.0])
    for wrong in (
        lambda x: x,
        lambda x: (x, x),
        lambda x: (1.0,),
        lambda x: (np.float64(1),),
        lambda x: (np.ones(1, np.float64),),
        lambda x: (np.ones(2, np.float32),),
    ):
        with pytest.raises(TypeError):
            program("calls", [ONE], [ONE], sizes=(1,), callbacks=[(wrong, one, one)])([3.0])


def test_a_subclass_carries_more(program: Make) -> None:
    class Described(_runtime.Native):
        def __init__(self, *args: Any, text: str, **options: Any) -> None:
            super().__init__(*args, **options)
            self.text = text

    code = native_code.library(SOURCE)
    address = native_code.address_of(code, "add")
    types = native_code.types_of([ONE, ONE]), native_code.types_of([ONE])
    described = Described(address, *types, code, text="add")
    made = _runtime.CompiledProgram(described, [jnp.float32(1).aval], None, None, True)
    assert float(made([1.0, 2.0])[0]) == 3.0 and described.text == "add"
    with pytest.raises(TypeError, match="once"):
        described.__init__(address, *types, text="again")  # type: ignore[misc]
    with pytest.raises(TypeError, match="__init__"):
        Described.__new__(Described)([])


def test_called_with_buffers(program: Make) -> None:
    (out,) = native_code.native(SOURCE, "add", [ONE, ONE], [ONE])([ONE, np.float32(2)])
    assert np.frombuffer(memoryview(out), np.float32)[0] == 3


def test_kept_operands_follow_those_of_the_call() -> None:
    (block,) = native_code.native(SOURCE, "add", [ONE, ONE], [ONE])([ONE, np.float32(2)])
    run = native_code.native(SOURCE, "add", [ONE], [ONE], kept=[block])
    many = native_code.native(SOURCE, "copy", [ONE] * 10, [ONE] * 21, kept=[block] * 11)
    del block
    for _ in range(3):
        assert np.frombuffer(memoryview(run([np.float32(4)])[0]), np.float32)[0] == 7
        found = [np.frombuffer(memoryview(out), np.float32)[0] for out in many([ONE] * 10)]
        assert found == [1] * 10 + [3] * 11
    with pytest.raises(TypeError):
        run([ONE, ONE])
    wrong: list[Any] = [[ONE], 1]
    for kept in wrong:
        with pytest.raises(TypeError):
            native_code.native(SOURCE, "add", [ONE], [ONE], kept=kept)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"shared": [(0, 2)]}, IndexError),
        ({"reused": [(1, 0)]}, IndexError),
        ({"shared": [(0, 1)]}, ValueError),
        ({"reused": [0]}, TypeError),
        ({"workspace": -1}, ValueError),
        ({"sizes": ["a"]}, TypeError),
        ({"callbacks": [1]}, TypeError),
        ({"callbacks": [(len, [("O", ())], [])]}, ValueError),
        ({"callbacks": [(len, [("f4", (2**62, 2**62))], [])]}, ValueError),
        ({"unknown": 1}, TypeError),
    ],
)
def test_wrong_descriptions_are_refused(
    program: Make, options: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        program("add", [ONE, np.ones(2, np.float32)], [ONE], **options)
