"""The types of results where types say how operands are sharded."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import override
from kiln.core.staging import types_of_results
from kiln.errors import ShardingTypeError
from kiln.extend.core import Primitive
from kiln.ir.shardings.abstract_mesh import AbstractMesh, AxisType
from kiln.ir.types import ShapedArray, with_split
from kiln.ops.elements.elementwise import sin_p
from kiln.ops.elements.families import add_p
from kiln.ops.reductions.sorting import sort_p

MESH = AbstractMesh((4, 2), ("x", "y"), (AxisType.Explicit,) * 2)
PLAIN = ShapedArray((8, 4), np.dtype(np.float32))
X = with_split(PLAIN, MESH, ("x", None))
Y = with_split(PLAIN, MESH, (None, "y"))


def test_a_rule_is_applied_only_if_an_operand_type_is_sharded() -> None:
    assert types_of_results(sin_p, [X], {}).split == ("x", None)
    assert types_of_results(add_p, [X, Y], {}).split == ("x", "y")
    silent = Primitive("silent")
    silent.def_abstract_eval(lambda x: x)
    assert types_of_results(silent, [PLAIN], {}) is PLAIN


def test_several_results() -> None:
    params = {"dimension": 1, "is_stable": True, "num_keys": 1}
    assert [x.split for x in types_of_results(sort_p, [X, PLAIN], params)] == [("x", None)] * 2


def test_a_primitive_without_a_rule_is_an_error_in_three_lines() -> None:
    silent = Primitive("silent")
    silent.def_abstract_eval(lambda x: x)
    with pytest.raises(ShardingTypeError) as caught:
        types_of_results(silent, [X], {})
    asked, wrong, remedy = str(caught.value).splitlines()
    assert asked.startswith("silent: operands float32[8@x,4] at ")
    assert wrong.startswith("sharding rule for silent is not implemented")
    assert "auto_axes(function, out_sharding=P(...))" in remedy


def test_a_result_split_twice_by_one_axis_is_an_error_in_three_lines() -> None:
    other = with_split(PLAIN, MESH, (None, "x"))
    with pytest.raises(ShardingTypeError) as caught:
        types_of_results(add_p, [X, other], {})
    asked, wrong, remedy = str(caught.value).splitlines()
    assert asked.startswith("add: operands float32[8@x,4], float32[8,4@x] at ")
    assert wrong.startswith(
        "add operation with inputs: f32[8@x,4], f32[8,4@x] produces an illegally sharded result: "
        "the type float32[8@x,4@x]"
    )
    assert "out_sharding=" in remedy


def test_programs_without_explicit_axes_have_the_types_they_always_had() -> None:
    jaxpr = kiln.make_jaxpr(lambda x: jnp.sin(x).T @ x)(np.ones((3, 2), np.float32)).jaxpr
    types = {type(v.aval) for eqn in jaxpr.eqns for v in eqn.outvars}
    assert types == {ShapedArray}


def test_operands_are_over_the_mesh_in_force() -> None:
    other = AbstractMesh((8,), ("z",), (AxisType.Explicit,))
    with override(mesh=other), pytest.raises(ValueError, match=r"context mesh .* aval mesh"):
        types_of_results(sin_p, [X], {})
    with override(mesh=AbstractMesh((4, 2), ("x", "y"))):
        assert types_of_results(sin_p, [X], {}) == PLAIN
