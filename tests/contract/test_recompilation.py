"""Section 10.7: why functions are traced again, and what can be done about it."""

from __future__ import annotations

import logging
import threading
import warnings

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from tests.contract.marks import contract


def reasons(f, *calls) -> list[tuple[str, str, str, str]]:
    """Return what `explain_recompiles` says of each call of a warm function."""
    with kiln.explain_recompiles() as records:
        for args, kwargs in calls:
            f(*args, **kwargs)
    return [(r.argument, r.reason, r.old, r.new) for r in records]


def call(*args, **kwargs):
    return args, kwargs


def warm(fun, *args, **options):
    f = kiln.jit(fun, **options)
    f(*args)
    return f


X = np.ones(3, np.float32)


@contract("10.7")
@pytest.mark.parametrize(
    ("again", "expected"),
    [
        (call(np.ones(4, np.float32), 1.0), ("x", "shape", "float32[3]", "float32[4]")),
        (call(np.ones(3, np.int32), 1.0), ("x", "dtype", "float32[3]", "int32[3]")),
        (
            call(X, np.float32(1)),
            ("y", "weak type", "float32[] (weak type)", "float32[]"),
        ),
        (call([X], 1.0), ("x", "structure", "a pytree leaf", "a list of length 1")),
        (call(X), ("args", "structure", "a tuple of length 2", "a tuple of length 1")),
    ],
)
def test_the_argument_and_the_reason(again, expected) -> None:
    f = warm(lambda x, y=0.0: y, X, 1.0)
    assert reasons(f, call(X, 2.0), again, again) == [expected]


@contract("10.7")
def test_paths_into_containers() -> None:
    f = kiln.jit(lambda tree, *, scale: tree["a"][0] * scale)
    f({"a": [X]}, scale=2.0)
    assert reasons(f, call({"a": [np.ones(5, np.float32)]}, scale=2.0)) == [
        ("tree['a'][0]", "shape", "float32[3]", "float32[5]")
    ]
    assert reasons(f, call({"a": (X,)}, scale=2.0))[0][:2] == ("tree['a']", "structure")
    assert reasons(f, call({"a": [X]}, scale=2))[0] == (
        "scale",
        "dtype",
        "float32[] (weak type)",
        "int32[] (weak type)",
    )


@contract("10.7")
def test_static_values_and_options() -> None:
    f = warm(lambda x, n: x * n, X, 2, static_argnames="n")
    assert reasons(f, call(X, 2), call(X, 3)) == [("n", "static value", "2", "3")]
    assert reasons(f, call(X, n=3)) == []
    assert reasons(f, call(X, n=4))[0][:2] == ("n", "static value")
    with kiln.enable_x64(True):
        (found,) = reasons(f, call(np.ones(3, np.float32), 3))
    assert found == ("enable_x64", "options", "False", "True")


@contract("10.7")
def test_what_a_record_says() -> None:
    def named(x):
        return jnp.sin(x) * 0.8125

    f = kiln.jit(named)
    with kiln.explain_recompiles() as records:
        f(X)
        f(X)
        f(np.ones(7, np.float32))  # here
    first, second = records
    assert (first.reason, first.argument) == ("first call", "")
    assert second.function == "named"
    assert f"named at {__file__}" in second.definition
    line = named.__code__.co_firstlineno + 7
    assert second.source == f"{__file__}:{line}"
    for record in records:
        assert record.trace_seconds > 0
        assert record.compile_seconds > 0
        assert record.seconds == record.trace_seconds + record.compile_seconds
    assert "argument x: float32[3] before, float32[7] now" in str(second)


@contract("10.7")
def test_a_warm_loop_explains_nothing() -> None:
    f = warm(lambda x, y: x + y, X, 1.0)
    with kiln.explain_recompiles() as records:
        for i in range(5):
            f(X + i, float(i))
    assert records == []


