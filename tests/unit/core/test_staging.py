"""Staging: what becomes a variable, a literal, a constant; and the way back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kiln.core.arrays.array import from_host
from kiln.core.staging import (
    StagingTrace,
    StagingTracer,
    eval_jaxpr,
    hoist_constants,
    recording,
    stage,
    stage_pure,
    stage_region,
    stand_in,
)
from kiln.core.trace import state
from kiln.ir.types import ShapedArray
from kiln.ops.elements.elementwise import add, mul, sin
from kiln.ops.reductions.sorting import sort

AVAL = ShapedArray((3,), np.dtype(np.float32))
X = from_host(np.array([1.0, 2.0, 3.0], np.float32))


def test_operations_become_equations() -> None:
    jaxpr, consts = stage(lambda x: [mul(sin(x), x)], [AVAL])
    assert str(jaxpr) == ("{ lambda ; a:f32[3]. let b:f32[3] = sin a; c:f32[3] = mul b a in (c,) }")
    assert consts == []
    assert jaxpr.eqns[0].source.file.endswith("test_staging.py")  # type: ignore[union-attr]


def test_scalars_are_literals_and_arrays_constants() -> None:
    array, as_wide = np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0], np.float32)
    jaxpr, consts = stage(
        lambda x: [
            *(add(x, 2.0), add(x, np.float32(3)), add(x, array), add(x, X), add(x, X)),
            add(x, as_wide),
        ],
        [AVAL],
    )
    assert str(jaxpr).splitlines()[:3] == [
        "{ lambda a:f32[3] b:f32[3] c:f32[3]; d:f32[3]. let",
        "  e:f32[3] = add d 2.0",
        "  f:f32[3] = add d 3.0",
    ]
    # A Python number takes the dtype of the array it stands beside.
    assert [eqn.invars[1].aval.weak_type for eqn in jaxpr.eqns[:2]] == [False, False]
    assert consts[1] is X
    # The caller may change its arrays afterwards.
    array[:] = as_wide[:] = 0
    assert np.asarray(consts[0]).tolist() == [1, 2, 3]
    assert np.asarray(consts[2]).tolist() == [4, 5, 6]
    assert consts[0].dtype == np.float32


def test_results_may_be_inputs_literals_or_repeated() -> None:
    jaxpr, _ = stage(lambda x: [x, 2.0, x], [AVAL])
    assert str(jaxpr) == "{ lambda ; a:f32[3]. let in (a, 2.0, a) }"
    assert [a.weak_type for a in jaxpr.out_avals] == [False, True, False]


def test_literals_come_back_as_the_numbers_they_were() -> None:
    jaxpr, _ = stage(lambda: [True, np.True_, 2, np.float32(2)], [])
    outs = eval_jaxpr(jaxpr, ())
    assert [type(x) for x in outs] == [bool, np.bool_, int, np.float32]


def test_outer_tracers_are_constants_of_the_inner_program() -> None:
    inner: list[Any] = []

    def outer(x: Any) -> list[Any]:
        y = sin(x)
        inner.append(stage(lambda z: [add(z, y)], [AVAL]))
        return [y]

    stage(outer, [AVAL])
    jaxpr, consts = inner[0]
    assert str(jaxpr) == "{ lambda a:f32[3]; b:f32[3]. let c:f32[3] = add b a in (c,) }"
    assert isinstance(consts[0], StagingTracer)


def test_constants_become_inputs_of_regions() -> None:
    jaxpr, consts = stage_region(lambda x: [add(x, X)], [AVAL], arg_names=("x",))
    assert (len(jaxpr.constvars), len(jaxpr.invars)) == (0, 2)
    assert jaxpr.arg_names == ("", "x")
    assert consts == [X]
    assert hoist_constants(jaxpr) is jaxpr


def test_derived_programs_hold_values_as_literals() -> None:
    jaxpr = stage_pure(lambda x: [add(x, X), X], [AVAL])
    assert str(jaxpr) == "{ lambda ; a:f32[3]. let b:f32[3] = add a [...] in (b, [...]) }"
    assert np.asarray(eval_jaxpr(jaxpr, (), X)[0]).tolist() == [2, 4, 6]


def test_derived_programs_cannot_close_over_tracers() -> None:
    def outer(x: Any) -> list[Any]:
        return stage_pure(lambda z: [add(z, x)], [AVAL], purpose="jvp", name="f").eqns

    with pytest.raises(TypeError, match=r"jvp of f[\s\S]*closes over a traced value"):
        stage(outer, [AVAL])


def test_eval_jaxpr_is_the_way_back() -> None:
    jaxpr, consts = stage(lambda x: [mul(sin(x), X), 1.5], [AVAL])
    again, more = stage(lambda x: eval_jaxpr(jaxpr, consts, x), [AVAL])
    assert str(again) == str(jaxpr)
    # Replayed equations keep the user's line.
    assert again.eqns[0].source == jaxpr.eqns[0].source
    found = eval_jaxpr(again, more, X)
    np.testing.assert_allclose(np.asarray(found[0]), np.sin([1, 2, 3]) * [1, 2, 3], 1e-6)
    assert found[1] == 1.5


def test_several_results() -> None:
    jaxpr, _ = stage(lambda x: list(sort((x, x), num_keys=1)), [AVAL])
    assert len(jaxpr.eqns[0].outvars) == 2


def test_state_is_restored_after_an_error() -> None:
    before = state.trace
    with pytest.raises(ZeroDivisionError):
        stage(lambda x: 1 / 0, [AVAL])  # type: ignore[arg-type, return-value]
    assert state.trace is before


def test_which_arguments_are_responsible() -> None:
    found = []

    def fun(x: Any, y: Any, z: Any) -> list[Any]:
        value = add(sin(x), z)
        trace: StagingTrace = value.owner
        found.append([name for name, _ in trace.responsible(value)])
        found.append([name for name, _ in trace.responsible(trace.parent and sin(y))])
        return []

    stage(fun, [AVAL] * 3, arg_names=("x", "y", "z"))
    assert found == [["x", "z"], ["y"]]


def test_describe_names_the_function() -> None:
    trace = StagingTrace(None, definition="f at a.py:3", purpose="scan")
    assert trace.describe() == "while tracing the function f at a.py:3 for scan"
    assert StagingTrace(None).describe() == "while tracing a function for jit"


class Typed:
    """What has the type of an array, but no value."""

    shape = (2,)
    dtype = np.dtype(np.float32)


def test_a_type_stands_for_an_array_while_a_program_is_recorded() -> None:
    typed = Typed()
    assert recording() is None
    assert stand_in(typed) is None

    def double(x: Any) -> list[Any]:
        assert recording() is state.trace
        return [add(stand_in(typed), stand_in(typed))]

    jaxpr, consts = stage(double, [ShapedArray((), np.dtype(np.float32))])
    assert [str(a) for a in jaxpr.out_avals] == ["float32[2]"]
    assert consts == [typed]
