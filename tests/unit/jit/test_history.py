"""What a function was traced for: the reason, the warning, the limit."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import numpy as np

import kiln
from kiln.base.errors import RecompilationWarning
from kiln.base.options.config import Options, override
from kiln.base.tree import tree_structure
from kiln.ir.types import ShapedArray
from kiln.jit.history import REMEMBERED, History
from kiln.jit.signatures.explain import Naming
from kiln.jit.signatures.signature import Signature

F = np.dtype("float32")
TREE = tree_structure((0, 0))


def f(x, y):
    return x


NAMING = Naming(f, [0, 1], ["x", "y"])


def key(x: tuple[int, ...], y: tuple[int, ...] = ()) -> Any:
    return Signature(TREE, (ShapedArray(x, F), ShapedArray(y, F)), (), Options().key(), ())


def traced(history: History, *keys: Any) -> None:
    for k in keys:
        record, start = history.begin([], k, NAMING)
        history.end(k, NAMING, record, start)


def test_the_advice_names_what_changes_most_often() -> None:
    history = History()
    traced(history, *[key((n,)) for n in range(3)], key((2,), (5,)), key((9,), (5,)))
    asked, wrong, remedy = history.advice(f).splitlines()
    assert asked.startswith(f"f at {__file__}:")
    assert wrong == (
        "it was traced 5 times: argument x keeps changing its shape: "
        "float32[0], float32[1], float32[2], float32[9]"
    )
    assert "pad" in remedy


def test_many_values_are_shortened() -> None:
    history = History()
    with override(trace_warning=0):
        traced(history, *[key((n,)) for n in range(REMEMBERED)])
    assert "float32[0], float32[1], float32[2], ..., float32[15]" in history.advice(f)


def test_one_warning_after_so_many_traces() -> None:
    history = History()
    with override(trace_warning=3), warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        traced(history, key((1,)), key((2,)))
        assert found == []
        traced(history, key((3,)), key((4,)), key((5,)))
    (only,) = found
    assert only.category is RecompilationWarning
    assert only.filename == __file__
    assert "argument x keeps changing its shape" in str(only.message)


def test_the_warning_can_be_switched_off() -> None:
    with override(trace_warning=0), warnings.catch_warnings():
        warnings.simplefilter("error")
        traced(History(), *[key((n,)) for n in range(50)])


def test_no_warning_about_functions_of_kiln() -> None:
    inside = Naming(kiln.lax.add, [0, 1], ["x", "y"])
    history = History()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in range(20):
            record, start = history.begin([], key((n,)), inside)
            history.end(key((n,)), inside, record, start)


def test_the_error_of_the_limit() -> None:
    history = History()
    traced(history, key((1,)))
    error = history.too_many(1, [key((1,))], key((2,)), NAMING)
    asked, wrong, remedy = str(error).splitlines()
    assert asked.startswith(f"call of f at {__file__}:")
    assert "max_traces=1" in wrong
    assert "argument x: float32[1] before, float32[2] now" in wrong
    assert "raise max_traces" in remedy


def test_code_that_was_traced_for_another_function() -> None:
    def make() -> Any:
        return lambda x, y: x

    first, second = make(), make()
    history = History()
    naming = Naming(first, [0, 1], ["x", "y"])
    assert history.why([], key(()), naming)[0].reason == "first call"
    history.end(key(()), naming, None, 0.0)
    again = History().why([], key(()), Naming(second, [0, 1], ["x", "y"]))
    assert again[0].reason == "new function"


def test_first_calls_on_many_threads_are_no_recompilations() -> None:
    barrier = threading.Barrier(6)

    def fun(x: Any) -> Any:
        # All threads are tracing before the first one ends.
        barrier.wait()
        return x + 1

    call = kiln.jit(fun)
    found: list[BaseException] = []

    def work() -> None:
        try:
            call(1.0)
        except BaseException as error:  # noqa: BLE001, looked at below
            found.append(error)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kiln.config.update("trace_warning", 3)
        try:
            threads = [threading.Thread(target=work) for _ in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            kiln.config.update("trace_warning", 10)
    assert found == []
    assert call.cache_info().traces == 6
