"""What a type says of Manual axes."""

from __future__ import annotations

import dataclasses

import pytest

import kiln
import kiln.numpy as jnp
from kiln.ir.shardings.manual_axes import ManualAxisType
from kiln.sharding import P


def test_a_value_of_three_sets() -> None:
    a = ManualAxisType(varying={"x"}, unreduced={"y"})
    assert a == ManualAxisType(varying=["x"], unreduced=("y",))
    assert a.reduced == frozenset()
    assert hash(a) != hash(ManualAxisType(varying={"x"}))
    with pytest.raises(dataclasses.FrozenInstanceError):
        a.varying = frozenset()  # type: ignore[misc]


def test_an_axis_is_one_thing() -> None:
    with pytest.raises(ValueError, match="varying and reduced cannot have common"):
        ManualAxisType(varying={"x"}, reduced={"x"})


def test_types_say_along_which_axes_they_vary() -> None:
    mesh = kiln.make_mesh((2,), ("x",))
    found = []

    def f(x, y):
        found.extend([x.aval.mat, y.aval.mat])
        return x + y

    kiln.shard_map(f, mesh=mesh, in_specs=(P("x"), P()), out_specs=P("x"))(
        jnp.ones(4), jnp.ones(())
    )
    assert found == [ManualAxisType(varying={"x"}), ManualAxisType()]
