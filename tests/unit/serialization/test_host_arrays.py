from __future__ import annotations

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.serialization.host_arrays import host_array, place_like


def test_the_host_has_the_dtype() -> None:
    found = host_array(jnp.ones(2, jnp.bfloat16), "./a")
    assert found.dtype == jnp.bfloat16
    assert host_array(np.ones(2, ">f4"), "./a").dtype.str == "<f4"


def test_keys_are_refused() -> None:
    with pytest.raises(TypeError, match=r"at path \./a at .*\n"):
        host_array(kiln.random.key(0), "./a")


def test_only_arrays_are_placed() -> None:
    found = place_like({"a": jnp.ones(2), "n": None, "s": 1}, {"a": np.zeros(2), "n": None, "s": 2})
    assert isinstance(found["a"], kiln.Array)
    assert (found["n"], found["s"]) == (None, 2)
