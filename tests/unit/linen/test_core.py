"""Functions of scopes, and scopes as parents of modules."""

from __future__ import annotations

import pytest

import kiln
import kiln.linen as nn
import kiln.numpy as jnp
from kiln.linen import core

KEY = kiln.random.key(0)


def _scaled(scope, x):
    scope.variable("state", "calls", lambda: 0).value += 1
    return x * scope.param("scale", nn.initializers.ones, (3,))


def test_init_and_apply_of_functions():
    y, variables = core.init(_scaled)(KEY, jnp.arange(3.0))
    assert variables["state"] == {"calls": 1} and list(y) == [0.0, 1.0, 2.0]
    y, updates = core.apply(_scaled, mutable=["state"])(variables, jnp.ones(3))
    assert updates == {"state": {"calls": 2}} and list(y) == [1.0, 1.0, 1.0]
    with pytest.raises(nn.errors.ModifyScopeVariableError):
        core.apply(_scaled)(variables, jnp.ones(3))


def test_scopes_end():
    with pytest.raises(nn.errors.InvalidScopeError):
        core.init(lambda scope: scope)(KEY)[0].push("x")


def test_lazy_init_of_functions():
    shapes = core.lazy_init(lambda scope, x: scope.param("w", nn.initializers.ones, x.shape))
    assert shapes(KEY, kiln.ShapeDtypeStruct((2, 3), jnp.float32))["params"]["w"].shape == (2, 3)


@pytest.mark.parametrize(
    ("variables", "error"),
    [
        ([], nn.errors.ApplyScopeInvalidVariablesTypeError),
        ({1: {}}, nn.errors.ApplyScopeInvalidVariablesTypeError),
        ({"params": {"params": {}}}, nn.errors.ApplyScopeInvalidVariablesStructureError),
    ],
)
def test_wrong_variables(variables, error):
    with pytest.raises(error):
        core.bind(variables)


def test_a_scope_as_the_parent_of_a_module():
    scope = core.Scope({}, {"params": KEY}, mutable=["params"])
    y = nn.Dense(4, parent=scope)(jnp.ones((2, 3)))
    wanted, variables = nn.Dense(4).init_with_output(KEY, jnp.ones((2, 3)))
    assert jnp.array_equal(y, wanted)
    assert kiln.tree.structure(scope.variables()) == kiln.tree.structure(variables)
    assert core.Scope({}, name="outer").path == core.Scope({}, path=["outer"]).path == ("outer",)
