"""Traces and tracers: which one listens, what a value without a value refuses."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kiln
from kiln.base import dtypes
from kiln.base.errors import (
    ConcretizationTypeError,
    MaskedArrayError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    UnexpectedTracerError,
)
from kiln.base.options.config import override
from kiln.core import trace as traces
from kiln.core.arrays.array import from_host
from kiln.core.staging import stage
from kiln.core.trace import (
    Tracer,
    aval_of,
    axes_bound,
    axis_bound,
    axis_size_of,
    in_force,
    state,
)
from kiln.ir.types import ShapedArray
from kiln.ops.elements.elementwise import sin

SCALAR = ShapedArray((), np.dtype(np.float32))
VECTOR = ShapedArray((3,), np.dtype(np.float32))


def traced(use: Callable[[Any], Any], aval: ShapedArray = SCALAR) -> Any:
    """Return what `use` says of a tracer."""
    found = []

    def fun(x: Any) -> list[Any]:
        found.append(use(x))
        return []

    stage(fun, [aval])
    return found[0]


def test_the_root_trace_is_in_force_outside() -> None:
    assert state.trace is traces.state.root
    assert state.root is not None


def test_in_force_restores_after_an_error() -> None:
    before = state.trace
    with pytest.raises(KeyError), in_force(traces.Trace(before)):
        raise KeyError
    assert state.trace is before


def test_each_thread_has_its_own_state() -> None:
    seen = []
    with in_force(traces.Trace(state.trace)), axis_bound("i", 3):
        thread = threading.Thread(target=lambda: seen.append((state.trace, state.axes)))
        thread.start()
        thread.join()
    assert seen == [(traces.state.root, ())]


def test_axes_are_found_by_name_innermost_first() -> None:
    with axis_bound("i", 2), axis_bound("j", 3):
        with axis_bound("i", 5):
            assert axis_size_of("i") == 5
        assert (axis_size_of("i"), axis_size_of("j")) == (2, 3)
    with pytest.raises(NameError, match="unbound axis name: i"):
        axis_size_of("i")


def test_types_track_an_axis_until_another_of_its_name_hides_it() -> None:
    with axes_bound([("i", 2, True), ("j", 3, True)]):
        assert state.tracked == {"i", "j"}
        with axis_bound("i", 5):
            assert state.tracked == {"j"}
            with axes_bound([("i", 2, True)]):
                assert state.tracked == {"i", "j"}
        assert state.tracked == {"i", "j"}
    assert not state.tracked


@pytest.mark.parametrize(
    ("value", "dtype", "weak"),
    [
        (1, "int32", True),
        (1.0, "float32", True),
        (1j, "complex64", True),
        (True, "bool", False),
        (np.float64(1), "float32", False),
        (np.int8(1), "int8", False),
        (np.zeros(2), "float32", False),
        (from_host(np.zeros(2, np.int16)), "int16", False),
    ],
)
def test_types_of_values(value: Any, dtype: str, weak: bool) -> None:
    found = aval_of(value)
    assert (found.dtype, found.weak_type) == (dtypes.as_dtype(dtype), weak)
    assert found.shape == np.shape(value)


def test_types_of_values_in_double_precision() -> None:
    with override(enable_x64=True):
        assert aval_of(1.0) == ShapedArray((), np.dtype(np.float64), weak_type=True)
        assert aval_of(np.zeros(2)).dtype == np.float64


@pytest.mark.parametrize(
    ("use", "error"),
    [
        (bool, TracerBoolConversionError),
        (int, ConcretizationTypeError),
        (float, ConcretizationTypeError),
        (complex, ConcretizationTypeError),
        (lambda x: [1, 2][x], TracerIntegerConversionError),
        (np.sin, TracerArrayConversionError),
        (lambda x: x.item(), ConcretizationTypeError),
        (lambda x: x.tolist(), ConcretizationTypeError),
        (lambda x: x.tobytes(), ConcretizationTypeError),
        (pickle.dumps, ConcretizationTypeError),
        (hash, TypeError),
    ],
)
def test_a_tracer_has_no_value(use: Callable[[Any], Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        traced(use)


def test_a_tracer_shows_its_type() -> None:
    for show in (str, repr, format):
        text = traced(show, VECTOR)
        assert "Trace" in text
        assert "float32[3]" in text
    assert traced(lambda x: (x.shape, x.dtype, x.ndim, x.size, len(x), x.weak_type), VECTOR) == (
        (3,),
        np.float32,
        1,
        3,
        3,
        False,
    )


def test_a_tracer_is_an_array() -> None:
    assert traced(lambda x: isinstance(x, kiln.Array) and isinstance(x, Tracer))
    assert traced(lambda x: copy.copy(x) is x and copy.deepcopy([x])[0] is x)
    assert traced(lambda x: x.block_until_ready() is x)


def test_items_cannot_be_assigned() -> None:
    with pytest.raises(TypeError, match=r"immutable[\s\S]*\.at\["):
        traced(lambda x: x.__setitem__(0, 1), VECTOR)


def test_a_leaked_tracer_is_refused_and_still_printed() -> None:
    leak: list[Any] = []
    stage(lambda x: leak.append(x) or [x], [VECTOR], definition="f at a.py:3")
    assert "float32[3]" in str(leak[0])
    assert leak[0].shape == (3,)
    with pytest.raises(UnexpectedTracerError, match=r"leak[\s\S]*f at a\.py:3"):
        sin(leak[0])
    with pytest.raises(UnexpectedTracerError, match="leak"):
        stage(lambda y: [sin(leak[0])], [VECTOR])


def test_masked_arrays_are_refused() -> None:
    masked = np.ma.masked_array([1.0, 2.0], [True, False])
    for error in (TypeError, ValueError, MaskedArrayError):
        with pytest.raises(error, match=r"(?s)test_trace.py.*mask would be forgotten.*filled"):
            aval_of(masked)
    assert aval_of(masked.filled(0)).shape == (2,)
