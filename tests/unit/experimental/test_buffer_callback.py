"""Functions that write into memory that they are given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.errors import JaxRuntimeError
from kiln.experimental.buffer_callback import ExecutionStage, buffer_callback

X = jnp.arange(6.0).reshape(2, 3)
ROW = kiln.ShapeDtypeStruct((3,), jnp.float32)


def add(context: Any, out: Any, x: Any, *, y: Any) -> None:
    assert context.stage is ExecutionStage.EXECUTE
    assert (x.writeable, out["sum"].writeable) == (False, True)
    assert (out["sum"].dtype, out["sum"].ndim) == (np.float32, x.ndim)
    np.asarray(out["sum"])[...] = np.asarray(x) + np.from_dlpack(y)


@pytest.mark.parametrize("through", [lambda f: f, kiln.jit])
def test_trees_of_results_are_written(through: Any) -> None:
    fun = buffer_callback(add, {"sum": ROW})
    assert through(fun)(X[0], y=X[1])["sum"].tolist() == [3, 5, 7]


@pytest.mark.parametrize(
    "method", ["sequential", "sequential_unrolled", "expand_dims", "broadcast_all"]
)
def test_vmap(method: str) -> None:
    fun = buffer_callback(add, {"sum": ROW}, vmap_method=method)
    found = kiln.vmap(lambda x: fun(x, y=X[1])["sum"])(X)
    assert found.tolist() == (X + X[1]).tolist()


def test_a_result_may_lie_where_an_operand_is() -> None:
    def double(context: Any, out: Any, x: Any) -> None:
        assert np.asarray(out).ctypes.data == np.asarray(x).ctypes.data
        np.asarray(out)[...] *= 2

    x = jnp.ones(3)
    assert buffer_callback(double, ROW, input_output_aliases={0: 0})(x).tolist() == [2, 2, 2]
    assert x.tolist() == [1, 1, 1]


def test_side_effects_happen_though_results_are_unused() -> None:
    seen: list[str] = []
    fun = buffer_callback(lambda *_: seen.append("called"), (), has_side_effect=True)
    kiln.jit(lambda x: (fun(), x)[1])(1.0)
    kiln.effects_barrier()
    assert seen == ["called"]


def test_what_is_refused() -> None:
    def stream(context: Any, out: Any) -> None:
        with pytest.raises(JaxRuntimeError, match="GPU context is not available"):
            _ = context.stream

    buffer_callback(stream, ROW)()
    with pytest.raises(ValueError, match=r"'3:0' with input index 3 outside the range \[0, 1\)"):
        buffer_callback(stream, ROW, input_output_aliases={3: 0})(X[0])
    with pytest.raises(ValueError, match=r"'0:1' with output index 1 outside the range \[0, 1\)"):
        buffer_callback(stream, ROW, input_output_aliases={0: 1})(X[0])
    with pytest.raises(ValueError, match="another type"):
        buffer_callback(stream, ROW, input_output_aliases={0: 0})(X)
    with pytest.raises(Exception, match="must not return any values"):
        kiln.block_until_ready(buffer_callback(lambda *_: 1, ROW)())


def test_operands_cannot_be_written() -> None:
    def write(context: Any, out: Any, x: Any) -> None:
        with pytest.raises(ValueError, match="read-only"):
            np.asarray(x)[...] = 0

    kiln.block_until_ready(buffer_callback(write, ROW)(X[0]))
