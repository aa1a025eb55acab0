"""Which operation made a result that is not finite: its name, its line, its step, its element."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax, linen
from kiln.core.meaning import meaning
from kiln.experimental import io_callback
from kiln.ops.elements.elementwise import log

HERE = re.escape(__file__)


def line_of(mark: str) -> int:
    """Return the number of the line of this file that ends with a mark."""
    lines = Path(__file__).read_text().splitlines()
    return next(n for n, text in enumerate(lines, 1) if text.endswith(mark))


def message(fun: Callable[..., Any], *args: Any) -> str:
    """Return the three lines of the error of a call."""
    with kiln.debug_nans(True), pytest.raises(FloatingPointError) as caught:
        fun(*args)
    text = str(caught.value)
    assert len(text.splitlines()) == 3
    return text


def logs(x: Any) -> Any:
    """Take a logarithm on a line of its own."""
    y = x + 0
    return jnp.log(y) * 2  # logs


def falls(carry: Any, x: Any) -> Any:
    """Take the root of what falls below 0 in step 4, for a carry of 3.5 and steps of 1."""
    return carry - x, jnp.sqrt(carry)  # falls


LOGS = rf"`log` of float32\[\] at {HERE}:{line_of('# logs')} in logs"
FALLS = rf"`sqrt` of float32\[\] at {HERE}:{line_of('# falls')} in falls"


def scanned(carry: Any) -> Any:
    return lax.scan(falls, carry, jnp.ones(6))


def nested(carry: Any) -> Any:
    return lax.scan(lambda c, x: (c, scanned(c - x)[1]), carry, jnp.array([-9.0, -9.0, 0.0]))


def while_loop(x: Any) -> Any:
    return lax.while_loop(lambda c: c[0] < 6, lambda c: (c[0] + 1, falls(c[1], 1.0)[0]), (0, x))


@kiln.custom_jvp
def ruled(x: Any) -> Any:
    return x


ruled.defjvp(lambda primals, tangents: (primals[0], logs(tangents[0])))


@kiln.custom_vjp
def backwards(x: Any) -> Any:
    return x


backwards.defvjp(lambda x: (x, None), lambda _, ct: (logs(ct),))


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize(
    ("fun", "where"),
    [
        (lambda x: logs(x - 9), LOGS),
        (lambda x: kiln.jit(logs)(x - 9), LOGS),
        (lambda x: lax.cond(x > 9, jnp.sin, logs, x - 9), LOGS),
        (lambda x: kiln.checkpoint(logs)(x - 9), LOGS),
        (lambda x: scanned(x), rf"{FALLS}, iteration 4 of scan at {HERE}:\d+"),
        (
            lambda x: lax.scan(falls, x, jnp.ones(6), reverse=True),
            rf"{FALLS}, iteration 1 of scan at {HERE}:\d+",
        ),
        (
            lambda x: nested(x),
            rf"{FALLS}, iteration 4 of scan at {HERE}:\d+, iteration 2 of scan at {HERE}:\d+",
        ),
        (
            lambda x: lax.fori_loop(0, 9, lambda i, c: logs(c - i) * 0 + c, x),
            rf"{LOGS}, iteration 4 of scan at {HERE}:\d+",
        ),
        (
            lambda x: lax.while_loop(
                lambda c: c[0] < 9, lambda c: (c[0] + 1, logs(c[1] - c[0]) * 0 + c[1]), (0, x)
            ),
            rf"{LOGS}, iteration 4 of while at {HERE}:\d+",
        ),
        (lambda x: kiln.value_and_grad(lambda y: logs(y - 9))(x), LOGS),
        (lambda x: kiln.jvp(ruled, (x,), (-x,)), LOGS),
        (lambda x: kiln.vjp(backwards, x)[1](-x), LOGS),
        (lambda x: kiln.vmap(logs)(jnp.stack([x, x - 9, x])), r"`log` of float32\[3\] at "),
    ],
)
def test_operation_line_and_step_are_named(fun: Any, where: str, jitted: bool) -> None:
    text = message(kiln.jit(fun) if jitted else fun, jnp.float32(3.5))
    assert re.match(where, text), text
    assert "invalid value (nan) encountered in" in text
    assert "kiln.debug_nans(False)" in text


def test_the_element_is_named_and_what_it_was_computed_from() -> None:
    x = jnp.array([[1.0, 2.0], [3.0, -4.0]])
    text = message(kiln.jit(lambda x, y: (x * 1) ** y), x, 0.5)
    assert "has nan at [1, 1] (1 of 4 values), where pow(-4.0, 0.5) = nan" in text
    batched = message(kiln.vmap(lambda row: jnp.log(row).sum()), x)
    assert "has nan at [1, 1]" in batched
    matrix = message(kiln.jit(jnp.linalg.cholesky), -np.eye(2, dtype=np.float32))
    assert "`cholesky`" in matrix and "where" not in matrix.splitlines()[1]


def test_it_says_how_the_place_was_found_and_what_to_write() -> None:
    text = message(kiln.jit(logs), -1.0)
    assert "found by evaluating logs again without jit, equation by equation" in text
    assert "jnp.log(jnp.where(x > 0, x, 1))" in text
    assert "again" not in message(logs, -1.0)


def test_an_argument_that_is_nan_already_is_named() -> None:
    nan = np.float32(np.nan)
    assert "operand 1, argument weight, is nan already" in message(
        kiln.jit(lambda x, weight: x + weight), 1.0, nan
    )
    assert "it is the argument weight, which is nan already" in message(
        kiln.jit(lambda x, weight: weight), 1.0, nan
    )


def test_what_nobody_uses_is_not_blamed() -> None:
    def unused(x: Any) -> Any:
        jnp.sqrt(x)
        return jnp.log(x)

    assert message(kiln.jit(unused), -1.0).startswith("`log`")


def test_infinities_are_found_alike() -> None:
    f = kiln.jit(lambda x: 1 / x)
    with kiln.debug_infs(True):
        with pytest.raises(FloatingPointError, match=r"\(inf\) encountered in div") as caught:
            f(0.0)
        assert "kiln.debug_infs(False)" in str(caught.value)
        with pytest.raises(FloatingPointError, match="`exp` of"):
            jnp.exp(1000.0)
        assert np.isnan(kiln.jit(jnp.log)(-1.0))
    with kiln.debug_nans(True):
        assert np.isinf(f(0.0))


def test_half_precision_is_looked_at() -> None:
    assert "`log` of bfloat16[]" in message(kiln.jit(jnp.log), jnp.array(-1, jnp.bfloat16))
    assert "`log` of complex64[]" in message(kiln.jit(jnp.log), jnp.array(complex("nan"), "c8"))


def test_calls_known_without_the_option_are_looked_at_with_it() -> None:
    f = kiln.jit(logs)
    for _ in range(3):
        assert np.isnan(f(-1.0))
    message(f, -1.0)
    with kiln.debug_infs(True), pytest.raises(FloatingPointError):
        f(0.0)
    assert np.isnan(f(-1.0))


def test_callbacks_are_not_called_again() -> None:
    called: list[float] = []

    @kiln.jit
    def f(x: Any) -> Any:
        kiln.debug.callback(lambda v: called.append(float(v)), x)
        return lax.scan(lambda c, _: (note(c), None), x, None, length=3)[0]

    def note(c: Any) -> Any:
        kiln.debug.callback(lambda v: called.append(float(v)), c)
        return jnp.log(c)

    message(f, -1.0)
    kiln.effects_barrier()
    assert len(called) == 4


def test_the_search_stops_before_an_effect_and_says_so() -> None:
    called: list[float] = []

    def read(x: np.ndarray) -> np.ndarray:
        called.append(float(x))
        return x

    struct = kiln.ShapeDtypeStruct((), np.float32)
    text = message(kiln.jit(lambda x: jnp.log(io_callback(read, struct, x))), -1.0)
    assert called == [-1.0]
    assert re.search(rf"none up to io_callback at {HERE}:\d+, which would happen a second", text)
    with_nan_before = kiln.jit(lambda x: io_callback(read, struct, jnp.log(x)))
    assert message(with_nan_before, -1.0).startswith("`log`")


def test_a_pure_callback_is_called_again() -> None:
    struct = kiln.ShapeDtypeStruct((), np.float32)
    text = message(kiln.jit(lambda x: logs(kiln.pure_callback(lambda v: v, struct, x))), -1.0)
    assert re.match(LOGS, text)


def test_what_a_callback_returns_is_looked_at() -> None:
    struct = kiln.ShapeDtypeStruct((), np.float32)
    for call in (kiln.pure_callback, io_callback):
        f = lambda x, call=call: call(lambda v: np.float32(np.nan) * v, struct, x)
        assert "(nan) encountered in" in message(f, 1.0)
        with kiln.debug_nans(True):
            assert float(call(lambda v: v, struct, 1.0)) == 1


def test_donated_arguments_stay_while_results_are_looked_at() -> None:
    f = kiln.jit(lambda x: jnp.log(x), donate_argnums=0)
    x = jnp.array([-1.0])
    assert "log(-1.0)" in message(f, x)
    assert not x.is_deleted()
    y = jnp.array([2.0])
    f(y)
    assert y.is_deleted()
    compiled = f.lower(y.aval).compile()
    assert "log(-1.0)" in message(compiled, x)


def test_compiled_ahead_of_time() -> None:
    compiled = kiln.jit(scanned).lower(1.0).compile()
    assert "iteration 4 of scan" in message(compiled, jnp.float32(3.5))


def test_modules_and_their_jitted_methods() -> None:
    class Plain(linen.Module):
        @linen.compact
        def __call__(self, x: Any) -> Any:
            return logs(linen.Dense(2, kernel_init=linen.initializers.ones)(x)[0, 0])

    class Jitted(linen.Module):
        __call__ = linen.jit(Plain.__call__)

    for module in (Plain(), Jitted()):
        text = message(module.init_with_output, kiln.random.key(0), -jnp.ones((1, 2)))
        assert re.match(LOGS, text)


def test_parts_on_a_mesh() -> None:
    mesh = kiln.make_mesh((1,), ("i",))
    spec = kiln.sharding.PartitionSpec("i")
    f = kiln.shard_map(
        lambda x: lax.psum(jnp.log(x), "i"), mesh=mesh, in_specs=spec, out_specs=spec
    )
    for fun in (f, kiln.jit(f)):
        text = message(fun, jnp.array([1.0, -1.0]))
        assert text.startswith("`log`") and f"in shard_map at {__file__}" in text
        assert "Invalid value (nan) encountered in sharded computation, in log" in text


def test_the_error_keeps_no_arrays() -> None:
    x = jnp.ones((1000,)) * -1
    with kiln.debug_nans(True):
        try:
            kiln.jit(jnp.log)(x)
        except FloatingPointError as error:
            kept = error
    assert kept.__cause__ is None and kept.__context__ is None


def test_an_observer_sees_its_own_thread_only() -> None:
    jaxpr = kiln.make_jaxpr(lambda x: kiln.jit(jnp.sin)(x) + 1)(1.0).jaxpr
    found: list[Any] = []
    with kiln.debug_nans(True):
        thread = threading.Thread(
            target=lambda: found.extend(meaning(jaxpr, [np.ones((), np.float32)]))
        )
        thread.start()
        thread.join()
    assert found[0] == pytest.approx(np.sin(1) + 1)


def test_finite_results_cost_one_look() -> None:
    with kiln.debug_nans(True), kiln.debug_infs(True):
        assert float(kiln.jit(logs)(1.0)) == 0
        assert float(log(np.float32(1))) == 0


def test_ranges_and_histograms_of_numbers_have_no_nan() -> None:
    with kiln.debug_nans(True):
        assert jnp.linspace(0, 1, 3).tolist() == [0.0, 0.5, 1.0]
        counts, edges = jnp.histogram(jnp.array([1.0, 3.0]), 2)
    assert (counts.tolist(), edges.tolist()) == ([1, 1], [1, 2, 3])
