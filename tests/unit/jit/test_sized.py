"""The program for all sizes, and what is made of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.errors import InconclusiveSizeError
from kiln.base.options.config import override


@pytest.fixture(autouse=True)
def _on_the_reference_engine() -> Any:
    with override(engine="reference"):
        yield


def sized(fun: Any) -> Any:
    return kiln.jit(fun, abstracted_axes=({0: "n"},))


def test_wrappers_of_one_function_share_programs() -> None:
    traces = []

    def f(x: Any) -> Any:
        traces.append(x.shape)
        return x + 1

    first, second = sized(f), sized(f)
    first(np.ones(2, "f4"))
    second(np.ones(3, "f4"))
    assert len(traces) == 1
    kiln.jit(f)(np.ones(2, "f4"))
    kiln.jit(f, abstracted_axes=({0: "m"},))(np.ones(2, "f4"))
    assert len(traces) == 3


def test_a_hit_is_a_signature_like_any_other() -> None:
    f = sized(lambda x: x * 2)
    for n in (2, 3, 2):
        f(np.ones(n, "f4"))
    assert f._cache_size() == 1
    entries = list(f._entries.values())
    assert [e.recording.jaxpr.in_avals[0].shape for e in entries] == [(2,), (3,)]
    assert entries[0].recording.general is entries[1].recording.general


def test_forgetting() -> None:
    f = sized(lambda x: x * 2)
    f(np.ones(2, "f4"))
    f.clear_cache()
    assert f._cache_size() == 0
    f(np.ones(2, "f4"))
    kiln.clear_caches()
    assert f._cache_size() == 0


def test_constants_closed_over() -> None:
    table = jnp.arange(3.0)
    f = sized(lambda x: x[:, None] * table)
    for n in (1, 2):
        np.testing.assert_array_equal(f(np.ones(n, "f4")), np.ones((n, 1)) * np.arange(3.0))


def test_a_size_that_may_be_0_inside_another_program() -> None:
    traces = []

    @sized
    def inner(x: Any) -> Any:
        traces.append(x.shape)
        return x.sum() if x.shape[0] >= 1 else jnp.float32(-1)

    outer = sized(lambda x: inner(x[1:]) if x.shape[0] != 0 else x.sum())
    # n-1 may be 0, so the inner function is traced for it as it is, and cannot decide.
    with pytest.raises(InconclusiveSizeError, match="n"):
        outer(np.ones(3, "f4"))
    whole = sized(lambda x: inner(jnp.concatenate([x, x])))
    assert whole(np.ones(3, "f4")) == 6
    assert whole(np.ones(0, "f4")) == -1


def test_a_size_that_is_compared_inside_another_program() -> None:
    inner = sized(lambda x: x.sum() * (10 if x.shape[0] == 3 else 1))
    outer = sized(lambda x: inner(jnp.concatenate([x, jnp.ones(1, "f4")])))
    # For n = 2 the inner program is another one, and so is the outer.
    assert [float(outer(np.ones(n, "f4"))) for n in (5, 2, 4)] == [6, 30, 5]


def test_an_error_inside_another_program_is_that_of_the_function() -> None:
    @sized
    def inner(x: Any) -> Any:
        assert x.shape[0], "assumed of all sizes"
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        sized(lambda x: inner(jnp.concatenate([x, x])))(np.ones(4, "f4"))


def test_switched_off() -> None:
    f = sized(lambda x: x.shape[0])
    with kiln.disable_jit():
        assert f(np.ones(3, "f4")) == 3
