"""Scopes: variables under a path, names in use, draws, and when a scope ends."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.linen import errors
from kiln.linen.frozen_dict import freeze
from kiln.linen.metadata import Partitioned
from kiln.linen.scopes.rng import FoldedKeys
from kiln.linen.scopes.scope import Scope

KEYS = FoldedKeys({"params": kiln.random.key(0)})
VARIABLES = {"params": {"a": {"w": np.float32(1)}}, "stats": {"a": {"m": np.float32(2)}}}


def test_reading_follows_the_path():
    scope = Scope.root(VARIABLES, KEYS)
    inner = scope.push("a")
    assert inner.path == ("a",)
    assert inner.path_text == "/a"
    assert inner.get_variable("stats", "m") == 2
    assert inner.get_variable("stats", "other", 5) == 5
    assert inner.has_variable("params", "w")
    assert not scope.push("b").has_variable("params", "w")
    assert inner.variables() == {"params": {"w": 1}, "stats": {"m": 2}}
    assert Scope.root(freeze(VARIABLES), KEYS).push("a").get_variable("params", "w") == 1


def test_writing_leaves_what_was_given_alone():
    given = freeze(VARIABLES)
    scope = Scope.root(given, KEYS, mutable="stats")
    scope.push("a").put_variable("stats", "m", 7)
    scope.push("b").put_variable("stats", "n", 8)
    assert scope.mutable_variables() == {"stats": {"a": {"m": 7}, "b": {"n": 8}}}
    assert given == VARIABLES
    with pytest.raises(errors.ModifyScopeVariableError, match="params"):
        scope.put_variable("params", "w", 1)


def test_names_are_taken_by_submodules_or_within_a_collection():
    scope = Scope.root({}, KEYS, mutable=True)
    scope.push("a")
    scope.variable("x", "v", lambda: 1)
    scope.variable("y", "v", lambda: 1)
    for taken in (lambda: scope.push("a"), lambda: scope.push("v"), lambda: scope.reserve("v")):
        with pytest.raises(errors.NameInUseError):
            taken()
    with pytest.raises(errors.NameInUseError):
        scope.variable("y", "v", lambda: 1)
    scope.push("a", reuse=True)
    assert scope.default_name("a") == "a_0"
    scope.push("a_0")
    assert scope.default_name("a") == "a_1"
    assert not scope.rewound().name_reserved("a")


def test_draws_go_on_when_names_start_again():
    scope = Scope.root({}, KEYS)
    inner = scope.push("a")

    def drawn(scope):
        return kiln.random.key_data(scope.make_rng()).tolist()

    first = [drawn(scope), drawn(inner)]
    again = scope.rewound()
    assert drawn(again) not in first
    assert drawn(again.push("a")) not in first
    anew = scope.rewound(rewind_rngs=True)
    assert [drawn(anew), drawn(anew.push("a"))] == first


def test_a_scope_ends_with_its_application():
    scope = Scope.root({}, KEYS, mutable=True)
    inner = scope.push("a")
    scope.invalidate()
    for use in (lambda: inner.push("b"), inner.make_rng, lambda: inner.put_variable("a", "b", 1)):
        with pytest.raises(errors.InvalidScopeError):
            use()


def test_variables_are_made_read_and_written():
    scope = Scope.root({}, KEYS, mutable=True)
    variable = scope.variable("stats", "n", jnp.zeros, (2,))
    variable.value += 1
    assert variable.is_mutable()
    assert scope.get_variable("stats", "n").tolist() == [1, 1]
    assert repr(variable) == "Variable(stats: n)"
    with pytest.raises(errors.ScopeCollectionNotFound):
        Scope.root({}, KEYS).variable("stats", "n", jnp.zeros, (2,))
    with pytest.raises(errors.ScopeVariableNotFoundError):
        Scope.root({"stats": {"m": 1}}, KEYS).variable("stats", "n", jnp.zeros, (2,))


def test_boxes_are_opened_and_kept():
    scope = Scope.root({}, KEYS, mutable=True)
    made = scope.param("w", lambda key: Partitioned(jnp.ones(3), ("x",)))
    assert made.shape == (3,)
    assert isinstance(scope.get_variable("params", "w"), Partitioned)
    variable = scope.variable("stats", "n", lambda: Partitioned(jnp.ones(3), ("x",)))
    variable.value += 1
    box = scope.get_variable("stats", "n")
    assert box.names == ("x",)
    assert box.value.tolist() == [2, 2, 2]
    kept = scope.rewound().param("w", lambda key: jnp.ones(3), unbox=False)
    assert isinstance(kept, Partitioned)


def test_boxes_are_given_as_they_are_where_that_is_asked():
    scope = Scope.root({}, KEYS, mutable=True)
    closed = scope.variable("stats", "n", lambda: Partitioned(jnp.ones(3), ("x",)), unbox=False)
    assert closed.value.names == ("x",)
    closed.value = Partitioned(jnp.zeros(2), ("y",))
    assert scope.get_variable("stats", "n").names == ("y",)


def test_a_box_replaces_another():
    scope = Scope.root({}, KEYS, mutable=True)
    variable = scope.variable("stats", "n", lambda: Partitioned(jnp.ones(3), ("x",)))
    variable.value = Partitioned(jnp.zeros(2), ("y",))
    box = scope.get_variable("stats", "n")
    assert box.names == ("y",)
    assert box.value.tolist() == variable.value.tolist() == [0, 0]


def test_parameters_that_are_there_are_opened():
    given = {"params": {"w": Partitioned(jnp.ones(3), ("x",))}}
    for unbox in (True, False):
        found = Scope.root(given, KEYS).param("w", lambda key: jnp.zeros(3), unbox=unbox)
        assert isinstance(found, Partitioned) is not unbox


def test_shapes_are_those_of_the_initializer():
    scope = Scope.root({"params": {"w": jnp.ones((2, 3))}}, KEYS)

    def made(key, shape):
        return jnp.zeros(shape)

    scope.param("w", made, (2, 3))
    for _ in range(2):
        with pytest.raises(errors.ScopeParamShapeError, match=r"\(2, 4\)"):
            scope.rewound().param("w", made, (2, 4))
    with pytest.raises(errors.ScopeParamShapeError):
        scope.rewound().param("w", lambda key: jnp.zeros(()))
