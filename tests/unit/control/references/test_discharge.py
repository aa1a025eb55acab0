"""Programs without references: what they hold is passed along."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.control.references.discharge import discharged, writes
from kiln.core.staging import eval_jaxpr
from kiln.ir.analysis.checker import check
from kiln.ir.jaxpr import Jaxpr, has_refs, takes_refs
from kiln.ir.types import ShapedArray

ROW = ShapedArray((3,), np.dtype(np.float32))


def recorded(fun: Any, *args: Any) -> Jaxpr:
    closed = kiln.make_jaxpr(fun)(*args)
    assert not closed.consts
    return closed.jaxpr


def step(ref: Any, other: Any, x: Any) -> Any:
    local = kiln.new_ref(x)
    local[...] += other[0]
    lax.fori_loop(0, 3, lambda i, _: ref.addupdate(local[...], i), None)
    return ref[0]


@pytest.fixture
def jaxpr() -> Jaxpr:
    return recorded(step, kiln.new_ref(jnp.ones(3)), kiln.new_ref(jnp.ones(3)), 1.0)


def test_what_is_written(jaxpr: Jaxpr) -> None:
    assert writes(jaxpr) == [True, False, False]
    assert writes(jaxpr) is writes(jaxpr)
    assert has_refs(jaxpr)
    assert takes_refs(jaxpr)


def test_a_program_of_contents(jaxpr: Jaxpr) -> None:
    pure = discharged(jaxpr, (0, None, None), (ROW,))
    check(pure)
    assert not has_refs(pure)
    assert [str(aval) for aval in pure.in_avals] == [
        *("float32[3]", "bool[]", "float32[3]", "float32[]")
    ]
    x = np.arange(3, dtype=np.float32)
    after, out = eval_jaxpr(pure, (), x, False, x + 5, np.float32(1))
    assert after.tolist() == [6, 7, 8]
    assert float(out) == 6
    assert discharged(jaxpr, (0, None, None), (ROW,)) is pure


def test_references_made_inside_disappear() -> None:
    def f(x: Any) -> Any:
        ref = kiln.new_ref(x)
        ref[...] *= 2.0
        return ref[...]

    pure = discharged(recorded(f, 1.0))
    assert [eqn.primitive.name for eqn in pure.eqns] == ["mul"]


def test_what_is_not_used_remains_to_be_checked() -> None:
    def f(x: Any, i: Any) -> Any:
        ref = kiln.new_ref(x)
        ref[i]
        ref[i] = 1.0
        return ref[0]

    pure = discharged(recorded(f, jnp.ones(3), 1))
    # The write reads nothing.
    assert [eqn.primitive.name for eqn in pure.eqns].count("dynamic_slice") == 1


def test_only_what_is_written_is_carried() -> None:
    def f(x: Any, y: Any) -> Any:
        a, b = kiln.new_ref(x), kiln.new_ref(y)
        lax.fori_loop(0, 3, lambda i, _: a.addupdate(b[i], i), None)
        return a[...]

    pure = discharged(recorded(f, jnp.ones(3), jnp.ones(3)))
    (scan,) = [eqn for eqn in pure.eqns if eqn.primitive.name == "scan"]
    assert scan.params["num_carry"] == 2


def test_a_condition_that_only_reads_is_asked_as_before() -> None:
    def f(x: Any) -> Any:
        ref = kiln.new_ref(x)

        def body(i: Any) -> Any:
            ref[...] *= 2.0
            return i + 1

        return lax.while_loop(lambda i: ref[...] < 100, body, 0), ref[...]

    pure = discharged(recorded(f, 1.0))
    (loop,) = [eqn for eqn in pure.eqns if eqn.primitive.name == "while"]
    assert [str(a) for a in loop.params["cond_jaxpr"].out_avals] == ["bool[]"]
    assert len(loop.outvars) == 2
    assert [float(x) for x in f(1.0)] == [7, 128]


def test_a_condition_may_write() -> None:
    def f(x: Any) -> Any:
        ref = kiln.new_ref(x)

        def more(i: Any) -> Any:
            ref[...] += 1.0
            return ref[...] < 4

        return lax.while_loop(more, lambda i: i + 1, 0), ref[...]

    assert [float(x) for x in f(0.0)] == [3, 4]
    assert [float(x) for x in kiln.jit(f)(0.0)] == [3, 4]


def test_custom_derivatives_pass_references_on() -> None:
    ref = kiln.new_ref(0.0)

    @kiln.custom_jvp
    def f(x: Any) -> Any:
        ref[...] += 1.0
        return x * 2

    f.defjvp(lambda primals, tangents: (primals[0] * 2, tangents[0] * 3))
    assert float(f(1.0)) == 2
    assert float(kiln.jit(f)(1.0)) == 2
    assert float(ref[...]) == 2
    assert float(kiln.grad(f)(1.0)) == 3


def test_regions_that_pass_no_references_on_refuse_them() -> None:
    ref = kiln.new_ref(jnp.ones(8))
    mesh = kiln.make_mesh((1,), ("i",))
    spec = kiln.sharding.PartitionSpec("i")
    mapped = kiln.shard_map(lambda x: x + ref[0], mesh=mesh, in_specs=spec, out_specs=spec)
    with pytest.raises(NotImplementedError, match="passes no references on"):
        kiln.jit(mapped)(jnp.ones(8))


def test_references_inside_such_regions_disappear() -> None:
    mesh = kiln.make_mesh((1,), ("i",))
    spec = kiln.sharding.PartitionSpec("i")

    def f(x: Any) -> Any:
        ref = kiln.new_ref(x)
        ref[0] = 5.0
        return ref[...]

    mapped = kiln.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec)
    assert kiln.jit(mapped)(jnp.ones(3)).tolist() == [5, 1, 1]
