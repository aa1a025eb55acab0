"""Operations on operands of several dtypes."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax


@pytest.mark.parametrize("through", [lambda f: f, kiln.jit])
def test_a_product_has_the_dtype_that_is_asked_for(through) -> None:
    x = jnp.int8([100, -3])
    found = through(lambda x, y: lax.mul(x, y, out_dtype=jnp.int32))(x, x)
    assert found.dtype == np.int32
    assert found.tolist() == [10000, 9]
    assert lax.mul(x, jnp.float16(0.5), out_dtype="float32").tolist() == [50.0, -1.5]
    # Without it, as everywhere: the dtypes are equal, and products wrap around.
    assert lax.mul(x, x).tolist() == [16, 9]
    with pytest.raises(TypeError, match="equal dtypes"):
        lax.mul(x, jnp.float16(0.5))


def test_gradients_have_the_dtypes_of_the_operands() -> None:
    def product(x, y):
        return lax.mul(x, y, out_dtype=jnp.float32)

    x, y = jnp.float16(3), jnp.bfloat16(2)
    grads = kiln.grad(product, (0, 1))(x, y)
    assert [g.dtype for g in grads] == [np.float16, jnp.bfloat16]
    assert [float(g) for g in grads] == [2, 3]
