"""Callbacks: when they run, how often, with what, and what becomes of their results and errors."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.control.effects.callback import io_callback
from kiln.core.engines import engine

X = np.array([1.0, 2.0, 3.0], np.float32)
SCALAR = kiln.ShapeDtypeStruct((), "float32")


def shown(x):
    kiln.debug.print("x = {}, {y:.1f} {s}", x, y=2.0 * x, s="done")
    return jnp.sin(x)


LINE = "x = 1.0, 2.0 done\n"


@pytest.mark.parametrize(
    "fun",
    [
        shown,
        kiln.jit(shown),
        kiln.grad(shown),
        kiln.grad(kiln.jit(shown)),
        kiln.jit(kiln.grad(shown)),
        lambda x: kiln.jvp(kiln.jit(shown), (x,), (1.0,)),
        lambda x: kiln.vjp(shown, x)[1](1.0),
    ],
)
def test_prints_once_for_each_execution(fun, printed):
    fun(1.0)
    assert printed() == LINE
    fun(1.0)
    assert printed() == LINE


@pytest.mark.parametrize(
    "fun",
    [
        kiln.vmap(shown),
        kiln.jit(kiln.vmap(shown)),
        kiln.vmap(kiln.jit(shown)),
        kiln.vmap(kiln.grad(shown)),
        lambda x: kiln.grad(lambda x: kiln.vmap(shown)(x).sum())(x),
    ],
)
def test_prints_once_for_each_element(fun, printed):
    fun(X[:2])
    assert printed() == LINE + "x = 2.0, 4.0 done\n"


def test_ordered_prints_follow_the_program(printed):
    @kiln.jit
    def fun(x):
        for i in range(5):
            kiln.debug.print("{} {}", i, x, ordered=True)
        return x

    for value in range(3):
        fun(value)
    assert printed() == "".join(f"{i} {value}\n" for value in range(3) for i in range(5))


@pytest.mark.parametrize("wrap", [lambda fun: fun, kiln.jit])
def test_prints_only_in_the_branch_taken(wrap, printed):
    def branch(name):
        def fun(x):
            kiln.debug.print(name)
            return x

        return fun

    fun = wrap(lambda p, x: lax.cond(p, branch("yes"), branch("no"), x))
    fun(True, 1.0)
    assert printed() == "yes\n"
    kiln.grad(fun, 1)(False, 1.0)
    assert printed() == "no\n"


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("wrap", [lambda fun: fun, kiln.jit])
def test_prints_in_every_step_of_a_loop(wrap, ordered, printed):
    def fun(x):
        def step(carry, i):
            kiln.debug.print("{}", i, ordered=ordered)
            return carry * 2.0, None

        return lax.scan(step, x, jnp.arange(3))[0]

    wrap(fun)(1.0)
    assert printed() == "0\n1\n2\n"
    wrap(kiln.grad(fun))(1.0)
    assert printed() == "0\n1\n2\n"


def test_prints_in_a_while_loop(printed):
    def body(i):
        kiln.debug.print("{}", i, ordered=True)
        return i + 1

    kiln.jit(lambda n: lax.while_loop(lambda i: i < n, body, 0))(3)
    assert printed() == "0\n1\n2\n"


def test_debug_callback_takes_arrays_and_other_values():
    seen = []
    fun = kiln.jit(lambda x: kiln.debug.callback(lambda *a, **k: seen.append((a, k)), x, "s", k=x))
    fun(1.0)
    kiln.effects_barrier()
    (((array, text), named),) = seen
    assert isinstance(array, kiln.Array)
    assert (float(array), text, float(named["k"])) == (1.0, "s", 1.0)


def sine(x, method="sequential"):
    return kiln.pure_callback(
        np.sin, kiln.ShapeDtypeStruct(x.shape, x.dtype), x, vmap_method=method
    )


@pytest.mark.parametrize(
    "method", ["sequential", "sequential_unrolled", "expand_dims", "broadcast_all"]
)
def test_pure_callback(method):
    np.testing.assert_allclose(kiln.jit(sine)(X), np.sin(X), rtol=1e-6)
    for fun in (
        kiln.vmap(lambda x: sine(x, method)),
        kiln.vmap(kiln.vmap(lambda x: sine(x, method))),
    ):
        stack = np.stack([X, 2 * X])
        np.testing.assert_allclose(fun(stack), np.sin(stack), rtol=1e-6)
        np.testing.assert_allclose(kiln.jit(fun)(stack), np.sin(stack), rtol=1e-6)


@pytest.mark.parametrize(
    ("method", "shapes"),
    [
        ("sequential", [((), ())] * 3),
        ("expand_dims", [((3,), (1,))]),
        ("broadcast_all", [((3,), (3,))]),
    ],
)
def test_what_a_mapped_pure_callback_sees(method, shapes):
    seen = []

    def host(x, y):
        seen.append((x.shape, y.shape))
        return np.asarray(x) + np.asarray(y)

    fun = kiln.vmap(lambda x: kiln.pure_callback(host, SCALAR, x, 1.0, vmap_method=method))
    np.testing.assert_allclose(fun(X), X + 1)
    assert seen == shapes


def test_pure_callback_over_nothing():
    fun = kiln.vmap(lambda x: sine(x))
    assert fun(np.zeros((0, 3), np.float32)).shape == (0, 3)


def test_unused_pure_callbacks_are_dropped():
    calls = []

    def host(x):
        calls.append(x)
        return np.asarray(x)

    kiln.jit(lambda x: (kiln.pure_callback(host, SCALAR, x), x)[1])(1.0).block_until_ready()
    assert calls == []


def test_pure_callback_results_are_pytrees_of_the_declared_types():
    declared = {"a": SCALAR, "b": (kiln.ShapeDtypeStruct((2,), "int32"),)}
    host = lambda x: {"a": float(x), "b": (np.arange(2),)}  # 64-bit values become 32-bit ones
    fun = lambda x: kiln.pure_callback(host, declared, x)
    for run in (fun, kiln.jit(fun)):
        out = run(1.0)
        assert out["a"].dtype == np.float32
        assert out["b"][0].dtype == np.int32
        assert out["b"][0].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (np.ones(3, np.float32), r"Expected: \(\), Actual: \(3,\)"),
        (np.int32(1), "Expected: float32, Actual: int32"),
        ((np.float32(1), np.float32(2)), "returned 2 values"),
    ],
)
@pytest.mark.parametrize("wrap", [lambda fun: fun, kiln.jit])
def test_wrong_results(wrap, result, message):
    fun = wrap(lambda x: kiln.pure_callback(lambda _: result, SCALAR, x))
    with pytest.raises(kiln.errors.JaxRuntimeError, match=message):
        fun(1.0).block_until_ready()


@pytest.mark.parametrize("wrap", [lambda fun: fun, kiln.jit])
def test_exceptions_surface_with_their_text(wrap):
    def host(x):
        raise ValueError("the host says no")

    for call in (kiln.pure_callback, io_callback):
        with pytest.raises(kiln.errors.JaxRuntimeError, match="the host says no") as caught:
            wrap(lambda x, call=call: call(host, SCALAR, x))(1.0).block_until_ready()
        assert type(caught.value.__cause__) is ValueError


def test_unsupported_transformations():
    def plain(x):
        return kiln.pure_callback(np.sin, SCALAR, x)

    with pytest.raises(ValueError, match="Pure callbacks do not support JVP"):
        kiln.grad(plain)(1.0)
    with pytest.raises(NotImplementedError, match="vmap_method"):
        kiln.vmap(plain)(X)
    with pytest.raises(ValueError, match="vmap_method='fast' is not known"):
        sine(jnp.ones(()), "fast")
    with pytest.raises(ValueError, match="IO callbacks do not support JVP"):
        kiln.grad(lambda x: io_callback(np.sin, SCALAR, x))(1.0)
    with pytest.raises(ValueError, match="Cannot `vmap` ordered IO callback"):
        kiln.vmap(lambda x: io_callback(np.sin, SCALAR, x, ordered=True))(X)


def test_arguments_are_checked():
    with pytest.raises(TypeError, match="callable"):
        kiln.pure_callback(3, SCALAR, 1.0)
    with pytest.raises(TypeError, match="not a valid"):
        kiln.pure_callback(np.sin, SCALAR, "text")
    with pytest.raises(TypeError, match="no shape and dtype"):
        kiln.pure_callback(np.sin, 3.0, 1.0)


def test_a_pure_callback_with_a_derivative():
    @kiln.custom_jvp
    def f(x):
        return sine(x)

    @f.defjvp
    def _(primals, tangents):
        return f(*primals), jnp.cos(primals[0]) * tangents[0]

    for derivative in (kiln.grad(f), kiln.jit(kiln.grad(kiln.jit(f)))):
        np.testing.assert_allclose(derivative(1.0), np.cos(1.0), rtol=1e-6)


def test_io_callback_runs_in_order_and_though_unused():
    log = []

    def host(x):
        log.append(float(x))
        return np.float32(x) + np.float32(1)

    @kiln.jit
    def fun(x):
        y = io_callback(host, SCALAR, x, ordered=True)
        io_callback(host, SCALAR, y * 10.0, ordered=True)
        return x

    fun(1.0)
    fun(2.0)
    kiln.effects_barrier()
    assert log == [1.0, 20.0, 2.0, 30.0]
    np.testing.assert_allclose(kiln.vmap(lambda x: io_callback(host, SCALAR, x))(X), X + 1)
    assert sorted(log[4:]) == [1.0, 2.0, 3.0]


def _io(function, x, ordered):
    io_callback(function, SCALAR, x, ordered=ordered)


def _debug(function, x, ordered):
    kiln.debug.callback(function, x, ordered=ordered)


class Late:
    """An engine with a running program, which calls Python only when it is waited for."""

    def __init__(self, log):
        self.log = log

    def barrier(self):
        self.log.append("program")


@pytest.mark.parametrize("called", [_io, _debug])
@pytest.mark.parametrize("ordered", [True, False])
def test_ordered_calls_wait_for_those_of_running_programs(called, ordered, monkeypatch):
    log = []
    monkeypatch.setitem(engine._loaded, "late", Late(log))
    called(lambda x: log.append("outside") or x, 1.0, ordered)
    assert log == (["program", "outside"] if ordered else ["outside"])


def test_equal_callbacks_are_equal_parameters():
    def recorded():
        return kiln.make_jaxpr(lambda x: kiln.debug.print("{}", x))(1.0).eqns[0].params["callback"]

    assert recorded() == recorded()
    assert hash(recorded()) == hash(recorded())


def test_refusals_say_what_jax_says() -> None:
    called = lambda x: io_callback(lambda x: x, SCALAR, x)
    with pytest.raises(ValueError, match="IO callbacks do not support transpose"):
        kiln.linear_transpose(called, 1.0)(1.0)
    branch = lambda p: kiln.lax.cond(p, lambda: called(1.0), lambda: 2.0)
    with pytest.raises(NotImplementedError, match="IO effect not supported in vmap-of-cond"):
        kiln.vmap(branch)(np.array([True, False]))
    loop = lambda n: kiln.lax.while_loop(lambda i: i < n, lambda i: i + called(1.0), 0.0)
    with pytest.raises(NotImplementedError, match="in while_loop with batched predicate"):
        kiln.vmap(loop)(np.arange(3.0, dtype=np.float32))
