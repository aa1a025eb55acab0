"""Sections 5, 7 and 10: inlining, tracing, caching."""

from __future__ import annotations

import logging
import threading

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.execution.compilation import on_compile
from tests.contract.marks import contract


def traced(fun):
    """Return the jitted function and a list that grows with every trace."""
    traces: list = []

    def f(*args, **kwargs):
        traces.append(1)
        return fun(*args, **kwargs)

    return kiln.jit(f), traces


@contract("5.1")
def test_unused_arguments() -> None:
    def f(x, y):
        return x * 2

    text = kiln.jit(f).lower(1.0, 2.0).as_text()
    kept = kiln.jit(f, keep_unused=True).lower(1.0, 2.0).as_text()
    assert text.count("%arg") < kept.count("%arg")
    assert "%arg1" in kept
    assert "%arg1" not in text
    assert len(kiln.make_jaxpr(f)(1.0, 2.0).jaxpr.invars) == 2
    assert kiln.jit(f)(1.0, 2.0) == kiln.jit(f, keep_unused=True)(1.0, 2.0) == 2


@contract("5.2")
def test_inline() -> None:
    def f(x):
        return jnp.sin(x) * 2

    called = kiln.make_jaxpr(lambda x: kiln.jit(f)(x) + 1)(1.0)
    spliced = kiln.make_jaxpr(lambda x: kiln.jit(f, inline=True)(x) + 1)(1.0)
    assert [e.primitive.name for e in called.eqns] == ["jit", "add"]
    assert [e.primitive.name for e in spliced.eqns] == ["sin", "mul", "add"]
    assert called.eqns[0].params["name"] == "f"
    assert [e.primitive.name for e in called.eqns[0].params["jaxpr"].eqns] == ["sin", "mul"]
    assert kiln.jit(f, inline=True)(1.0) == kiln.jit(f)(1.0)
    for inline in (True, False):
        inner = kiln.jit(f, inline=inline)
        assert kiln.grad(lambda x, g=inner: g(x) + 1)(1.0) == pytest.approx(2 * np.cos(1.0), 1e-6)


@contract("7.1")
def test_the_body_runs_once_per_miss() -> None:
    f, traces = traced(lambda x: x + 1)
    assert (f(1), f(2), f(3)) == (2, 3, 4)
    assert len(traces) == 1
    f(np.ones(2))
    assert len(traces) == 2


@contract("7.1")
def test_tracers_are_arrays() -> None:
    def f(x):
        assert isinstance(x, kiln.Array)
        assert isinstance(x, kiln.core.Tracer)
        assert (x.shape, x.dtype, x.ndim, x.size, x.weak_type) == (
            (2, 3),
            np.dtype("float32"),
            2,
            6,
            False,
        )
        assert len(x) == 2
        assert x.aval.shape == (2, 3)
        assert x.aval.dtype == np.float32
        a, b = x
        assert [row.shape for row in x] == [(3,), (3,)]
        with pytest.raises(TypeError):
            hash(x)
        with pytest.raises(TypeError, match=r"(?s)immutable.*\.at\["):
            x[0] = 1
        return a + b

    np.testing.assert_array_equal(kiln.jit(f)(np.ones((2, 3), np.float32)), [2, 2, 2])

    def scalar(x):
        assert x.weak_type
        assert x.aval.weak_type
        assert (x.shape, x.ndim, x.size) == ((), 0, 1)
        with pytest.raises(TypeError):
            len(x)
        with pytest.raises(TypeError):
            iter(x)
        return x

    kiln.jit(scalar)(1.0)


@contract("7.2")
def test_text_of_tracers() -> None:
    texts: list = []

    @kiln.jit
    def f(x):
        texts.extend([str(x), repr(x), f"{x}", f"{x:>10}"])
        return x

    f(np.ones(3, np.float32))
    for text in texts:
        assert "Trace" in text
        assert "float32[3]" in text
    texts.clear()
    f(2.0)
    assert len(texts) == 4
    assert all("Trace" in text and "float32[]" in text for text in texts)


@contract("7.3")
def test_python_effects_run_while_tracing_only(capsys) -> None:
    @kiln.jit
    def f(x):
        print("tracing")
        kiln.debug.print("running {}", x)
        return x + 1

    for i in range(3):
        f(i)
    kiln.effects_barrier()
    out = capsys.readouterr().out
    assert out.count("tracing") == 1
    assert [line for line in out.splitlines() if "running" in line] == [
        "running 0",
        "running 1",
        "running 2",
    ]


@contract("7.3")
def test_debug_print_under_every_transformation(capsys) -> None:
    def f(x):
        kiln.debug.print("x={x}", x=x)
        return jnp.sin(x)

    kiln.grad(kiln.jit(f))(1.0)
    kiln.vmap(f)(jnp.arange(2.0))
    kiln.lax.scan(lambda c, x: (c + f(x), c), 0.0, jnp.arange(2.0))
    kiln.jit(lambda p, x: kiln.lax.cond(p, f, jnp.cos, x))(False, 5.0)
    kiln.jit(lambda p, x: kiln.lax.cond(p, f, jnp.cos, x))(True, 6.0)
    kiln.effects_barrier()
    lines = capsys.readouterr().out.split()
    assert lines == ["x=1.0", "x=0.0", "x=1.0", "x=0.0", "x=1.0", "x=6.0"]


