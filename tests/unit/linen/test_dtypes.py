"""What dtype a layer computes in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln.numpy as jnp
from kiln.linen.dtypes import canonicalize_dtype, promote_dtype


@pytest.mark.parametrize(
    ("args", "dtype"),
    [
        ((None, np.int32(1)), np.float32),
        ((1,), np.float32),
        ((1j,), np.complex64),
        ((jnp.bfloat16(1), 2.5), jnp.bfloat16),
        ((jnp.bfloat16(1), np.float32(1)), np.float32),
        (([1, 2.5],), np.float32),
    ],
)
def test_what_arrays_promote_to(args: Any, dtype: Any) -> None:
    assert canonicalize_dtype(*args) == dtype
    assert all(x is None or x.dtype == dtype for x in promote_dtype(*args))


def test_the_dtype_asked_for() -> None:
    assert canonicalize_dtype(1.5, dtype=jnp.bfloat16) == jnp.bfloat16
    assert canonicalize_dtype(np.ones(3, bool), inexact=False) == np.bool_
    assert canonicalize_dtype(1, dtype=jnp.int32, inexact=False) == np.int32
    assert [x.dtype for x in promote_dtype(1, 2.5, dtype=jnp.float16)] == [jnp.float16] * 2


def test_a_dtype_without_fractions() -> None:
    with pytest.raises(ValueError, match="Dtype must be inexact") as caught:
        canonicalize_dtype(1, dtype=jnp.int32)
    assert str(caught.value).count("\n") == 2
