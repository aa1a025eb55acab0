"""Programs with named axes: one trace and one code for all sizes, the numbers of NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import _runtime, lax
from kiln.base.options.config import override
from kiln.core.engines.engine import NotForAllSizes, Program, engine
from kiln.engines.native.building.builder import Builder
from kiln.engines.native.building.element_types import Unsupported
from kiln.engines.native.executables.sized import MOST, SizedExecutable
from kiln.engines.native.loop_ir.extents import is_named
from kiln.engines.native.loop_ir.scalars import Scope
from kiln.engines.native.loop_ir.statements import (
    Axis,
    Buffer,
    Function,
    Nest,
    Role,
    Statement,
    Store,
    axis_index,
    load,
)
from kiln.engines.native.lowerings import LOWERINGS
from kiln.engines.native.passes.workspace import workspace
from kiln.execution.compilation import on_compile
from kiln.ir.sizes.size import symbol
from kiln.ops.elements.elementwise import sin_p

EDGES = (1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1009, 4099)


@pytest.fixture(autouse=True)
def _native() -> Iterator[None]:
    with override(engine="native", check=True):
        yield


@pytest.fixture
def compiled() -> Iterator[list[str]]:
    """The names of the programs that were compiled."""
    found: list[str] = []
    stop = on_compile(lambda name, seconds: found.append(name))
    yield found
    stop()


def table(*shape: int) -> np.ndarray:
    return np.random.RandomState(sum(shape)).randn(*shape).astype(np.float32)


def softmax(np: Any, x: Any, axis: int) -> Any:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def rnn(x: Any) -> Any:
    return lax.scan(lambda h, row: (0.5 * h + row, h.sum()), jnp.zeros(5), x)


def numpy_rnn(x: Any) -> Any:
    h, sums = np.zeros(5, np.float32), []
    for row in x:
        sums.append(h.sum())
        h = np.float32(0.5) * h + row
    return h, np.array(sums, np.float32)


def both(f: Callable[[Any, Any], Any]) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    return lambda x: f(jnp, x), lambda x: f(np, x)


def many_steps(np: Any, x: Any) -> Any:
    """Return results of more kernels and nests than are written as code, some without elements."""
    found = []
    for i in range(4):
        x = x - x.mean(0) + 0.1 * i
        found += [np.cumsum(np.diff(x, axis=0), 0), np.sort(x[1:], 0), x @ (x.T @ x) / 50]
    return found


PROGRAMS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "elementwise": both(lambda np, x: np.sin(x) * 2 + x[:1]),
    "whole sum": both(lambda np, x: np.sum(x * 0.01)),
    "sums": both(lambda np, x: [np.sum(x * 0.01, 0), np.sum(x, 1)]),
    "largest": both(lambda np, x: [np.max(x, 0), np.argmax(x, 0), np.argmin(x, 1)]),
    "softmax of rows": both(lambda np, x: softmax(np, x, 1)),
    "softmax of columns": both(lambda np, x: softmax(np, x, 0)),
    "normalized": both(lambda np, x: (x - x.mean(0)) / (x.std(0) + 0.1)),
    "transposed": both(lambda np, x: np.reshape(np.exp(x).T, -1) + 1),
    "reversed": both(lambda np, x: x[::-1] + x[:, ::-1]),
    "every third": both(lambda np, x: x[::3] * 2),
    "joined": both(lambda np, x: np.concatenate([x, 2 * x, x[:1]])),
    "padded": both(lambda np, x: np.pad(x, ((1, 2), (0, 1)), constant_values=3)),
    "differences": both(lambda np, x: np.diff(x, axis=0)),
    "counted": both(lambda np, x: x + np.arange(x.shape[0])[:, None]),
    "product": both(lambda np, x: np.tanh(x @ np.ones((5, 20), np.float32))),
    "gram": both(lambda np, x: x.T @ x / 8),
    "sorted": both(lambda np, x: np.sort(x, 0)),
    "running": both(lambda np, x: np.cumsum(x, 0) * 0.1),
    "picked": both(lambda np, x: x[np.argsort(x[:, 0])]),
    "many steps": both(many_steps),
    "recurrence": (rnn, numpy_rnn),
    "updated": (lambda x: x.at[-1].set(7.0), lambda x: np.concatenate([x[:-1], 0 * x[:1] + 7])),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_code_for_all_sizes(name: str, compiled: list[str]) -> None:
    ours, theirs = PROGRAMS[name]
    traces: list[Any] = []

    def counted(x: Any) -> Any:
        traces.append(x.shape)
        return ours(x)

    f = kiln.jit(counted, abstracted_axes=({0: "n"},))
    for n in EDGES:
        x = table(n, 5)
        expected = kiln.tree.leaves(theirs(x))
        for a, b in zip(kiln.tree.leaves(f(x)), expected, strict=True):
            assert a.shape == np.shape(b)
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4, err_msg=f"n = {n}")
    assert len(traces) == 1
    assert compiled == ["counted"]


def test_one_compile_for_a_thousand_sizes(compiled: list[str]) -> None:
    f = kiln.jit(lambda x: (x * 2).sum(), abstracted_axes=({0: "n"},))
    for n in range(1, 1001):
        assert float(f(np.ones(n, np.float32))) == 2 * n
    assert len(compiled) == 1
    assert f.cache_info().traces == 1


def test_two_names(compiled: list[str]) -> None:
    axes = ({0: "n"}, {0: "m"})
    f = kiln.jit(lambda x, y: jnp.exp(-((x[:, None] - y) ** 2)).sum(1), abstracted_axes=axes)
    for n, m in ((1, 1), (3, 40), (40, 3), (257, 129)):
        x, y = table(n), table(m)
        expected = np.exp(-((x[:, None] - y) ** 2)).sum(1)
        np.testing.assert_allclose(f(x, y), expected, rtol=1e-4)
    assert len(compiled) == 1


def test_a_size_of_0_has_a_program_of_its_own(compiled: list[str]) -> None:
    f = kiln.jit(lambda x: x.sum(0) + x.shape[0], abstracted_axes=({0: "n"},))
    np.testing.assert_array_equal(f(table(0, 3)), np.zeros(3))
    f(table(2, 3))
    f(table(3, 3))
    np.testing.assert_array_equal(f(table(0, 3)), np.zeros(3))
    assert len(compiled) == 2


def test_loops_over_what_may_be_empty_though_no_axis_is(compiled: list[str]) -> None:
    def replaced(x: Any, y: Any) -> Any:
        # Invariants are computed before the loop, when the carry already has its value.
        return lax.scan(lambda c, _: (y @ y, None), y * 2, x[1:])[0]

    def filled(x: Any, y: Any) -> Any:
        return lax.scan(lambda c, a: (jnp.zeros_like(c).at[:].set(a), c.sum()), y * 2, x[2:])

    square = np.array([[1, 2], [3, 4]], np.float32)
    sized = [kiln.jit(f, abstracted_axes=({0: "n"}, {})) for f in (replaced, filled)]
    for n in (1, 2, 3, 4):
        x = np.arange(1, n + 1).astype(np.float32)
        found = sized[0](x, square)
        np.testing.assert_array_equal(found, square * 2 if n == 1 else square @ square)
        carry, sums = sized[1](x, square)
        np.testing.assert_array_equal(carry, square * 2 if n < 3 else np.full((2, 2), x[-1]))
        np.testing.assert_array_equal(sums, [20, 12][: max(n - 2, 0)])
    assert len(compiled) == 2


def test_a_thousand_sizes_are_one_trace_and_one_program(compiled: list[str]) -> None:
    traces: list[Any] = []

    def f(x: Any) -> Any:
        traces.append(x.shape)
        return softmax(jnp, x, 1).sum(0), jnp.sort(x[:, 0])

    sized = kiln.jit(f, abstracted_axes=({0: "n"},))
    for n in range(1, 1001):
        x = table(n, 3)
        sums, ordered = sized(x)
        np.testing.assert_allclose(sums, softmax(np, x, 1).sum(0), rtol=1e-4)
        np.testing.assert_array_equal(ordered, np.sort(x[:, 0]))
    assert len(traces) == len(compiled) == 1


@pytest.mark.parametrize("n", [1000, 300_001])
def test_the_same_bits_on_any_number_of_threads(n: int) -> None:
    f = kiln.jit(
        lambda x: [jnp.sum(x), jnp.sum(jnp.sin(x), 0), kiln.nn.softmax(x, 1)],
        abstracted_axes=({0: "n"},),
    )
    x, found = table(n, 7), []
    for threads in (1, 2, 3):
        with kiln.num_threads(threads):
            found.append([np.asarray(y).tobytes() for y in f(x)])
    assert found[0] == found[1] == found[2]


def test_a_donated_operand_is_the_result(compiled: list[str]) -> None:
    # Numbers that no other test multiplies by: an equal program would be compiled already.
    f = kiln.jit(lambda x: x * 512 + 1, abstracted_axes=({0: "n"},), donate_argnums=0)
    made = kiln.jit(lambda x: x * 256, abstracted_axes=({0: "n"},))
    for n in (5000, 7000, 9000):
        f(made(table(n)))
        x = made(table(n))
        before = _runtime.memory_statistics()["allocations"]
        y = f(x)
        assert _runtime.memory_statistics()["allocations"] == before
        np.testing.assert_allclose(y, table(n) * 131072 + 1, rtol=1e-6)
        assert x.is_deleted()
    assert len(compiled) == 2


def test_python_is_called_with_the_shapes_of_the_call(compiled: list[str]) -> None:
    def double(x: Any) -> Any:
        result = kiln.ShapeDtypeStruct(x.shape, x.dtype)
        return kiln.pure_callback(lambda a: np.asarray(a) * 2, result, x)

    f = kiln.jit(double, abstracted_axes=({0: "n"},))
    for n in (1, 5, 300):
        np.testing.assert_array_equal(f(table(n)), 2 * table(n))
    assert len(compiled) == 1


def test_an_evicted_program_is_compiled_again() -> None:
    f = kiln.jit(lambda x: x * 3, abstracted_axes=({0: "n"},))
    f(table(3))
    f(table(4))
    for entry in f._entries.values():
        for program in entry.placer.programs:
            program.unload()
    np.testing.assert_array_equal(f(table(3)), table(3) * 3)
    np.testing.assert_array_equal(f(table(4)), table(4) * 3)


@pytest.fixture
def _without_sines(monkeypatch: pytest.MonkeyPatch) -> None:
    known = LOWERINGS[sin_p]

    def refused(b: Builder, out: Any, x: Any) -> Any:
        if is_named(x.size):
            raise Unsupported("no sines of named sizes")
        return known(b, out, x)

    monkeypatch.setitem(LOWERINGS, sin_p, refused)


@pytest.mark.usefixtures("_without_sines")
def test_the_reason_is_kept_if_each_size_is_compiled(compiled: list[str]) -> None:
    f = kiln.jit(lambda x: jnp.sin(x) * 5, abstracted_axes=({0: "n"},))
    for n in (3, 4):
        np.testing.assert_allclose(f(table(n)), 5 * np.sin(table(n)), rtol=1e-5)
    assert len(compiled) == 2
    (entry, _) = f._entries.values()
    reason = entry.placer.programs[0].choice.reason
    assert "for each size: " in reason
    assert "no sines of named sizes" in reason


# The executable itself.


def sized(f: Callable[[Any], Any], x: Any) -> SizedExecutable:
    general = kiln.jit(f, abstracted_axes=({0: "n"},)).trace(x).jaxpr.jaxpr
    found = engine("native").compiler.compile(Program(general, "f", sizes=("n",)))
    assert isinstance(found, SizedExecutable)
    return found


def test_an_executable_for_sizes() -> None:
    made = sized(lambda x: x + 1, table(3)).for_sizes([5])
    assert made is not None
    (found,) = made([table(5)])
    np.testing.assert_array_equal(np.frombuffer(found, np.float32), table(5) + 1)
    analysis = made.memory_analysis()
    assert (analysis.argument_size_in_bytes, analysis.output_size_in_bytes) == (20, 20)
    with pytest.raises(TypeError):
        made([table(6)])


def test_other_sizes_write_nothing_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def again() -> NoReturn:
        raise AssertionError("the program is written again")

    made = sized(lambda x: jnp.sin(x).sum(0), table(3))
    monkeypatch.setattr(made.code, "source", again)
    for n in (1, 5, 300):
        executable = made.for_sizes([n])
        assert executable is not None
        np.testing.assert_allclose(
            np.frombuffer(executable([table(n)])[0], np.float32),
            np.sin(table(n)).sum(0),
            rtol=1e-4,
            atol=1e-4,
        )


def test_an_executable_needs_its_sizes() -> None:
    made = sized(lambda x: x + 1, table(3))
    with pytest.raises(TypeError, match="sizes are not given"):
        made([table(3)])
    assert made.for_sizes([MOST]) is None
    assert "f32[n]" in made.as_text("loops")
    assert "%sizes = load ptr" in made.as_text("llvm")
    assert made.size_in_bytes() > 0
    assert made.runtime_executable() is made
    assert made.out_shardings() == []


@pytest.mark.usefixtures("_without_sines")
def test_what_is_not_for_all_sizes() -> None:
    with pytest.raises(NotForAllSizes, match="no sines of named sizes"):
        sized(lambda x: jnp.sin(x) * 6, table(3))


# Passes.


def test_a_softmax_of_named_rows_keeps_a_row_on_the_stack() -> None:
    text = sized(lambda x: kiln.nn.softmax(x, 1), table(4, 8)).as_text("loops")
    assert "parallel i0 < n" in text
    assert "%r" in text


def test_temporaries_of_named_sizes_share_slots() -> None:
    n, scope = symbol("n"), Scope()
    axis = Axis("i", n)
    temporaries = [Buffer(f"t{i}", "f32", n, Role.TEMP) for i in range(4)]
    out = Buffer("o", "f32", n, Role.OUTPUT)
    value = scope.constant(1, "f32")
    statements: list[Statement] = []
    for buffer in (*temporaries, out):
        statements.append(Nest([axis], [Store(buffer, axis_index(axis), value)]))
        value = load(scope, buffer, axis_index(axis))
    offsets, size = workspace(Function("f", scope, [], [out], statements))
    room = (4 * n + 63) // 64 * 64
    assert offsets == dict(zip(temporaries, (0, room, 0, room), strict=True))
    assert size == 2 * room


def test_what_loops_change_has_a_named_size_that_is_never_large() -> None:
    """Of a row that is at most three long no array is on the stack: its size is not a number."""

    def last(x: Any) -> Any:
        return lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, jnp.sin(s[1])), (0, x[-3:]))

    named = kiln.jit(last, abstracted_axes=("n",))
    for n in (1, 2, 3, 45):
        x = np.linspace(0, 1, n, dtype=np.float32)
        expected = np.sin(np.sin(np.sin(x[-3:])))
        np.testing.assert_allclose(named(x)[1], expected, rtol=1e-5)
