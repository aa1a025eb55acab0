"""Generators of random bits, by each algorithm and of each type."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.engines.xla.raising.modules import check, jaxpr_of, stored

STATE = np.uint64([12345, 2**63 + 7])


@pytest.mark.parametrize("algorithm", ["DEFAULT", "THREE_FRY", "PHILOX"])
@pytest.mark.parametrize("kind", ["ui32", "ui64", "ui8"])
def test_bits(algorithm, kind):
    out = f"tensor<5x3x{kind}>"
    program = stored(
        "%s: tensor<2xui64>",
        f"tensor<2xui64>, {out}",
        f"%a, %b = stablehlo.rng_bit_generator %s, algorithm = {algorithm} : (tensor<2xui64>) -> "
        f"(tensor<2xui64>, {out}) return %a, %b : tensor<2xui64>, {out}",
    )
    check(program, STATE)


@pytest.mark.parametrize("distribution", ["NORMAL", "UNIFORM"])
def test_generators_with_a_hidden_state(distribution):
    program = stored(
        "%a: tensor<f32>, %b: tensor<f32>",
        "tensor<4xf32>",
        "%n = stablehlo.constant dense<4> : tensor<1xi64> "
        f"%r = stablehlo.rng %a, %b, %n, distribution = {distribution} : (tensor<f32>, "
        "tensor<f32>, tensor<1xi64>) -> tensor<4xf32> return %r : tensor<4xf32>",
    )
    if distribution == "UNIFORM":
        assert jaxpr_of(program).eqns[-1].primitive.name == "rng_uniform"
    else:
        with pytest.raises(NotImplementedError, match=r"stablehlo\.rng of type float32\[4\]"):
            jaxpr_of(program)