@contract("7.3")
def test_callbacks_run_once_per_effect_and_in_order(capsys) -> None:
    seen: list = []

    @kiln.jit
    def f(p, x):
        kiln.debug.callback(lambda v: seen.append(("first", float(v))), x)
        kiln.debug.print("second {}", x)
        kiln.debug.callback(lambda v: seen.append(("third", float(v))), x)
        y = kiln.pure_callback(np.sin, kiln.ShapeDtypeStruct((), "float32"), x)
        return kiln.lax.cond(
            p,
            lambda: kiln.debug.callback(lambda: seen.append("yes")),
            lambda: kiln.debug.callback(lambda: seen.append("no")),
        ), y

    for p, x in ((True, 1.0), (False, 2.0)):
        seen.clear()
        _, y = f(p, x)
        kiln.effects_barrier()
        assert seen == [("first", x), ("third", x), "yes" if p else "no"]
        assert capsys.readouterr().out == f"second {x}\n"
        assert y == pytest.approx(np.sin(x), rel=1e-6)


@contract("7.4")
def test_what_closures_become() -> None:
    array = jnp.arange(3.0)
    from_numpy = np.arange(3, dtype=np.float32)
    scalar = np.float32(2)
    jaxpr = kiln.make_jaxpr(lambda x: (x * array + from_numpy) * scalar + 3.0)(array)
    assert len(jaxpr.consts) == 2
    assert len(jaxpr.jaxpr.constvars) == 2
    assert [c.shape for c in jaxpr.consts] == [(3,), (3,)]
    assert "2.0" in str(jaxpr)
    assert "3.0" in str(jaxpr)

    def outer(a):
        return kiln.jit(lambda x: x * jnp.sin(a))(2.0)

    assert kiln.grad(outer)(1.0) == pytest.approx(2 * np.cos(1.0), rel=1e-6)
    assert kiln.jit(kiln.grad(outer))(1.0) == pytest.approx(2 * np.cos(1.0), rel=1e-6)


factor = 2.0


@contract("7.5")
def test_globals_are_read_while_tracing() -> None:
    global factor
    f = kiln.jit(lambda x: x * factor)
    assert f(1.0) == 2
    factor = 3.0
    assert f(1.0) == 2
    assert f(np.ones(1))[0] == 3
    assert kiln.jit(lambda x: x * factor)(1.0) == 3
    factor = 2.0

    class Settings:
        factor = 2.0

    settings = Settings()
    g = kiln.jit(lambda x: x * settings.factor)
    assert g(1.0) == 2
    settings.factor = 5.0
    assert g(1.0) == 2
    assert g(np.float32(1)) == 5


@contract("7.6")
def test_disable_jit_runs_python() -> None:
    f, traces = traced(lambda x: x + 1)
    f(1)
    with kiln.disable_jit():
        f(1)
        f(1)
        assert kiln.jit(lambda x: "positive" if x > 0 else "negative")(1) == "positive"
        seen: list = []
        kiln.jit(seen.append)(3)
        assert seen == [3]
    f(1)
    assert len(traces) == 3


@contract("10.1")
def test_what_is_in_the_key() -> None:
    f, traces = traced(lambda x, y=0: x)
    same = [
        np.ones(3, np.float32),
        jnp.zeros(3),
        np.ones(3, np.float64),
        jnp.full(3, 7.0, "float32"),
    ]
    for x in same:
        f(x)
    assert len(traces) == 1
    for i, x in enumerate(
        [np.ones(4), np.ones(3, np.int32), [1.0], (1.0,), {"a": 1.0}, {"b": 1.0}]
    ):
        f(x)
        assert len(traces) == i + 2
    n = len(traces)
    f(1.0)
    f(np.float32(1))
    assert len(traces) == n + 2
    f(x=1.0)
    f(1.0, y=1)
    assert len(traces) == n + 4
    with kiln.enable_x64(True):
        f(1.0)
    assert len(traces) == n + 5
    with kiln.default_matmul_precision("highest"):
        f(1.0)
    assert len(traces) == n + 6
    f(2.0)
    assert len(traces) == n + 6
    for g in ({"x": 1.0, "y": 2}, {"y": 2, "x": 1.0}):
        f(**g)
    assert len(traces) == n + 7
    device = kiln.devices()[0]
    f(kiln.device_put(np.ones(3, np.float32), device))
    assert len(traces) == n + 7
    f(np.ones(3, np.int64))
    f(np.ones(3, np.int32))
    assert len(traces) == n + 7


