"""Functions give jax's values, dtypes and weak types for operands of each dtype."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import kiln
import kiln.lax.linalg
import kiln.nn
import kiln.numpy
import kiln.random
from kiln.base.options.config import override
from tests.differential.dtype_expressions import FFT, LAX, LINALG, NN, NUMPY, lines_for
from tests.differential.expressions import case
from tests.differential.oracle import Case, Topic

# The files about single families ask for float32 and int32.
DTYPES = ("bool", "int8", "uint32", "bfloat16", "complex64")
NARROW = ("float16", "bfloat16")
FAMILIES = [(NUMPY, DTYPES), (LAX, DTYPES), (NN, NARROW), (FFT, DTYPES)]
FAMILIES += [(LINALG, ("float32", "complex64"))]
# 16-bit floats are rounded in another order.
LOOSE = {"float16": 8e-3, "bfloat16": 5e-2, "float32": 1e-4, "complex64": 1e-4}


def cases() -> Iterator[Case]:
    for family, dtypes in FAMILIES:
        for group, text in family.items():
            for dtype in dtypes:
                for line in lines_for(text, dtype):
                    if dtype == "bfloat16" and "array_str" in line:
                        continue  # how it looks depends on the version of NumPy
                    # Functions of numpy come without jit: the topics about them ask with it.
                    jit = family is LAX or family is NN
                    yield case(group, line, LOOSE.get(dtype), dtype, jit=jit)


TOPIC = Topic("dtypes", cases())


@pytest.mark.parametrize("group", TOPIC.groups)
def test_as_jax_by_meaning(group: str) -> None:
    with override(engine="reference"):
        TOPIC.check(group, kiln)
