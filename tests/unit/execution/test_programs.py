"""Programs with sharded types, rewritten for engines."""

from __future__ import annotations

from typing import Any

import numpy as np

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.execution.programs import program_of, shardings_of_results, without_sharded_types
from kiln.ir.analysis.checker import check
from kiln.ir.types import ShapedArray
from kiln.sharding import AxisType, NamedSharding, P

MESH = kiln.make_mesh((4,), ("x",), axis_types=(AxisType.Explicit,))
X = kiln.device_put(np.ones((8, 4), np.float32), NamedSharding(MESH, P("x")))


def recorded(fun: Any, *args: Any) -> Any:
    return kiln.make_jaxpr(fun)(*args).jaxpr


def types_in(jaxpr: Any) -> set[type]:
    found = {type(v.aval) for v in (*jaxpr.invars, *jaxpr.outvars)}
    for eqn in jaxpr.eqns:
        found |= {type(v.aval) for v in (*eqn.invars, *eqn.outvars)}
        for value in eqn.params.values():
            if hasattr(value, "eqns"):
                found |= types_in(value)
    return found


def test_donated_inputs_are_numbered_by_those_that_remain() -> None:
    jaxpr = recorded(lambda a, b, c, d: (b + 1, d * 2), *[np.float32(i) for i in range(4)])
    program, kept = program_of(jaxpr, "f", donated=(1, 2, 3))
    assert (kept, program.donated) == ([1, 3], (0, 1))
    program, kept = program_of(jaxpr, "f", keep_unused=True, donated=(1, 2, 3))
    assert (kept, program.donated) == (None, (1, 2, 3))


def test_values_are_constrained_and_types_plain() -> None:
    plain = without_sharded_types(recorded(lambda x: jnp.sin(x) + 1, X))
    assert [eqn.primitive.name for eqn in plain.eqns] == ["sin", "reshard", "add", "reshard"]
    assert types_in(plain) == {ShapedArray}
    check(plain)


def test_programs_inside_are_rewritten_too() -> None:
    jaxpr = recorded(kiln.jit(lambda x: lax.fori_loop(0, 3, lambda i, c: jnp.sin(c), x)), X)
    plain = without_sharded_types(jaxpr)
    assert types_in(plain) == {ShapedArray}
    check(plain)


def test_a_reshard_is_a_constraint_already() -> None:
    sharding = NamedSharding(MESH, P("x"))
    jaxpr = recorded(lambda x: kiln.reshard(x, sharding), np.ones((8, 4), np.float32))
    assert [eqn.primitive.name for eqn in without_sharded_types(jaxpr).eqns] == ["reshard"]


def test_other_programs_stay_as_they_are() -> None:
    jaxpr = recorded(lambda x: jnp.sin(x), np.ones(3, np.float32))
    assert without_sharded_types(jaxpr) is jaxpr


def test_results_are_where_types_say() -> None:
    whole = NamedSharding(MESH, P())
    jaxpr = recorded(lambda x: (x + 1, x.sum(0), x), X)
    found = shardings_of_results(jaxpr, [None, None, whole], MESH)
    assert found == [NamedSharding(MESH, P("x", None)), NamedSharding(MESH, P(None)), whole]
    silent = recorded(lambda x: x + 1, np.ones(3, np.float32))
    assert shardings_of_results(silent, [None], MESH) == [NamedSharding(MESH, P(None))]
    auto = kiln.make_mesh((4,), ("x",), (AxisType.Auto,))
    assert shardings_of_results(silent, [None], auto) == [None]
    with kiln.set_mesh(auto):
        assert shardings_of_results(jaxpr, [None] * 3, MESH) == [None] * 3
