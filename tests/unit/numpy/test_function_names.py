"""Functions say the names by which users call them, so that pickles and generated names agree."""

from __future__ import annotations

import pickle
from types import FunctionType, ModuleType

import pytest

import kiln.numpy as jnp
from kiln import lax
from kiln._runtime import EagerFunction

FUNCTIONS = (FunctionType, EagerFunction)


def functions(module: ModuleType) -> list[str]:
    """Return the public names of a module's functions."""
    names = [name for name in dir(module) if not name.startswith("_")]
    return [name for name in names if isinstance(getattr(module, name), FUNCTIONS)]


@pytest.mark.parametrize("module", [jnp, lax])
def test_functions_have_the_names_of_their_attributes(module: ModuleType) -> None:
    other = {name: getattr(module, name).__name__ for name in functions(module)}
    assert {name: said for name, said in other.items() if name != said} == {}


@pytest.mark.parametrize("name", ["abs", "pow", "acos", "amax", "bitwise_invert", "radians"])
def test_functions_of_two_names_are_pickled_by_theirs(name: str) -> None:
    fun = getattr(jnp, name)
    assert pickle.loads(pickle.dumps(fun)) is fun


def test_functions_of_bits_are_pickled() -> None:
    for fun in (lax.bitwise_and, lax.bitwise_or, lax.bitwise_xor, lax.bitwise_not):
        assert pickle.loads(pickle.dumps(fun)) is fun
