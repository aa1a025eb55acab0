"""Special functions that kernels compute, on operands of one shape and of a scalar."""

from __future__ import annotations

import numpy as np
import pytest

from kiln import lax
from tests.unit.engines.native.lowerings.running import assert_meaning

X = np.linspace(0.3, 9, 24, dtype=np.float32).reshape(4, 6)


@pytest.mark.parametrize("name", ["polygamma", "zeta"])
def test_functions_of_two_numbers(name: str) -> None:
    function = getattr(lax, name)
    assert_meaning(lambda x: function(x + 1.5, x), X)
    assert_meaning(lambda x: function(np.float32(2), x.T), X)
    assert_meaning(lambda x: function(x + 2, np.float32(1)) * 2, X[:, ::2])
