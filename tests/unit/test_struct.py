from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import struct


@struct.dataclass
class Model:
    params: Any
    steps: int = struct.field(pytree_node=False, default=3)

    def total(self):
        return self.params["w"].sum() * self.steps


class State(struct.PyTreeNode):
    x: Any
    name: str = struct.field(default="", pytree_node=False, metadata={"unit": "m"})
    y: Any = 2.0


def test_fields_are_leaves_unless_said_otherwise() -> None:
    model = Model({"w": jnp.ones(2)})
    ((path, _),) = kiln.tree.leaves_with_path(model)
    assert kiln.tree_util.keystr(path) == ".params['w']"
    assert float(kiln.jit(lambda m: m.total())(model)) == 6.0
    assert kiln.tree.structure(model) != kiln.tree.structure(model.replace(steps=4))


def test_replace_and_frozen() -> None:
    state = State(1)
    assert state.replace(x=3) == State(3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        state.x = 4
    assert dataclasses.fields(State)[1].metadata["unit"] == "m"


def test_gradients_have_the_structure_of_the_class() -> None:
    grads = kiln.grad(lambda s: (s.x * s.y).sum())(State(jnp.arange(3.0), "n", jnp.ones(3)))
    assert isinstance(grads, State)
    assert grads.name == "n"
    np.testing.assert_array_equal(np.asarray(grads.y), [0.0, 1.0, 2.0])


def test_subclasses_add_fields() -> None:
    class More(State):
        z: Any = 1

    assert len(kiln.tree.leaves(More(1))) == 3
    assert struct.dataclass(More) is More


def test_options_of_dataclass() -> None:
    class Keyed(struct.PyTreeNode, kw_only=True):
        a: Any = 1
        b: Any

    assert Keyed(b=2).replace(a=5) == Keyed(a=5, b=2)

    @struct.dataclass(frozen=False)
    class Loose:
        a: Any

    loose = Loose(1)
    loose.a = 2
    assert loose.a == 2


def test_a_field_that_the_constructor_does_not_take() -> None:
    @struct.dataclass
    class Derived:
        a: Any
        b: Any = struct.field(init=False, default=7)

    again = kiln.tree.map(lambda x: x + 1, Derived(1))
    assert (again.a, again.b) == (2, 7)
