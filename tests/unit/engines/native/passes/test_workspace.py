"""What is read while another value is written shares no memory with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import override
from tests.unit.engines.native.passes.agreement import agree, numbers

CHAINS: dict[str, Any] = {
    "kernels": lambda x: jnp.cumsum(jnp.cumsum(jnp.cumsum(x)[::-1])[::-1])[::-1],
    "nests": lambda x: jnp.sort(jnp.sort(jnp.sort(x)[::-1] * 3 % 7)[::-1] * 5 % 11)[::-1],
}


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("is_named", [False, True])
def test_each_value_of_a_chain_is_read_in_another_order(name: str, is_named: bool) -> None:
    if not is_named:
        agree(CHAINS[name], (numbers(40),))
        return
    f = kiln.jit(lambda x: CHAINS[name](x), abstracted_axes=({0: "n"},))
    for n in (5, 40):
        with override(engine="reference"):
            expected = kiln.jit(CHAINS[name])(numbers(n))
        with override(engine="native", check=True):
            np.testing.assert_array_equal(f(numbers(n)), expected)
