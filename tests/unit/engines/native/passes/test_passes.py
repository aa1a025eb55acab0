"""Passes over loops: what they make of typical programs, and that the bits stay the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import _runtime, lax
from kiln.base.errors import CheckError
from kiln.base.options.config import override
from kiln.engines.native.building.builder import function_of
from kiln.engines.native.loop_ir.buffers import reads
from kiln.engines.native.loop_ir.parse import parse
from kiln.engines.native.loop_ir.scalars import Scope
from kiln.engines.native.loop_ir.statements import (
    Axis,
    Buffer,
    Function,
    Index,
    Kernel,
    Loop,
    Nest,
    Reduce,
    Role,
    Statement,
    Store,
    axis_index,
    load,
    walk,
)
from kiln.engines.native.loop_ir.validity import check
from kiln.engines.native.lowerings import LOWERINGS
from kiln.engines.native.passes.liveness import Liveness
from kiln.engines.native.passes.pipeline import optimized
from kiln.engines.native.passes.rows import by_rows


def loops(f: Callable[..., Any], *args: Any) -> Function:
    """Return a program as loops, checked after each pass."""
    jaxpr = kiln.make_jaxpr(f)(*args).jaxpr
    return optimized(function_of(jaxpr, "f", LOWERINGS), checked=True)


def all_of(kind: type, statements: list[Statement]) -> list[Any]:
    """Return the statements of a kind, those inside others as well."""
    found = []
    for each in statements:
        found += [each] if isinstance(each, kind) else []
        for block in each.blocks:
            found += all_of(kind, block)
    return found


def same(f: Callable[..., Any], *args: Any) -> None:
    """Compare the native engine with the meaning."""
    with override(engine="reference"):
        expected = kiln.tree.leaves(kiln.jit(f)(*args))
    with override(engine="native", check=True):
        found = kiln.tree.leaves(kiln.jit(f)(*args))
    for a, b in zip(found, expected, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=3e-5, atol=1e-5)


RNG = np.random.default_rng(0)


def draw(*shape: int) -> np.ndarray:
    """Return random numbers."""
    return RNG.random(shape, np.float32)


# Fusion.


def test_a_chain_is_one_nest() -> None:
    def chain(x: Any) -> Any:
        for _ in range(30):
            x = jnp.sin(x) * 2 + 1
        return x

    (nest,) = loops(chain, draw(100)).body
    assert isinstance(nest, Nest)
    assert len(nest.effects) == 1
    same(chain, draw(100))


def test_values_that_are_used_twice_count_once() -> None:
    def doubled(x: Any) -> Any:
        for _ in range(40):
            x = jnp.where(x > 1, x - 1, x * 1.5)
        return x

    found = loops(doubled, draw(1000))
    assert len(all_of(Nest, found.body)) == 1
    same(doubled, draw(1000))


def test_a_search_is_one_nest() -> None:
    found = loops(jnp.searchsorted, np.arange(10_000), draw(1000).astype(np.int32))
    assert len(all_of(Nest, found.body)) == 1


def test_views_cost_nothing() -> None:
    def f(x: Any, y: Any) -> Any:
        return (x.T[::-1, 2:] + y).reshape(-1) * 2

    assert len(loops(f, draw(6, 5), draw(4)).body) == 1
    same(f, draw(6, 5), draw(4))


def test_what_is_dear_is_computed_once() -> None:
    def f(x: Any) -> Any:
        e = jnp.exp(x)
        return e + 1, e * 2, e.sum()

    function = loops(f, draw(100))
    nests = all_of(Nest, function.body)
    assert sum(sum(e.value.op == "exp" for e in n.effects) for n in nests) <= 1
    same(f, draw(100))


def test_results_of_one_domain_are_one_nest() -> None:
    function = loops(lambda x, y: (x + y, x - y, x * y), draw(50), draw(50))
    assert [len(nest.effects) for nest in function.body if isinstance(nest, Nest)] == [3]


def test_a_sum_over_an_axis_of_one_element_is_not_joined_to_one_over_others() -> None:
    same(lambda x: [x.sum(), x.sum(0), x.sum(1)], np.arange(3.0, dtype="f4").reshape(1, 3))
    same(lambda x: [x.sum(), x.sum(0), x.sum(1)], np.arange(3.0, dtype="f4").reshape(3, 1))


def test_a_stencil_is_not_computed_too_often() -> None:
    def f(x: Any) -> Any:
        for _ in range(12):
            x = jnp.tanh(x[1:] + x[:-1])
        return x

    function = loops(f, draw(64))
    assert sum(len(nest.effects) for nest in all_of(Nest, function.body)) == 12
    same(f, draw(64))


# Rows.


def softmax(x: Any) -> Any:
    e = jnp.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_a_softmax_runs_row_by_row() -> None:
    function = loops(softmax, draw(40, 70))
    (loop,) = function.body
    assert isinstance(loop, Loop)
    assert loop.parallel
    assert len(loop.body) == 3
    same(softmax, draw(40, 70))


def test_rows_that_need_their_neighbors_are_apart() -> None:
    def f(x: Any) -> Any:
        s = x.sum(-1, keepdims=True)
        return x - s[::-1]

    assert not all_of(Loop, loops(f, draw(40, 70)).body)
    same(f, draw(40, 70))


@pytest.mark.parametrize("shape", [(3, 4, 5), (40, 1, 70), (2, 30, 40)])
def test_norms_over_the_last_axes(shape: tuple[int, ...]) -> None:
    def f(x: Any) -> Any:
        m = x.mean((-2, -1), keepdims=True)
        return (x - m) / jnp.sqrt(((x - m) ** 2).mean((-2, -1), keepdims=True) + 1e-3)

    same(f, draw(*shape))


def test_a_softmax_of_a_stack_runs_row_by_row() -> None:
    def f(x: Any) -> Any:
        return jnp.exp(x - x.max(-1, keepdims=True)) / jnp.exp(x).sum(-1, keepdims=True)

    function = loops(f, draw(3, 40, 300))
    outer, inner = all_of(Loop, function.body)
    assert [outer.axis.size, inner.axis.size] == [3, 40]
    assert inner in outer.body
    rows = {b for nest in inner.body for b in reads(nest) if b.role is Role.ROW}
    assert max(b.size for b in rows) <= 300
    same(f, draw(3, 40, 300))
    same(f, draw(2, 3, 40, 300))


def test_what_two_loops_over_rows_share_has_room_for_all_of_them() -> None:
    """Between them something needs all rows of a turn."""

    def f(x: Any) -> Any:
        e = jnp.exp(x - x.max(-1, keepdims=True))
        e = e / e.sum(-1, keepdims=True)
        e = e - e.mean((1, 2), keepdims=True)
        return e / jnp.abs(e).sum(-1, keepdims=True) + x

    same(f, draw(3, 40, 300))
    same(f, draw(5, 130, 70))


BETWEEN_ROWS = """
function f(%i0: f32[2800], %i1: f32[70]) -> (%o2: f32[2800]) {
  temp %t3: f32[2800]
  temp %t4: f32[70]
  nest i2 < 70 {
    %t4[i2] = 2.0:f32
  }
  nest i0 < 40, i1 < 70 {
    v0: f32 = READ
    v1: f32 = exp v0
    %t3[i0*70 + i1] = v1
  }
  nest i3 < 70 {
    v0: f32 = FACTOR
    v1: f32 = sqrt v0
    %t4[i3] = v1
  }
  nest i0 < 40, i1 < 70 {
    v0: f32 = %t3[i0*70 + i1*-1 + 69]
    v1: f32 = %t4[i1]
    v2: f32 = mul v0 v1
    %o2[i0*70 + i1] = v2
  }
}
"""


@pytest.mark.parametrize(
    ("read", "factor", "is_moved"),
    [
        ("%i0[i0*70 + i1]", "%i1[i3]", True),
        ("%i0[i0*70 + i1]", "%t3[i3]", False),  # it reads what the rows before it are
        ("%t4[i1]", "%i1[i3]", False),  # they read what it overwrites
    ],
)
def test_a_small_nest_between_rows_runs_before_them(read: str, factor: str, is_moved: bool) -> None:
    function = parse(BETWEEN_ROWS.replace("READ", read).replace("FACTOR", factor))
    by_rows(function)
    check(function, "rows")
    found = [isinstance(each, Loop) for each in function.body]
    assert found == ([False, False, True] if is_moved else [False] * 4)


def test_short_rows_are_no_loop() -> None:
    function = loops(lambda x: kiln.nn.softmax(x, -1), draw(3, 5000, 4))
    assert len(all_of(Loop, function.body)) <= 1


# Reductions.

LONG = [(100_000,), (70_001,), (3, 50_000), (2000, 30), (5000, 7), (300, 500), (64, 256), (65, 200)]


@pytest.mark.parametrize("shape", LONG, ids=str)
def test_long_reductions(shape: tuple[int, ...]) -> None:
    x = draw(*shape)
    for axis in (None, *range(x.ndim)):
        same(lambda x, axis=axis: (x.sum(axis), x.max(axis), (x * 2).min(axis)), x)
    same(lambda x: (x > 0.5).any(0), x)
    same(lambda x: (x * 100).astype(jnp.int32).sum(0), x)


@pytest.mark.parametrize("shape", [(300_000,), (3000, 200), (200, 3000)], ids=str)
def test_sums_have_the_same_bits_on_any_number_of_threads(shape: tuple[int, ...]) -> None:
    x = draw(*shape)
    found = []
    for threads in (1, 2, 3):
        with override(engine="native"), kiln.num_threads(threads):
            f = kiln.jit(lambda x: (x.sum(), x.sum(0), jnp.sin(x).mean(-1), softmax(x)))
            found.append([np.asarray(y).tobytes() for y in f(x)])
    assert found[0] == found[1] == found[2]


# Transposes and axes.


def test_a_transposed_operand_is_turned_first() -> None:
    function = loops(lambda x: x.T + 1, draw(300, 200))
    assert [kernel.symbol for kernel in all_of(Kernel, function.body)] == ["kiln_transpose"]
    same(lambda x: x.T + x.T.sum(0), draw(300, 200))
    same(lambda x: x.swapaxes(0, 2) * 2, draw(30, 20, 40))


def test_an_operand_is_turned_where_the_result_will_be() -> None:
    def shifted(x: Any, y: Any) -> tuple[Any, Any]:
        return x.T + 1, y.T * x.sum(1)[:, None]

    found = loops(lambda x: x.T + 1, draw(130, 64))
    (kernel,) = all_of(Kernel, found.body)
    assert kernel.results[0].buffer is found.outputs[0]
    same(lambda x: (x.T + 1, x.T * 2), draw(130, 64))
    same(lambda x, y: x.T + y.T, draw(130, 64), draw(130, 64))
    same(lambda x: jnp.where(x.T > 0.5, x.T, 1), draw(513, 600))
    same(shifted, draw(130, 64), draw(64, 130))


def test_even_axes_are_one() -> None:
    (nest,) = loops(lambda x, y: x * 2 + y, draw(10, 20, 30), draw(10, 20, 30)).body
    assert isinstance(nest, Nest)
    assert [axis.size for axis in nest.axes] == [6000]


# Compile cost.


def test_functions_that_are_frequent_are_called() -> None:
    def f(x: Any) -> Any:
        for _ in range(8):
            x = jnp.sin(x)[::-1] + x.sum()
        return x

    text = kiln.jit(f).lower(draw(64)).as_text("llvm")
    assert text.count("define internal <16 x float> @sin") <= 1
    assert text.count("@sin.") >= 8
    same(f, draw(64))


def test_equal_nests_are_written_once() -> None:
    def f(x: Any) -> Any:
        for _ in range(4):
            x = jnp.tanh(x @ x)
        return x

    text = kiln.jit(f).lower(draw(200, 200)).as_text("llvm")
    assert text.count("define internal i32 @nest") == 1


# Checks.


def _function(effect: Callable[[Scope, Buffer, Buffer, Axis], Store | Reduce]) -> Function:
    scope, axis = Scope(), Axis("i", 8)
    x, y = Buffer("x", "f32", 8, Role.INPUT), Buffer("y", "f32", 8, Role.OUTPUT)
    nest = Nest([axis], [effect(scope, x, y, axis)])
    return Function("f", scope, [x], [y], [nest])


def test_the_check_accepts_what_is_right() -> None:
    check(_function(lambda s, x, y, i: Store(y, axis_index(i), load(s, x, axis_index(i)))), "test")


WRONG: dict[str, Callable[..., Any]] = {
    "elements 1 to 8": lambda s, x, y, i: Store(y, axis_index(i), load(s, x, axis_index(i) + 1)),
    "an input, is written": lambda s, x, y, i: Store(x, axis_index(i), s.constant(1, "f32")),
    "f64 is stored": lambda s, x, y, i: Store(y, axis_index(i), s.constant(1, "f64")),
    "counted by nothing": lambda s, x, y, i: Store(
        y, axis_index(i), load(s, x, axis_index(Axis("j", 8)))
    ),
    "read before it is written": lambda s, x, y, i: Store(
        y, axis_index(i), load(s, Buffer("t", "f32", 8, Role.TEMP), axis_index(i))
    ),
    "a reduction by pow": lambda s, x, y, i: Reduce(y, Index(), "pow", load(s, x, axis_index(i))),
    "add of f32, f64": lambda s, x, y, i: Store(
        y, axis_index(i), s.node("add", "f32", (s.constant(1, "f32"), s.constant(1, "f64")))
    ),
}


@pytest.mark.parametrize("message", WRONG)
def test_the_check_finds(message: str) -> None:
    with pytest.raises(CheckError, match=message):
        check(_function(WRONG[message]), "test")


def test_the_check_finds_an_input_that_is_there_twice() -> None:
    x, y = (Buffer(name, "f32", 4, role) for name, role in (("x", Role.INPUT), ("y", Role.TEMP)))
    with pytest.raises(CheckError, match="two inputs are one buffer"):
        check(Function("f", Scope(), [x, x], [x], []), "test")
    with pytest.raises(CheckError, match="the output %y is never written"):
        check(Function("f", Scope(), [x], [y], []), "test")


# Memory.


def test_a_result_takes_donated_memory() -> None:
    f = kiln.jit(lambda x: jnp.sin(x) + 1, donate_argnums=0)
    with override(engine="native"):
        f(jnp.asarray(draw(5000)))
        x = kiln.jit(lambda x: x * 2)(draw(5000))
        before = _runtime.memory_statistics()["allocations"]
        f(x)
        assert _runtime.memory_statistics()["allocations"] == before


UPDATES: dict[str, tuple[bool, Callable[..., Any]]] = {
    "an element": (True, lambda x, i: x.at[i].set(7.0)),
    "elements one after another": (True, lambda x, i: x.at[i].add(1.0).at[i + 1].multiply(3.0)),
    "a part": (True, lambda x, i: lax.dynamic_update_slice(x, jnp.ones(5), (i,))),
    "in a loop": (True, lambda x, i: lax.fori_loop(0, 9, lambda k, y: y.at[i * k].add(k), x)),
    "what was read before": (True, lambda x, i: (x.at[i].set(0.0), x[i])[0]),
    "an element by another": (False, lambda x, i: x.at[i].set(x[i + 1])),
    "an exchange": (False, lambda x, i: x.at[i].set(x[i + 1]).at[i + 1].set(x[i])),
    "what is needed afterwards": (False, lambda x, i: (x.at[i].set(0.0), x * 2)),
    "all by an element": (False, lambda x, i: (x.at[i].set(3.0), x[::-1].copy())),
    "twice": (False, lambda x, i: (x.at[i].set(3.0), x.at[i + 1].set(4.0))),
}


@pytest.mark.parametrize("name", UPDATES)
def test_a_donated_operand_is_updated_where_it_lies(name: str) -> None:
    in_place, f = UPDATES[name]
    given = np.arange(5000, dtype=np.float32)
    for i in (0, 5, 100):
        expected = kiln.jit(f)(jnp.asarray(given), i)
        for generator in ("kiln", "llvm"):
            with override(code_generator=generator):
                x = kiln.jit(lambda x: x + 0)(given)
                address = x.unsafe_buffer_pointer()
                found = kiln.jit(f, donate_argnums=0)(x, i)
            for a, b in zip(kiln.tree.leaves(found), kiln.tree.leaves(expected), strict=True):
                np.testing.assert_array_equal(a, b)
            if in_place:
                assert found.unsafe_buffer_pointer() == address


def test_an_operand_that_is_read_after_the_result_was_begun_keeps_its_memory() -> None:
    def f(x: Any, i: Any) -> Any:
        moved = lax.dynamic_update_slice(x, x[:3] + 1, (i,))
        return moved.at[2].max(x[2]), moved.sum()

    x, i = np.array([-3, 0, -1, -3, 2], np.float32), np.int32(4)
    with override(engine="native"):
        updated, total = kiln.jit(f, donate_argnums=0)(jnp.array(x) + 0, i)
    np.testing.assert_array_equal(updated, [-3, 0, -1, 1, 0])
    assert total == -4


def test_donated_memory_is_not_taken_from_a_reversed_operand() -> None:
    x = draw(5000)
    with override(engine="native"):
        given = kiln.jit(lambda x: x * 2)(x)
        found = kiln.jit(lambda x: x[::-1] + x, donate_argnums=0)(given)
    np.testing.assert_array_equal(found, 2 * x[::-1] + 2 * x)


def test_loops_of_examples_update_their_windows_in_place() -> None:
    def f(x: Any, n: Any) -> Any:
        def body(state: Any) -> Any:
            i, x = state
            return i + 1, lax.dynamic_update_slice(x, x[(i * 7) % 10][None] + i, (i // 2,))

        return lax.while_loop(lambda state: state[0] < n, body, (0, x))[1]

    x, n = draw(200).reshape(4, 50), np.array([100, 3, 0, 55], np.int32)
    jitted = kiln.jit(kiln.vmap(f))
    with override(engine="native"):
        found = jitted(x, n)
        text = jitted.lower(x, n).as_text("loops")
    with override(engine="reference"):
        expected = kiln.vmap(f)(x, n)
    np.testing.assert_array_equal(found, expected)
    loop = text[text.index("while") :]
    assert "ordered" in loop
    assert "< 200" not in loop
    assert "copy" not in loop


def test_what_nested_loops_write_is_known_as_one_segment() -> None:
    def level(k: int) -> Any:
        if k == 0:
            return lambda i, x: jnp.sin(x) + i
        inner = level(k - 1)
        return lambda i, x: lax.fori_loop(0, 3, inner, x) * 1.5

    function = loops(lambda x: lax.fori_loop(0, 3, level(9), x), jnp.ones(100))
    liveness = Liveness(function)
    found = [liveness.written(each) for each in walk(function.body) if isinstance(each, Loop)]
    assert len(found) == 10
    # That of the innermost one and those of each level: what is all of a buffer is said once.
    assert all(len(segments) == 1 for each in found for segments in each.values())
    assert all(found)
