"""Choosing where a program runs, and keeping one way of running it per choice."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import override
from kiln.core.staging import stage
from kiln.execution import compilation
from kiln.execution.placement import PlacementRequest, Placer, constraints_in, is_placed
from kiln.ir.shardings.mesh import Mesh, PartitionSpec
from kiln.ir.shardings.sharding import NamedSharding
from kiln.ir.types import ShapedArray
from kiln.ops.sharding import with_sharding_constraint

DEVICES = kiln.devices()
MESH = Mesh(np.array(DEVICES), "x")
ROWS = NamedSharding(MESH, PartitionSpec("x"))
WHOLE = NamedSharding(MESH, PartitionSpec())
F32 = ShapedArray((8,), np.dtype(np.float32))
ONES = np.ones(8, np.float32)


def placer(fun=lambda x, y: [x + y], count=2, **settings) -> Placer:
    jaxpr, _ = stage(fun, [F32] * count, name="f", arg_names=["x", "y"][:count])
    return Placer(jaxpr, "f", **settings)


def at(i):
    return kiln.device_put(jnp.ones(8), DEVICES[i])


def test_the_first_device_by_default() -> None:
    found = placer()
    assert found.is_plain and found.place([None, None]) is None
    (out,) = found.run([jnp.ones(8), ONES])
    assert not is_placed([out])
    np.testing.assert_array_equal(out, 2 * ONES)


def test_arguments_decide() -> None:
    found = placer()
    for i in (0, 3):
        (out,) = found.run([at(i), jnp.ones(8)])
        assert out.devices() == {DEVICES[i]} and is_placed([out])
    (out,) = found.run([jnp.ones(8), kiln.device_put(jnp.ones(8), ROWS)])
    assert out.sharding == ROWS
    assert found.place([ROWS, None]).in_shardings == (ROWS, WHOLE)


def test_arguments_must_agree() -> None:
    with pytest.raises(ValueError, match=r"argument x of f .*ids \[1\].*argument y .*\[2\]"):
        placer().run([at(1), at(2)])


def test_unused_arguments_may_be_anywhere() -> None:
    (out,) = placer(lambda x, y: [x * 2]).run([at(1), at(2)])
    assert out.devices() == {DEVICES[1]}


def test_requests_decide() -> None:
    assert placer(request=PlacementRequest(device=DEVICES[4])).place([None, ROWS]).devices == (
        DEVICES[4],
    )
    found = placer(request=PlacementRequest(out_shardings=(ROWS,)))
    assert not found.is_plain
    (out,) = found.run([jnp.ones(8), ONES])
    assert out.sharding == ROWS and out.committed


def test_constraints_inside_decide() -> None:
    found = placer(lambda x, y: kiln.jit(lambda v: [with_sharding_constraint(v + y, ROWS)])(x))
    assert constraints_in(found.jaxpr) == (ROWS,) and not found.is_plain
    (out,) = found.run([jnp.ones(8), ONES])
    assert out.sharding == ROWS
    with pytest.raises(ValueError, match="sharding_constraint inside jit"):
        found.run([at(0), jnp.ones(8)])


def test_the_default_device_decides_last() -> None:
    found = placer()
    with override(default_device=DEVICES[5]):
        (out,) = found.run([jnp.ones(8), ONES])
        assert out.devices() == {DEVICES[5]} and not out.committed
        (out,) = found.run([at(1), ONES])
        assert out.devices() == {DEVICES[1]} and out.committed


def test_each_choice_is_compiled_once() -> None:
    names = []
    stop = compilation.on_compile(lambda name, seconds: names.append(name))
    try:
        found = placer(lambda x, y: [x * 3 - y])
        for _ in range(3):
            for i in (1, 2):
                found.run([at(i), ONES])
    finally:
        stop()
    assert names.count("f") == 2


def test_the_reference_engine_knows_no_places() -> None:
    x, y = at(1), at(2)
    with override(engine="reference"):
        (out,) = placer(request=PlacementRequest(out_shardings=(ROWS,))).run([x, y])
    np.testing.assert_array_equal(out, 2 * ONES)


def test_arguments_copied_to_their_place_are_not_given_away() -> None:
    found = placer(request=PlacementRequest(donated=(0,), in_shardings=(ROWS, None)))
    here, there = jnp.ones(8) + 0, kiln.device_put(jnp.ones(8), ROWS)
    found.run([here, ONES])
    found.run([there, ONES])
    assert (here.is_deleted(), there.is_deleted()) == (False, True)


SPECS = [("x", None), ("x", "y"), (("x", "y"),), ("y", "x"), (None, ("y", "x"))]


@pytest.mark.parametrize("number", range(len(SPECS)))
def test_a_result_as_an_argument_needs_no_other_program(number: int) -> None:
    """Axes of size 1 and entries that shard nothing are in no specification of a result."""
    mesh = Mesh(np.array(DEVICES)[:, None], ("x", "y"))
    place = NamedSharding(mesh, PartitionSpec(*SPECS[number]))
    x = kiln.device_put(np.ones((8, 8), np.float32), place)

    # The number, because equal functions share their programs.
    def step(x):
        return x * 2 - x.sum(0) - number

    step = kiln.jit(step)
    first = step(x)
    second = step(first)
    assert second.sharding.is_equivalent_to(x.sharding, 2)
    assert step.cache_info().executables == 1
    assert np.array_equal(second, step(step(np.ones((8, 8), np.float32))))