@contract("10.7")
def test_threads_and_nested_contexts_are_heard() -> None:
    f = warm(lambda x: x + 1, X)
    with kiln.explain_recompiles() as outer:
        with kiln.explain_recompiles() as inner:
            thread = threading.Thread(target=lambda: f(np.ones(5, np.float32)))
            thread.start()
            thread.join()
        f(np.ones(6, np.float32))
    f(np.ones(7, np.float32))
    assert [r.new for r in inner] == ["float32[5]"]
    assert [r.new for r in outer] == ["float32[5]", "float32[6]"]


@contract("10.7")
def test_inner_functions_and_derivatives_are_heard() -> None:
    inner = kiln.jit(lambda x: jnp.sin(x))
    outer = kiln.jit(lambda x: inner(x) + inner(x))
    with kiln.explain_recompiles() as records:
        outer(X)
        kiln.grad(lambda x: jnp.sum(outer(x)))(X)
        kiln.vmap(outer)(np.ones((2, 3), np.float32))
    assert [r.reason for r in records] == ["first call", "first call"]


@contract("10.7")
def test_a_failed_trace_is_no_trace() -> None:
    @kiln.jit
    def f(x):
        if x.shape == (3,):
            raise KeyError("no")
        return x

    with pytest.raises(KeyError):
        f(X)
    assert f.cache_info().traces == 0
    f(np.ones(4, np.float32))
    assert f.cache_info().traces == 1


@contract("10.7")
def test_an_evicted_executable_is_explained() -> None:
    f = kiln.jit(lambda x: jnp.cos(x) * 0.4375)
    before = kiln.config.executable_cache_mb
    kiln.config.update("executable_cache_mb", 0)
    try:
        f(X)
        f(np.ones(4, np.float32))
        with kiln.explain_recompiles() as records:
            f(X)
    finally:
        kiln.config.update("executable_cache_mb", before)
    (record,) = records
    assert record.reason == "evicted"
    assert record.compile_seconds > 0
    assert record.source.startswith(__file__)


# max_traces.


@contract("10.7")
def test_max_traces_raises_with_the_difference() -> None:
    @kiln.jit(max_traces=2)
    def f(x, y):
        return x

    f(X, 1.0)
    f(X, 2.0)
    f(np.ones(4, np.float32), 1.0)
    with pytest.raises(kiln.errors.RecompilationError) as error:
        f(np.ones(5, np.float32), 1.0)
    asked, wrong, remedy = str(error.value).splitlines()
    assert f"f at {__file__}" in asked
    assert "argument x: float32[4] before, float32[5] now" in wrong
    assert "max_traces" in remedy
    assert float(f(X, 1.0)[0]) == 1
    f.clear_cache()
    f(np.ones(5, np.float32), 1.0)


@contract("10.7")
@pytest.mark.parametrize("value", [0, -1, 1.5, True, "2"])
def test_max_traces_must_be_a_number_of_traces(value) -> None:
    with pytest.raises(ValueError, match="max_traces"):
        kiln.jit(lambda x: x, max_traces=value)


@contract("10.7")
def test_max_traces_is_no_part_of_the_key() -> None:
    traces: list = []

    def f(x):
        traces.append(1)
        return x

    kiln.jit(f)(X)
    kiln.jit(f, max_traces=1)(X)
    assert len(traces) == 1


# The warning.


def warnings_of(work) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        work()
    return [w for w in found if w.category is kiln.errors.RecompilationWarning]


@contract("10.7")
def test_one_warning_after_ten_traces() -> None:
    @kiln.jit
    def f(batch, rate):
        return batch * rate

    def nine():
        for n in range(9):
            f(np.ones(n, np.float32), 0.5)

    assert warnings_of(nine) == []
    (found,) = warnings_of(lambda: [f(np.ones(n, np.float32), 0.5) for n in range(30)])
    text = str(found.message)
    assert f"f at {__file__}" in text
    assert "argument batch keeps changing its shape" in text
    assert "float32[0]" in text
    assert found.filename == __file__


