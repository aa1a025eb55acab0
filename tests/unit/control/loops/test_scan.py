"""The primitive `scan`: meaning, derived programs, residuals, dead code, effects."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.options.config import override
from kiln.control.loops import scan, scan_split
from kiln.control.loops.scan import scan_p
from kiln.control.regions import bodies, region
from kiln.core.engines.engine import engine
from kiln.core.staging import stage
from kiln.execution.compilation import on_compile
from kiln.ir.analysis.checker import check
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.sizes.size import symbol
from kiln.ir.types import ShapedArray
from kiln.transforms.batching import MappedAxis, batch_jaxpr
from tests.unit.control.scans import XS, H, W, scans, weights

F32 = np.dtype(np.float32)


@pytest.fixture(autouse=True)
def _reference() -> Iterator[None]:
    with override(engine="reference", check=True):
        yield


def by_hand(w: Any, h: Any, xs: Any) -> Any:
    ys = []
    for x in xs:
        h = np.tanh(w @ h + x)
        ys.append(h * x)
    return h, np.stack(ys)


@pytest.mark.parametrize("on", ["reference", "xla"])
@pytest.mark.parametrize(
    ("length", "unroll", "reverse"),
    [*product((0, 1, 5), (1, 2, 7), (False, True)), (6, 3, True), (4, True, False)],
)
def test_values(on: str, length: int, unroll: Any, reverse: bool) -> None:
    xs = np.arange(2 * length, dtype=np.float32).reshape(length, 2) / 4
    rows = xs[::-1] if reverse else xs
    h, ys = np.float32([1, 2]), []
    for x in rows:
        h = h * np.float32(0.5) + x
        ys.append(h)
    with override(engine=on):
        last, found = lax.scan(
            lambda h, x: (h * 0.5 + x, h * 0.5 + x),
            jnp.array([1.0, 2.0]),
            jnp.asarray(xs),
            reverse=reverse,
            unroll=unroll,
        )
    np.testing.assert_allclose(last, h, rtol=1e-6)
    wanted = np.stack(ys[::-1] if reverse else ys) if ys else np.zeros((0, 2))
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert found.shape == (length, 2)


@pytest.mark.parametrize("on", ["reference", "xla"])
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "float16", "bfloat16", "complex64"])
def test_dtypes(on: str, dtype: str) -> None:
    x = jnp.asarray(np.array([0, 1, 1]), dtype=dtype)
    with override(engine=on):
        last, ys = lax.scan(lambda c, v: (v, c), x[0], x)
    assert last.dtype == ys.dtype == x.dtype
    assert np.asarray(ys).astype(complex).tolist() == [0, 0, 1]


@pytest.mark.parametrize("argnums", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("results", ["carry", "ys", "both"])
def test_gradient_by_some_operands_of_some_results(argnums: tuple[int, ...], results: str) -> None:
    def loss(*args: Any) -> Any:
        h, ys = weights(*args)
        terms = {"carry": h.sum(), "ys": (ys * ys).sum(), "both": h.sum() + (ys * ys).sum()}
        return terms[results]

    def loss_by_hand(*args: Any) -> Any:
        h, ys = by_hand(*args)
        terms = {"carry": h.sum(), "ys": (ys * ys).sum(), "both": h.sum() + (ys * ys).sum()}
        return terms[results]

    with override(enable_x64=True):
        args = [np.asarray(a, np.float64) for a in (W, H, XS)]
        found = kiln.grad(loss, argnums)(*args)
        for i, grad in zip(argnums, found, strict=True):
            for at in np.ndindex(args[i].shape):
                moved = [[a.copy() for a in args] for _ in range(2)]
                moved[0][i][at] += 1e-6
                moved[1][i][at] -= 1e-6
                slope = (loss_by_hand(*moved[0]) - loss_by_hand(*moved[1])) / 2e-6
                np.testing.assert_allclose(grad[at], slope, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("length", [0, 1])
def test_short_loops_are_differentiated_and_mapped(length: int) -> None:
    def f(h: Any, xs: Any) -> Any:
        last, ys = lax.scan(lambda h, x: (jnp.sin(h) * x, h * x), h, xs)
        return last.sum() + ys.sum()

    xs = jnp.ones((length, 2))
    h = jnp.array([0.3, 0.4])
    by_h, by_xs = kiln.jit(kiln.grad(f, (0, 1)))(h, xs)
    wanted = np.cos(h) + 1 if length else np.ones(2)
    np.testing.assert_allclose(by_h, wanted, rtol=1e-6)
    assert by_xs.shape == xs.shape
    assert kiln.vmap(f, (0, None))(jnp.stack([h, h]), xs).shape == (2,)
    assert kiln.hessian(f)(h, xs).shape == (2, 2)


def test_the_derived_body_has_tangents_only_where_something_moves() -> None:
    def f(h: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            i, fixed, h = carry
            return (i + 1, fixed * 2.0, h * x), (fixed, h)

        return lax.scan(step, (0, jnp.float32(1.0), h), jnp.ones(3))

    (eqn,) = scans(kiln.make_jaxpr(lambda h: kiln.jvp(f, (h,), (h,)))(1.0))
    assert eqn.params["num_carry"] == 4
    assert eqn.params["num_consts"] == 0
    assert len(eqn.outvars) == 7


def test_a_carry_moves_if_it_does_after_some_steps() -> None:
    def f(x: Any) -> Any:
        return lax.scan(lambda c, _: ((c[1], c[2], c[2]), None), (0.0, 0.0, x), None, length=3)[0]

    _, moved = kiln.jvp(f, (1.0,), (1.0,))
    assert [float(t) for t in moved] == [1.0, 1.0, 1.0]
    assert [t.tolist() for t in kiln.vmap(f)(jnp.array([1.0, 2.0]))] == [[1.0, 2.0]] * 3


def test_dead_carries_and_results_go() -> None:
    def f(x: Any) -> Any:
        def step(c: Any, t: Any) -> Any:
            a, b, unused, counter = c
            return (b, a * t, unused + a, counter + 1), (a, unused, t)

        _, (ys, *_) = lax.scan(step, (x, x, x, 0), (jnp.ones(3)))
        return ys

    jaxpr, _ = stage(lambda x: [f(x)], [ShapedArray((), F32)])
    clean, _ = kiln.ir.rewrite.eliminate_dead_code(jaxpr)
    (eqn,) = scans(clean)
    assert eqn.params["num_carry"] == 2
    assert len(eqn.outvars) == 3
    check(clean)


def test_effects_survive_dead_code_and_keep_what_they_need() -> None:
    seen: list[float] = []

    def f(x: Any) -> Any:
        def step(c: Any, t: Any) -> Any:
            a, b = c
            kiln.debug.callback(lambda v: seen.append(float(v)), a)
            return (a + 1.0, b * t), None

        lax.scan(step, (x, x), jnp.ones(3))
        return x * 2.0

    for on in ("reference", "xla"):
        with override(engine=on):
            seen.clear()
            assert kiln.jit(f)(1.0) == 2.0
            kiln.effects_barrier()
            assert sorted(seen) == [1.0, 2.0, 3.0]
    seen.clear()
    kiln.jit(kiln.grad(lambda x: f(x) * x))(1.0)
    assert seen == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("reverse", [False, True])
def test_ordered_effects_come_in_the_order_of_the_steps(reverse: bool) -> None:
    seen: list[float] = []

    def step(c: Any, x: Any) -> Any:
        kiln.debug.callback(lambda v: seen.append(float(v)), x, ordered=True)
        return c, None

    with override(engine="xla"):
        kiln.jit(lambda xs: lax.scan(step, 0.0, xs, reverse=reverse, unroll=2)[0])(jnp.arange(5.0))
        kiln.effects_barrier()
    assert seen == ([4.0, 3.0, 2.0, 1.0, 0.0] if reverse else [0.0, 1.0, 2.0, 3.0, 4.0])


def test_nothing_is_derived_or_compiled_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def counted(name: str, original: Any) -> Any:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            made.append(name)
            return original(*args, **kwargs)

        return wrapper

    for module, name in (
        (scan, "_make_jvp_body"),
        (scan, "_make_transposed_body"),
        (scan_split, "_split_scan"),
        (region, "_split"),
        (region, "_pull_back"),
    ):
        monkeypatch.setattr(module, name, counted(name, getattr(module, name)))
    compiled: list[str] = []
    stop = on_compile(lambda name, seconds: compiled.append(name))
    try:
        for scale in (1.0, 2.0, 3.0):
            # A new body each time, of the same structure.
            def loss(w: Any) -> Any:
                return (lambda: weights(w, jnp.asarray(H), jnp.asarray(XS))[1].sum())()

            kiln.grad(loss)(W * np.float32(scale))
            kiln.vmap(kiln.grad(loss))(jnp.stack([jnp.asarray(W)] * 2))
            kiln.hessian(loss)(W)
            if scale == 1.0:
                first = (len(made), len(compiled))
                assert first[0] > 5
                assert first[1] > 2
    finally:
        stop()
    assert (len(made), len(compiled)) == first


def test_equal_bodies_from_equal_lines_are_one_object() -> None:
    def body(scale: float) -> Jaxpr:
        jaxpr, _ = stage(lambda x: [x * scale], [ShapedArray((), F32)])
        return bodies.interned(jaxpr)

    assert body(2.0) is body(2.0)
    assert body(2.0) is not body(3.0)
    bodies.clear()


def test_named_sizes() -> None:
    n, m = symbol("n"), symbol("m")
    jaxpr, _ = stage(
        lambda c, x: lax.scan(lambda c, r: (c + r, c), c, x),
        [ShapedArray((m,), F32), ShapedArray((n, m), F32)],
    )
    (eqn,) = scans(jaxpr)
    assert [v.aval.shape for v in eqn.outvars] == [(m,), (n, m)]
    check(jaxpr)
    over, stacked = batch_jaxpr(jaxpr, MappedAxis(symbol("k")), [0, None])
    assert stacked == [True, True]
    assert over.out_avals[1].shape == (symbol("k"), n, m)


def test_operands_of_other_types_are_refused() -> None:
    jaxpr, _ = stage(lambda c, x: [c, x], [ShapedArray((), F32)] * 2)
    params = {"jaxpr": jaxpr, "reverse": False, "num_consts": 0, "num_carry": 1, "unroll": 1}
    with pytest.raises(TypeError, match=r"operands float32\[\], float32\[3\]\nthe body takes"):
        scan_p.infer(ShapedArray((), F32), ShapedArray((3,), F32), length=4, **params)


def test_the_engine_writes_a_loop() -> None:
    jaxpr, _ = stage(
        lambda c, x: lax.scan(lambda c, r: (c + r, c), c, x),
        [ShapedArray((), F32), ShapedArray((8,), F32)],
    )
    text = engine("xla").compiler.text(kiln.core.engines.engine.Program(jaxpr, "f"))
    assert text.count("stablehlo.while") == 1
    assert "dynamic_update_slice" in text
