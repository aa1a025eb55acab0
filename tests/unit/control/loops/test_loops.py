"""The functions users call: pytrees, weak types, closures, Python mode, messages."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.options.config import override


@pytest.fixture(autouse=True)
def _reference() -> Iterator[None]:
    with override(engine="reference", check=True):
        yield


Point = collections.namedtuple("Point", "x y")


def test_scan_carries_pytrees() -> None:
    def step(c: Any, row: Any) -> Any:
        return Point(c.x + row["a"], {"n": c.y["n"] + 1, "none": None}), [c.x, (row["b"],)]

    init = Point(jnp.zeros(2), {"n": 0, "none": None})
    xs = {"a": np.ones((3, 2), "f4"), "b": np.arange(3)}
    last, ys = lax.scan(step, init, xs)
    assert isinstance(last, Point)
    assert last.x.tolist() == [3, 3]
    assert last.y["none"] is None
    assert int(last.y["n"]) == 3
    assert ys[0].shape == (3, 2)
    assert ys[1][0].tolist() == [0, 1, 2]


def test_scan_without_carry_or_results() -> None:
    assert lax.scan(lambda c, x: (c, None), (), jnp.ones(3)) == ((), None)
    assert lax.scan(lambda c, x: (c, x), None, jnp.ones(3))[1].tolist() == [1, 1, 1]
    assert lax.scan(lambda c, x: (c, x), 1.0, None, length=2) == (1.0, None)


def test_results_are_arrays_also_where_nothing_changes() -> None:
    outs = [
        lax.scan(lambda c, _: (c, None), 1.0, None, length=2)[0],
        lax.while_loop(lambda c: False, lambda c: c, 1.0),
        lax.fori_loop(0, 2, lambda i, c: c, np.float32(1)),
    ]
    assert all(isinstance(x, kiln.Array) and x.dtype == np.float32 for x in outs)
    assert [x.weak_type for x in outs] == [True, True, False]


PROMOTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "weak float meets float": lambda lax, np_: lax.scan(
        lambda c, x: (c + x, c), 0.0, np_.ones(3, "float32")
    ),
    "weak int meets float": lambda lax, np_: lax.scan(
        lambda c, x: (c + x, c), 0, np_.ones(3, "float32")
    ),
    "weak int meets int8": lambda lax, np_: lax.scan(
        lambda c, x: (c + x, c), 0, np_.ones(3, "int8")
    ),
    "weak int stays": lambda lax, np_: lax.scan(lambda c, x: (c + 1, c), 0, None, length=3),
    "weak int becomes float": lambda lax, np_: lax.scan(
        lambda c, x: (c + 1.5, c), 0, None, length=3
    ),
    "weak result of a strong carry": lambda lax, np_: lax.scan(
        lambda c, x: (0.0, c), np_.float32(1), None, length=3
    ),
    "while": lambda lax, np_: lax.while_loop(lambda c: c < 3, lambda c: c + np_.float32(1), 0),
    "while stays weak": lambda lax, np_: lax.while_loop(lambda c: c < 3, lambda c: c + 1, 0),
    "fori": lambda lax, np_: lax.fori_loop(0, 3, lambda i, c: c + i, np_.int8(0)),
    "fori float16": lambda lax, np_: lax.fori_loop(0, 3, lambda i, c: c * i, np_.float16(1)),
    "fori strong bound": lambda lax, np_: lax.fori_loop(
        np_.int16(0), 3, lambda i, c: c + i, np_.int16(1)
    ),
    "cond both weak": lambda lax, np_: lax.cond(True, lambda: 1, lambda: 2),
    "cond one weak": lambda lax, np_: lax.cond(True, lambda: 1.0, lambda: np_.float32(2)),
    "switch": lambda lax, np_: lax.switch(1, [lambda x: x, lambda x: x * 2], 3),
    "map": lambda lax, np_: lax.map(lambda x: x * 2, np_.arange(3, dtype="int16")),
}


@pytest.mark.parametrize("case", PROMOTIONS)
def test_types_are_those_of_jax(case: str) -> None:
    jax = pytest.importorskip("jax")
    found = kiln.tree.leaves(PROMOTIONS[case](lax, jnp))
    wanted = jax.tree.leaves(PROMOTIONS[case](jax.lax, jax.numpy))
    assert [(str(x.dtype), x.weak_type, x.tolist()) for x in found] == [
        (str(x.dtype), x.weak_type, x.tolist()) for x in wanted
    ]


def test_promotion_goes_from_carry_to_carry() -> None:
    def step(c: Any, x: Any) -> Any:
        _, b, d = c
        return (b, d, x), None

    last, _ = lax.scan(step, (0, 0, 0), jnp.array([1.5, 2.5, 3.5, 4.5]))
    assert [float(v) for v in last] == [2.5, 3.5, 4.5]


def test_fori_loop_of_known_length_is_a_scan() -> None:
    f = lambda x: lax.fori_loop(1, 4, lambda i, v: v * x + i, x)
    assert "scan[" in str(kiln.make_jaxpr(f)(2.0))
    assert float(f(2.0)) == 2.0**4 + 4 + 4 + 3
    np.testing.assert_allclose(kiln.grad(f)(2.0), 32 + 4 + 2)
    g = lambda n, x: lax.fori_loop(1, n, lambda i, v: v * x + i, x)
    assert float(kiln.jit(g)(4, 2.0)) == float(f(2.0))
    assert "while[" in str(kiln.make_jaxpr(g)(4, 2.0))
    _, moved = kiln.jvp(lambda x: kiln.jit(g)(4, x), (2.0,), (1.0,))
    np.testing.assert_allclose(moved, 38)


def test_fori_loop_counts_with_the_type_of_its_bounds() -> None:
    seen = []
    for lower, upper in ((0, 3), (jnp.int8(0), 3), (0, np.uint8(3)), (jnp.int32(1), jnp.int32(2))):
        lax.fori_loop(
            lower, upper, lambda i, v: (seen.append((str(i.dtype), i.weak_type)), v)[1], 0.0
        )
    assert seen == [("int32", True), ("int8", False), ("uint8", False), ("int32", True)]
    assert float(lax.fori_loop(5, 2, lambda i, v: v + 1.0, 7.0)) == 7.0
    assert kiln.vmap(lambda n: lax.fori_loop(0, n, lambda i, v: v + i, 0))(
        jnp.array([0, 3, 5])
    ).tolist() == [0, 3, 10]


def test_map_takes_slices_together() -> None:
    xs = {"a": jnp.arange(7.0), "b": jnp.ones((7, 2))}
    f = lambda d: {"s": d["a"] * d["b"].sum(), "t": d["b"]}
    one = lax.map(f, xs)
    for size in (1, 3, 7, 10):
        together = lax.map(f, xs, batch_size=size)
        assert together["s"].tolist() == one["s"].tolist() == [0, 2, 4, 6, 8, 10, 12]
        assert together["t"].shape == (7, 2)
    by = kiln.grad(lambda a: lax.map(lambda x: x * x, a, batch_size=3).sum())(jnp.arange(7.0))
    assert by.tolist() == [0, 2, 4, 6, 8, 10, 12]


def test_closures_over_tracers_of_every_level() -> None:
    def f(a: Any, b: Any) -> Any:
        def g(v: Any) -> Any:
            def step(c: Any, x: Any) -> Any:
                inner = lambda d, _: (d * a + lax.cond(x > 0, lambda: b * d, lambda: v), None)
                return lax.scan(inner, c, None, length=2)[0], None

            return lax.scan(step, v, jnp.array([1.0, -1.0]))[0]

        return kiln.vmap(kiln.jit(kiln.grad(g)))(jnp.array([1.0, 2.0])).sum() * a

    def by_hand(a: Any, b: Any) -> Any:
        # g(v) = ((v (a+b)² ) a + v) a + v
        return 2 * ((a + b) ** 2 * a**2 + a + 1) * a

    with override(enable_x64=True):
        np.testing.assert_allclose(f(0.5, 0.3), by_hand(0.5, 0.3))
        by_a, by_b = kiln.grad(f, (0, 1))(0.5, 0.3)
        slope = (by_hand(0.5 + 1e-6, 0.3) - by_hand(0.5 - 1e-6, 0.3)) / 2e-6
        np.testing.assert_allclose(by_a, slope, rtol=1e-6)
        np.testing.assert_allclose(by_b, 4 * 0.8 * 0.25 * 0.5, rtol=1e-6)


def test_python_numbers_out_of_range() -> None:
    with pytest.raises(OverflowError):
        lax.scan(lambda c, x: (c, None), 2**40, None, length=2)


def test_a_python_loop_whose_condition_becomes_unknown_goes_on_as_a_loop() -> None:
    def last(x: Any) -> Any:
        return lax.while_loop(lambda c: c < 9.0, lambda c: jnp.where(c < 2.0, c + 1.0, c * x), 0.0)

    with kiln.disable_jit():
        found = kiln.vmap(last)(jnp.array([2.0, 5.0]))
    assert found.tolist() == [16.0, 10.0]


def test_python_loops_when_jit_is_off() -> None:
    kinds = []

    def step(c: Any, x: Any) -> Any:
        kinds.append(isinstance(c, kiln.core.Tracer))
        return c + float(x), x * 2

    with kiln.disable_jit():
        last, ys = lax.scan(step, 0.0, jnp.arange(3.0), reverse=True)
        assert (float(last), ys.tolist()) == (3.0, [0, 2, 4])
        last = lax.while_loop(lambda c: bool(c < 3), lambda c: (kinds.append(0), c + 1)[1], 0)
        assert int(last) == 3
        last = lax.fori_loop(0, 3, lambda i, c: c + int(i), jnp.int32(0))
        assert int(last) == 3
        assert float(lax.cond(jnp.array(True), lambda x: float(x), lambda x: 1 / 0, 2.0)) == 2.0
        assert int(lax.switch(jnp.int32(5), [lambda: 1 / 0, lambda: 7])) == 7
        assert kiln.vmap(lambda n: lax.while_loop(lambda c: c < n, lambda c: c + 1, 0))(
            jnp.array([1, 4])
        ).tolist() == [1, 4]
        assert (
            kiln.grad(lambda x: lax.scan(lambda c, _: (c * x, None), x, None, length=2)[0])(2.0)
            == 12.0
        )
        assert lax.map(lambda x: x + 1, jnp.arange(3)).tolist() == [1, 2, 3]
        assert lax.scan(lambda c, x: (c, x), 0.0, jnp.ones((0, 2)))[1].shape == (0, 2)
    assert not any(kinds)


ONE = jnp.float32(1)
ERRORS: dict[str, tuple[type[Exception], Callable[[], Any], list[str]]] = {
    "scan: carry dtype": (
        TypeError,
        lambda: lax.scan(
            lambda c, x: ({"a": [c["a"][0] * 1.5]}, None), {"a": [jnp.int32(1)]}, None, 3
        ),
        ["scan", "carry['a'][0] goes in as int32[] and comes out as float32[]", ".astype('int32')"],
    ),
    "scan: carry shape": (
        TypeError,
        lambda: lax.scan(lambda c, x: (jnp.stack([c, c]), None), ONE, None, 3),
        ["scan", "carry goes in as float32[] and comes out as float32[2]", "shape ()"],
    ),
    "scan: carry structure": (
        TypeError,
        lambda: lax.scan(lambda c, x: ((c[0],), None), (ONE, {"a": ONE}), None, 3),
        ["scan", "carry", "structure", "a tuple of length 2", "a tuple of length 1", "PyTreeDef"],
    ),
    "scan: no pair": (
        TypeError,
        lambda: lax.scan(lambda c, x: c, ONE, None, 3),
        ["scan", "pair", "float32[]", "return carry, None"],
    ),
    "scan: result is not an array": (
        TypeError,
        lambda: lax.scan(lambda c, x: (c, {"s": "text"}), ONE, None, 3),
        ["scan", "the result[1]['s'] has type str", "not a valid JAX type"],
    ),
    "scan: init is not an array": (
        TypeError,
        lambda: lax.scan(lambda c, x: (c, x), {"k": "text"}, None, 3),
        ["scan", "init['k'] has type str", "not a valid JAX type"],
    ),
    "scan: f not a function": (TypeError, lambda: lax.scan(3, ONE, None, 3), ["scan", "callable"]),
    "scan: lengths disagree": (
        ValueError,
        lambda: lax.scan(lambda c, x: (c, x), ONE, {"a": jnp.ones(3), "b": jnp.ones(4)}),
        ["scan", "xs['a'] has 3, xs['b'] has 4"],
    ),
    "scan: length disagrees": (
        ValueError,
        lambda: lax.scan(lambda c, x: (c, x), ONE, jnp.ones(3), length=4),
        ["scan", "`length` argument of 4", "xs has 3"],
    ),
    "scan: no length": (
        ValueError,
        lambda: lax.scan(lambda c, x: (c, x), ONE),
        ["scan", "`length`"],
    ),
    "scan: negative length": (
        ValueError,
        lambda: lax.scan(lambda c, x: (c, x), ONE, None, -1),
        ["scan", "negative `length`: -1"],
    ),
    "scan: scalar xs": (
        ValueError,
        lambda: lax.scan(lambda c, x: (c, x), ONE, (jnp.ones(3), ONE)),
        ["scan", "xs[1] is a scalar"],
    ),
    "scan: unroll": (
        ValueError,
        lambda: lax.scan(lambda c, x: (c, x), ONE, jnp.ones(3), unroll=-1),
        ["unroll"],
    ),
    "while: carry dtype": (
        TypeError,
        lambda: lax.while_loop(lambda c: c < 3, lambda c: c + 1.5, jnp.int32(0)),
        ["while_loop", "carry goes in as int32[] and comes out as float32[]"],
    ),
    "while: carry structure": (
        TypeError,
        lambda: lax.while_loop(lambda c: c < 3, lambda c: (c, c), ONE),
        ["while_loop", "carry", "structure", "a pytree leaf", "a tuple of length 2"],
    ),
    "while: condition is not a boolean": (
        TypeError,
        lambda: lax.while_loop(lambda c: c, lambda c: c + 1, 0),
        ["while_loop", "cond_fun must return a boolean scalar", "int32[]"],
    ),
    "while: condition is not a scalar": (
        TypeError,
        lambda: lax.while_loop(lambda c: c < 3, lambda c: c, jnp.ones(2)),
        ["cond_fun must return a boolean scalar", "bool[2]"],
    ),
    "while: condition is a tree": (
        TypeError,
        lambda: lax.while_loop(lambda c: (c < 3,), lambda c: c, ONE),
        ["cond_fun must return a boolean scalar", "pytree", "bool[]"],
    ),
    "fori: carry structure": (
        TypeError,
        lambda: lax.fori_loop(0, 3, lambda i, v: {"a": v["a"], "b": i}, {"a": ONE}),
        ["fori_loop", "carry", "structure", "'a'", "'b'"],
    ),
    "fori: carry dtype": (
        TypeError,
        lambda: lax.fori_loop(0, 3, lambda i, v: {"a": v["a"] * 1.5}, {"a": jnp.int32(1)}),
        ["fori_loop", "carry['a'] goes in as int32[] and comes out as float32[]"],
    ),
    "fori: bounds differ": (
        TypeError,
        lambda: lax.fori_loop(jnp.int8(0), jnp.uint8(3), lambda i, v: v, ONE),
        ["fori_loop", "lower and upper", "int8[]", "uint8[]"],
    ),
    "fori: bound is not an integer": (
        TypeError,
        lambda: lax.fori_loop(0.0, 3, lambda i, v: v, ONE),
        ["fori_loop", "lower is float32[]"],
    ),
    "fori: bound is not a scalar": (
        TypeError,
        lambda: lax.fori_loop(0, jnp.arange(3), lambda i, v: v, ONE),
        ["fori_loop", "upper is int32[3]"],
    ),
    "fori: unroll of an unknown length": (
        ValueError,
        lambda: kiln.jit(lambda n: lax.fori_loop(0, n, lambda i, v: v, ONE, unroll=2))(3),
        ["unroll", "statically known"],
    ),
    "map: no length": (ValueError, lambda: lax.map(lambda x: x, ()), ["scan"]),
    "map: batch size": (
        ValueError,
        lambda: lax.map(lambda x: x, jnp.ones(3), batch_size=-1),
        ["map", "batch_size"],
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case: str) -> None:
    kind, run, phrases = ERRORS[case]
    with pytest.raises(kind) as found:
        run()
    for phrase in phrases:
        assert phrase in str(found.value)
    assert len(str(found.value).split("\n")) == 3


def test_a_branch_on_a_traced_carry_says_what_it_is() -> None:
    def body(state: Any, x: Any) -> Any:
        return (state if state["a"][0] > x else x), None

    with pytest.raises(kiln.errors.TracerBoolConversionError) as found:
        lax.scan(body, {"a": [1.0]}, jnp.ones(3))
    assert "for scan" in str(found.value)
    assert "the function body at" in str(found.value)
    assert "arguments state['a'][0] and x" in str(found.value)


def test_exceptions_of_the_body_pass_unchanged() -> None:
    error = KeyError("mine")

    def body(c: Any, x: Any) -> Any:
        raise error

    for run in (
        lambda: lax.scan(body, 0.0, jnp.ones(2)),
        lambda: lax.while_loop(lambda c: True, lambda c: body(c, c), 0.0),
        lambda: lax.cond(True, lambda: body(0, 0), lambda: 0.0),
    ):
        with pytest.raises(KeyError) as found:
            run()
        assert found.value is error
    assert lax.scan(lambda c, x: (c + x, None), 0.0, jnp.ones(2))[0] == 2.0


def test_a_tracer_kept_from_a_body_is_a_leak() -> None:
    kept = []
    lax.scan(lambda c, x: (kept.append(c), (c + x, None))[1], 0.0, jnp.ones(2))
    with pytest.raises(kiln.errors.UnexpectedTracerError, match="for scan"):
        jnp.sin(kept[0])
    with pytest.raises(kiln.errors.UnexpectedTracerError):
        lax.scan(lambda c, x: (c + kept[0], None), 0.0, jnp.ones(2))


@pytest.mark.parametrize(
    ("lower", "upper", "dtype", "weak"),
    [
        (0, 3, np.int32, True),
        (np.int32(0), np.int32(3), np.int32, False),
        (0, np.int32(3), np.int32, True),
        (np.int8(0), 3, np.int8, False),
    ],
)
def test_the_counter_has_the_type_of_the_lower_bound(
    lower: Any, upper: Any, dtype: Any, weak: bool
) -> None:
    counters: list[Any] = []

    def body(i: Any, x: Any) -> Any:
        counters.append(i.aval)
        return x

    kiln.jit(lambda a, b: lax.fori_loop(a, b, body, 0.0))(lower, upper)
    assert (counters[-1].dtype, counters[-1].weak_type) == (dtype, weak)
    # Known bounds are Python ints.
    lax.fori_loop(lower, upper, body, 0.0)
    assert (counters[-1].dtype, counters[-1].weak_type) == (dtype, dtype is np.int32)


@pytest.mark.parametrize("length", [0, 1, 5])
def test_a_batch_of_size_zero_is_all_of_them(length: int) -> None:
    x = jnp.arange(length)
    assert lax.map(lambda x: x * x, x, batch_size=0).tolist() == (x * x).tolist()
    assert kiln.jit(lambda x: lax.map(lambda x: x * x, x, batch_size=0))(x).shape == (length,)