@contract("10.1")
def test_metadata_of_trees_is_in_the_key() -> None:
    @kiln.tree_util.register_pytree_node_class
    class Tagged:
        def __init__(self, x, tag):
            self.x, self.tag = x, tag

        def tree_flatten(self):
            return (self.x,), self.tag

        @classmethod
        def tree_unflatten(cls, tag, children):
            return cls(children[0], tag)

    f, traces = traced(lambda t: t.x * (2 if t.tag == "double" else 1))
    assert (f(Tagged(1, "double")), f(Tagged(1, "single")), f(Tagged(3, "double"))) == (2, 1, 6)
    assert len(traces) == 2


@contract("10.2")
def test_a_second_wrapper_hits() -> None:
    traces: list = []

    def f(x, n):
        traces.append(1)
        return x

    for _ in range(3):
        kiln.jit(f)(1, 2)
    assert len(traces) == 1
    for _ in range(2):
        kiln.jit(f, static_argnums=1)(1, 2)
    assert len(traces) == 2
    kiln.jit(f, static_argnums=0)(1, 2)
    assert len(traces) == 3
    kiln.jit(f, static_argnums=0, keep_unused=True)(1, 2)
    kiln.jit(f, static_argnums=0, inline=True)(1, 2)
    assert len(traces) <= 5
    assert kiln.jit(f, static_argnums=1)(1, 2) == 1


@contract("10.3")
def test_one_trace_serves_all() -> None:
    f, traces = traced(jnp.sin)
    x = jnp.float32(1)
    f(x)
    f.lower(x).compile()
    f.trace(x)
    f.eval_shape(x)
    kiln.make_jaxpr(f)(x)
    kiln.vmap(f)(jnp.ones(3))
    kiln.grad(f)(x)
    assert len(traces) == 1
    inner, inner_traces = traced(jnp.cos)
    kiln.jit(lambda x: inner(x) + inner(x + 1))(x)
    assert len(inner_traces) == 1
    kiln.jit(lambda x: kiln.lax.scan(lambda c, _: (inner(c), None), x, length=2)[0])(x)
    assert len(inner_traces) == 1


@contract("10.4")
def test_failures_are_not_cached() -> None:
    broken = [True]

    @kiln.jit
    def f(x):
        if broken:
            raise KeyError("not yet")
        return x + 1

    with pytest.raises(KeyError):
        f(1)
    broken.clear()
    assert f(1) == 2


@contract("10.4")
def test_clearing() -> None:
    f, f_traces = traced(lambda x: x)
    g, g_traces = traced(lambda x: x)
    for h in (f, g):
        h(1)
        h(1.0)
    assert f._cache_size() == g._cache_size() == 2
    f.clear_cache()
    assert (f._cache_size(), g._cache_size()) == (0, 2)
    f(1)
    g(1)
    assert (len(f_traces), len(g_traces)) == (3, 2)
    kiln.clear_caches()
    assert g._cache_size() == 0
    g(1)
    assert len(g_traces) == 3


@contract("10.4")
def test_cache_size_counts_this_wrapper() -> None:
    def f(x):
        return x

    a, b = kiln.jit(f), kiln.jit(f)
    a(1)
    a(1.0)
    b(1)
    assert (a._cache_size(), b._cache_size()) == (2, 1)


@contract("10.7")
def test_log_compiles(caplog) -> None:
    def named(x):
        return x * 3

    with caplog.at_level(logging.WARNING, "kiln"), kiln.log_compiles():
        kiln.jit(named)(1.25)
    assert any("named" in record.getMessage() for record in caplog.records)


def test_explain_names_the_argument(caplog) -> None:
    @kiln.jit
    def f(x, y):
        return x

    f(np.ones(3), 1.0)
    kiln.config.update("explain", True)
    try:
        with caplog.at_level(logging.WARNING, "kiln"):
            f(np.ones(4), 1.0)
            f(np.ones(4), np.float32(1))
    finally:
        kiln.config.update("explain", False)
    texts = [record.getMessage() for record in caplog.records]
    assert "argument x: float32[3] before, float32[4] now" in texts[0]
    assert "argument y: float32[] (weak type) before, float32[] now" in texts[1]


def test_equal_programs_compile_once() -> None:
    names: list = []
    stop = on_compile(lambda name, seconds: names.append(name))
    try:
        for _ in range(5):
            kiln.jit(lambda x: jnp.tanh(x) * 1.75 + 0.375)(2.0)
    finally:
        stop()
    assert len(names) <= 1


@contract("13.2")
def test_threads() -> None:
    f, _ = traced(lambda x: jnp.sum(jnp.sin(x)))
    errors: list = []

    def work(n):
        try:
            for k in range(1, 6):
                x = np.full(n * k, 0.5, np.float32)
                assert float(f(x)) == pytest.approx(n * k * np.sin(0.5), rel=1e-4)
                with kiln.enable_x64(n % 2 == 0):
                    assert f(1.0).dtype == (np.float64 if n % 2 == 0 else np.float32)
        except Exception as error:  # noqa: BLE001 - reported by the main thread
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 9)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert errors == []
