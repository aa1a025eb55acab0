"""Eager operations: cached programs of one equation; cheap ones compile nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
from kiln.base.options.config import override
from kiln.core.arrays.array import from_host
from kiln.core.primitive import Primitive
from kiln.core.trace import state
from kiln.execution import compilation, eager
from kiln.ir.types import ShapedArray
from kiln.ops.elements.elementwise import add, div, log, sin


class Shift(Primitive):
    name = "shift"
    on_host = True
    inferred = 0

    def infer(self, x: ShapedArray, *, by: Any) -> ShapedArray:
        Shift.inferred += 1
        return x

    def numpy(self, x: Any, *, by: Any) -> Any:
        return x + (sum(by) if isinstance(by, list) else by)


shift_p = Shift()
X = from_host(np.array([1.0, 2.0], np.float32))


def test_the_program_is_made_once_for_each_type() -> None:
    def made(x: Any, by: int) -> bool:
        before = Shift.inferred
        shift_p.bind(x, by=by)
        return Shift.inferred > before

    longer = from_host(np.zeros(3, np.float32))
    assert np.asarray(shift_p.bind(X, by=1)).tolist() == [2, 3]
    assert [made(X, 1), made(longer, 1), made(X, 2), made(X, 2)] == [False, True, True, False]


def test_unhashable_params_are_allowed() -> None:
    assert np.asarray(shift_p.bind(X, by=[1, 2])).tolist() == [4, 5]


def test_a_new_shape_compiles_nothing() -> None:
    seen: list[str] = []
    with override(engine=None):
        stop = compilation.on_compile(lambda name, seconds: seen.append(name))
        try:
            found = sin(from_host(np.zeros(17, np.float32)))
        finally:
            stop()
    assert np.asarray(found).tolist() == [0] * 17
    engines = {
        program.engine.name
        for (primitive, avals, *_), program in eager.EVAL.programs.items()  # type: ignore[misc]
        if primitive.name == "sin" and avals[0].shape == (17,)
    }
    assert engines == {"reference"}
    assert seen == ["sin"]


def test_scalars_keep_their_weakness() -> None:
    assert add(1, 2).weak_type
    assert int(add(1, 2)) == 3
    assert not add(np.int32(1), 2).weak_type


def test_results_do_not_alias_the_callers_memory() -> None:
    mine = np.ones(4, np.float32)
    found = add(mine, 0.0)
    mine[:] = 7
    assert np.asarray(found).tolist() == [1, 1, 1, 1]


def test_nan_is_found_where_it_arises() -> None:
    with override(debug_nans=True):
        assert float(log(np.float32(1))) == 0
        with pytest.raises(FloatingPointError, match=r"invalid value \(nan\) encountered in log"):
            log(np.float32(-1))
    assert np.isnan(float(log(np.float32(-1))))


def test_options_are_part_of_the_key() -> None:
    with override(enable_x64=True):
        assert div(1.0, 3.0).dtype == np.float64
    assert div(1.0, 3.0).dtype == np.float32


def test_clear_forgets_the_programs() -> None:
    shift_p.bind(X, by=1)
    eager.clear()
    assert not eager.EVAL.programs
    assert state.trace.describe() == "in eager evaluation"


MATRICES = np.random.default_rng(0).normal(size=(3, 40, 40)).astype(np.float32)


@pytest.mark.parametrize("name", ["cholesky", "eig", "eigh", "inv", "qr", "solve", "svd"])
@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_an_eager_factorization_is_that_of_a_program_to_the_bit(name: str, dtype: type) -> None:
    x = MATRICES[0].astype(dtype) + (1j * MATRICES[1] if dtype is np.complex64 else 0)
    if name == "cholesky":
        x = x @ x.conj().T + np.eye(len(x), dtype=dtype)
    args = (x, x[:, :2]) if name == "solve" else (x,)
    fun = getattr(kiln.numpy.linalg, name)
    jitted = kiln.jit(fun)(*args)
    # Once, twice, and by a plan.
    for _ in range(3):
        for found, expected in zip(*map(kiln.tree.leaves, (fun(*args), jitted)), strict=True):
            np.testing.assert_array_equal(found, expected)
