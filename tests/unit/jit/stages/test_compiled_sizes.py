"""Compiled ahead of time with named axes: one executable for all sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import override
from kiln.execution.compilation import on_compile
from kiln.jit.stages import compiled_sizes

AXES = ({0: "n"},)


def table(n: int, columns: int = 3) -> np.ndarray:
    return np.random.RandomState(n).randn(n, columns).astype(np.float32)


@pytest.fixture
def compiled() -> Iterator[list[str]]:
    names: list[str] = []
    stop = on_compile(lambda name, seconds: names.append(name))
    yield names
    stop()


def standardized(x: Any) -> Any:
    return (x - x.mean(0)) / (1 + jnp.abs(x).sum(0)), x.shape[0]


def refusal(call: Callable[[], Any], error: type[Exception] = TypeError) -> list[str]:
    with pytest.raises(error) as caught:
        call()
    lines = str(caught.value).splitlines()
    assert len(lines) == 3
    return lines


def test_one_executable_for_all_sizes(compiled: list[str]) -> None:
    f = kiln.jit(standardized, abstracted_axes=AXES)
    ahead = f.trace(kiln.ShapeDtypeStruct((5, 3), "float32")).lower().compile()
    for n in (5, 1, 2, 300, 5, 2):
        x = table(n)
        for given in (x, jnp.asarray(x)):
            y, size = ahead(given)
            np.testing.assert_allclose(y, standardized(x)[0], rtol=1e-5, atol=1e-6)
            assert size == n
    # Calls of the function run the same code.
    f(table(7))
    assert f.lower(table(4)).compile()(table(9))[1] == 9
    assert compiled.count("standardized") == 1
    assert f.cache_info().traces == 1
    assert "f32[3*n]" in ahead.as_text("loops")
    assert "%sizes = load ptr" in ahead.as_text("llvm")
    assert ahead.in_avals[0][0].shape == (5, 3)


def test_other_mismatches_are_errors() -> None:
    f = kiln.jit(lambda a, b: a @ b, abstracted_axes=({0: "n"}, {1: "m"}))
    ahead = f.lower(table(5), table(3, 4)).compile()
    np.testing.assert_allclose(ahead(table(2), table(3, 9)), table(2) @ table(3, 9), rtol=1e-5)
    _, wrong, _ = refusal(lambda: ahead(table(5, 4), table(3, 4)))
    assert wrong == (
        "Argument types differ from the types for which this computation was compiled: "
        "argument a compiled with float32[n,3] and called with float32[5,4]"
    )
    _, wrong, _ = refusal(lambda: ahead(table(5).astype(np.int32), table(3, 4)))
    assert "argument a compiled with float32[n,3] and called with int32[5,3]" in wrong
    assert (
        "float32[n,3] and called with float32[5]"
        in refusal(lambda: ahead(np.ones(5, np.float32), table(3, 4)))[1]
    )
    assert "pytree structure" in refusal(lambda: ahead(table(5)))[1]
    assert (
        "transform"
        in refusal(
            lambda: kiln.vmap(ahead, (0, None))(np.ones((2, 5, 3), np.float32), table(3, 4))
        )[2]
    )
    np.testing.assert_allclose(ahead(table(7), table(3, 4)), table(7) @ table(3, 4), rtol=1e-5)


def test_an_axis_of_size_0_has_code_of_its_own() -> None:
    f = kiln.jit(lambda x: x.sum(0), abstracted_axes=AXES)
    ahead = f.lower(table(4)).compile()
    _, wrong, remedy = refusal(lambda: ahead(table(0)))
    assert "compiled for sizes from 1 on" in wrong
    assert "n is 0" in wrong
    assert "compile" in remedy
    empty = f.lower(table(0)).compile()
    np.testing.assert_array_equal(empty(table(0)), np.zeros(3))
    assert "float32[0,3]" in refusal(lambda: empty(table(4)))[1]


def test_one_name_has_one_size() -> None:
    f = kiln.jit(lambda a, b: a + b, abstracted_axes=({0: "n"}, {0: "n"}))
    ahead = f.lower(table(5), table(5)).compile()
    _, wrong, _ = refusal(lambda: ahead(table(6), table(7)))
    assert wrong == (
        "Argument types differ from the types for which this computation was compiled: argument b "
        "compiled with float32[n,3], "
        "where n is 6, and called with float32[7,3]"
    )
    np.testing.assert_allclose(ahead(table(6), table(6)), 2 * table(6))


def test_arrays_that_are_too_large_and_results_that_are_not_finite() -> None:
    f = kiln.jit(lambda x: jnp.zeros((x.shape[0], 1 << 59), jnp.int8), abstracted_axes=AXES)
    ahead = f.lower(np.ones(1, np.float32)).compile()
    with pytest.raises(ValueError, match="array is too big"):
        ahead(np.ones(64, np.float32))
    g = kiln.jit(lambda x: jnp.log(x), abstracted_axes=AXES)
    logs = g.lower(np.ones(3, np.float32)).compile()
    with kiln.debug_nans(True), pytest.raises(FloatingPointError, match=r"float32\[5\]"):
        logs(np.full(5, -1, np.float32))


def test_donated_operands_and_closed_over_arrays() -> None:
    weights = jnp.arange(3.0)
    f = kiln.jit(lambda x: x * weights + 1, abstracted_axes=AXES, donate_argnums=0)
    ahead = f.lower(kiln.ShapeDtypeStruct((4, 3), "float32")).compile()
    for n in (4, 6, 6):
        x = jnp.asarray(table(n)) * 1
        np.testing.assert_allclose(ahead(x), table(n) * np.arange(3) + 1, rtol=1e-6)
        assert x.is_deleted()


def test_keywords_and_static_arguments() -> None:
    f = kiln.jit(lambda x, k, y: x * k + y, static_argnums=1, abstracted_axes=({0: "n"}, {0: "n"}))
    ahead = f.lower(table(4), 3, y=table(4)).compile()
    np.testing.assert_allclose(ahead(table(9), y=table(9)), 4 * table(9), rtol=1e-6)


def test_what_is_compiled_for_each_size_takes_that_size_only(compiled: list[str]) -> None:
    f = kiln.jit(lambda x: x * 2 + 19, abstracted_axes=AXES)
    with override(engine="xla"):
        ahead = f.lower(table(4)).compile()
        np.testing.assert_allclose(ahead(table(4)), table(4) * 2 + 19)
        assert "float32[4,3] and called with float32[5,3]" in refusal(lambda: ahead(table(5)))[1]
    # Options of XLA keep one program from the host, and no other.
    tuned = f.lower(table(4)).compile({"xla_cpu_enable_fast_math": False})
    assert "HloModule" in tuned.as_text()
    compiled.clear()
    for n in (5, 6):
        np.testing.assert_allclose(f(table(n)), table(n) * 2 + 19)
    assert len(compiled) == 1


def test_a_lowered_program_is_that_for_all_sizes() -> None:
    lowered = kiln.jit(standardized, abstracted_axes=AXES).lower(table(5))
    assert "f32[3*n]" in lowered.as_text("loops")
    assert "tensor<5x3xf32>" in lowered.as_text()
    assert "f32[n,3]" in lowered.as_text("jaxpr")
    for n, stage in ((5, lowered), (5, lowered.compile())):
        costs = stage.cost_analysis()
        assert costs is not None
        assert costs["flops"] >= 3 * n
    with override(engine="native"):
        native = kiln.jit(standardized, abstracted_axes=AXES).lower(table(5))
        assert native.cost_analysis() == native.compile().cost_analysis()
        for costs in (lowered.compile().cost_analysis(), native.cost_analysis()):
            assert costs is not None
            assert all(type(cost) is float for cost in costs.values())


def test_many_sizes_in_turn() -> None:
    ahead = kiln.jit(lambda x: x + 1, abstracted_axes=AXES).lower(np.ones(1, np.float32)).compile()
    for n in range(1, 1001):
        assert ahead(np.ones(n, np.float32)).shape == (n,)


def test_what_runs_sizes_is_kept_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_sizes, "MOST_SIZES", 3)
    ahead = kiln.jit(lambda x: x + 1, abstracted_axes=AXES).lower(table(1)).compile()
    others = ahead._other_sizes
    assert others is not None
    for n in (2, 3, 4, 5, 2):
        np.testing.assert_array_equal(ahead(table(n)), table(n) + 1)
        assert len(others._known) <= 3
    aval = ahead.in_avals[0][0].with_(shape=(2, 3))
    found = others.known((aval,))
    assert found is not None
    assert found is others.known((aval,))
    assert found.jaxpr.out_avals[0].shape == (2, 3)
