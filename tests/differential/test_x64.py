"""With 64-bit types enabled functions give jax's values, dtypes and weak types as well."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import kiln
import kiln.lax.linalg
import kiln.nn
import kiln.numpy
import kiln.random
from kiln.base.options.config import override
from tests.differential.dtype_expressions import FFT, LAX, LINALG, NN, NUMPY, OF_INTEGERS, lines_for
from tests.differential.expressions import case
from tests.differential.oracle import Case, Topic
from tests.differential.test_numpy_ufuncs import BINARY, UNARY

WIDE = ("int64", "uint64", "float64", "complex128")
DTYPES = ("int32", "float32", "int64", "float64", "complex128")
INEXACT = ("float64", "complex128")
FAMILIES = [(NUMPY, DTYPES), (LAX, INEXACT), (NN, ("float64",)), (FFT, WIDE), (LINALG, INEXACT)]
LOOSE = 1e-10
# Attention's softmax has 32 bits.
NARROWER = {"nn": 1e-6}


def _elementwise() -> Iterator[str]:
    for name in UNARY:
        yield f"jnp.{name}(x(2, 3)), jnp.{name}(p(3) / 4)"
        yield f"jnp.{name}(e())"
    for name in BINARY:
        yield f"jnp.{name}(p(3), p(3, seed='y'))"
        yield f"jnp.{name}(x(3), x(3, seed='y'))"
        yield f"jnp.{name}(x(2), 2), jnp.{name}(p(2), f(2)), jnp.{name}(p(2), abs(i(2)))"
        yield f"jnp.{name}(1.5, p(2))"


def cases() -> Iterator[Case]:
    for dtype in WIDE:
        for line in lines_for("\n".join(_elementwise()), dtype):
            yield case("elementwise", line, LOOSE, dtype, True, jit=False)
    for family, dtypes in FAMILIES:
        for group, text in family.items():
            for dtype in dtypes:
                for line in lines_for(text, dtype):
                    jit = family is LAX or family is NN
                    yield case(group, line, NARROWER.get(group, LOOSE), dtype, True, jit)
    for line in lines_for(OF_INTEGERS, "int64"):
        yield case("integers", line, LOOSE, "int64", True)


TOPIC = Topic("x64", cases())


@pytest.mark.parametrize("group", TOPIC.groups)
def test_as_jax_by_meaning(group: str) -> None:
    with override(engine="reference"):
        TOPIC.check(group, kiln)
