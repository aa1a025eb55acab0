"""With 64-bit types enabled functions give jax's values, dtypes and weak types as well."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import kiln
import kiln.lax.linalg
import kiln.nn
import kiln.numpy
import kiln.random
from kiln.base.config import override
from tests.differential.dtype_expressions import FFT, LAX, LINALG, NN, NUMPY, OF_INTEGERS
from tests.differential.expressions import case, lines
from tests.differential.oracle import Case, Topic
from tests.differential.test_numpy_ufuncs import BINARY, UNARY

WIDE = ("int64", "uint64", "float64", "complex128")
DTYPES = ("int32", "float32", "int64", "float64", "complex128")
INEXACT = ("float64", "complex128")
FAMILIES = [(NUMPY, DTYPES), (LAX, INEXACT), (NN, ("float64",)), (FFT, WIDE), (LINALG, INEXACT)]
LOOSE = 1e-10


def _elementwise() -> Iterator[str]:
    for name in UNARY:
        yield f"jnp.{name}(x(2, 3)), jnp.{name}(p(3) / 4)"
        yield f"jnp.{name}(e())"
    for name in BINARY:
        yield f"jnp.{name}(p(3), p(3, seed='y')), jnp.{name}(x(3), x(3, seed='y'))"
        yield f"jnp.{name}(x(2), 2), jnp.{name}(p(2), i(2)), jnp.{name}(p(2), f(2))"
        yield f"jnp.{name}(1.5, p(2))"


def cases() -> Iterator[Case]:
    for dtype in WIDE:
        for line in _elementwise():
            yield case("elementwise", line, LOOSE, dtype, True)
    for family, dtypes in FAMILIES:
        for group, text in family.items():
            for dtype in dtypes:
                for line in lines(text):
                    yield case(group, line, LOOSE, dtype, True)
    for line in lines(OF_INTEGERS):
        yield case("integers", line, LOOSE, "int64", True)


TOPIC = Topic("x64", cases())


@pytest.mark.parametrize("group", TOPIC.groups)
def test_as_jax_by_meaning(group: str) -> None:
    with override(engine="reference"):
        TOPIC.check(group, kiln)