@contract("10.7")
def test_static_values_that_keep_changing() -> None:
    f = kiln.jit(lambda x, step: x + step, static_argnames="step")
    (found,) = warnings_of(lambda: [f(X, step=n) for n in range(12)])
    assert "argument step keeps changing its static value: 0, 1, 2, ..., 9" in str(found.message)


@contract("10.7")
def test_the_warning_is_an_option() -> None:
    def work(f):
        for n in range(15):
            f(np.ones(n, np.float32))

    before = kiln.config.trace_warning
    try:
        kiln.config.update("trace_warning", 0)
        assert warnings_of(lambda: work(kiln.jit(lambda x: x + 0.375))) == []
        kiln.config.update("trace_warning", 3)
        (found,) = warnings_of(lambda: work(kiln.jit(lambda x: x + 0.625)))
        assert "was traced 3 times" in str(found.message)
    finally:
        kiln.config.update("trace_warning", before)


@contract("10.7")
def test_as_an_error_the_warning_leaves_the_function_usable() -> None:
    f = kiln.jit(lambda x: x + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(kiln.errors.RecompilationWarning):
            for n in range(12):
                f(np.ones(n, np.float32))
        assert f(np.ones(9, np.float32)).shape == (9,)
        assert f(np.ones(40, np.float32)).shape == (40,)


# Logs and counts.


@contract("10.7")
def test_log_compiles_names_each_compilation(caplog) -> None:
    def named(x):
        return x * 3.0625

    f = kiln.jit(named)
    with caplog.at_level(logging.WARNING, "kiln"):
        with kiln.log_compiles():
            f(X)
            f(X)
            f(np.ones(5, np.float32))
        f(np.ones(6, np.float32))
    compiling = [r.getMessage() for r in caplog.records if "Compiling" in r.getMessage()]
    assert len(compiling) == 2
    assert all("named" in text for text in compiling)


@contract("10.7")
def test_what_a_function_has_cost() -> None:
    def fun(x):
        return jnp.sin(x) * 0.6875

    f, again = kiln.jit(fun), kiln.jit(fun)
    assert f.cache_info() == (0, 0, 0, 0, 0, 0.0, 0.0)
    for x in (X, X, np.ones(4, np.float32), X):
        f(x)
    info = f.cache_info()
    assert (info.misses, info.traces, info.entries, info.executables) == (2, 2, 2, 2)
    assert info.bytes > 10_000
    assert info.trace_seconds > 0
    assert info.compile_seconds > 0
    again(X)
    assert again.cache_info() == info._replace(misses=3)
    f.clear_cache()
    assert f.cache_info() == (0, 0, 0, 0, 0, 0.0, 0.0)


@contract("10.1")
def test_keywords_and_containers_of_one_structure_are_two_calls() -> None:
    f = kiln.jit(lambda *args, **kwargs: len(args) + 10 * len(kwargs))
    assert f((1.0,), {"a": 2.0}) == 2
    assert f(1.0, a=2.0) == 11
    g = kiln.jit(lambda n, *args, **kwargs: len(args) + 10 * len(kwargs), static_argnums=0)
    assert g(5, (1.0, 1.0), {"a": 2.0}) == 2
    assert g(5, 1.0, 1.0, a=2.0) == 12


@contract("10.7")
def test_sizes_of_a_named_axis_are_no_recompilation() -> None:
    f = kiln.jit(lambda x: jnp.sin(x) * 2, abstracted_axes=({0: "n"},), max_traces=1)
    f(np.ones(2, np.float32))
    with kiln.explain_recompiles() as records:
        assert f(np.ones(5, np.float32)).shape == (5,)
    assert records == []
    assert f.cache_info().traces == 1
    with pytest.raises(kiln.errors.RecompilationError, match="argument x: float32"):
        f(np.ones(5, np.int32))
