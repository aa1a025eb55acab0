"""Questions about dtypes are asked of dtypes and of what has one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.dtypes import questions as asked

OF_FLOAT16 = [
    "float16",
    np.float16,
    jnp.float16,
    np.dtype("float16"),
    np.ones(2, "float16"),
    np.float16(1),
    jnp.ones(2, "float16"),
    kiln.ShapeDtypeStruct((2,), "float16"),
]


@pytest.mark.parametrize("x", OF_FLOAT16, ids=lambda x: type(x).__name__)
def test_what_has_a_dtype_stands_for_it(x: Any) -> None:
    assert asked.kind_of(x) == np.float16
    assert asked.issubdtype(x, np.floating)
    assert not asked.issubdtype(x, np.integer)
    assert asked.issubdtype("float16", x)
    assert asked.finfo(x).max == np.finfo(np.float16).max
    assert asked.can_cast(x, "float32")
    assert not asked.can_cast("float32", x)


def test_tracers_have_dtypes() -> None:
    @kiln.jit
    def f(x: Any) -> Any:
        assert jnp.issubdtype(x, jnp.floating)
        return x * jnp.finfo(x).eps

    f(jnp.ones(2))


def test_a_python_int_is_an_int64_and_none_is_float64() -> None:
    assert asked.iinfo(1).max == 2**63 - 1
    assert asked.issubdtype(None, np.float64)
    with pytest.raises(TypeError, match="None is not a dtype"):
        asked.can_cast(None, "int32")


def test_an_array_is_no_dtype_to_make_another_of() -> None:
    with pytest.raises(TypeError, match=r"x\.dtype"):
        jnp.zeros(2, jnp.ones(2))
