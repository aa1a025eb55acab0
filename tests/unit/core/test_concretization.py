"""The error of asking a traced value for its value: what it says, and what it tells to type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kiln.base.errors import ConcretizationTypeError, TracerArrayConversionError
from kiln.core.concretization import refuse
from kiln.core.staging import stage
from kiln.ir.types import ShapedArray
from kiln.ops.elements.elementwise import add, gt

SCALAR = ShapedArray((), np.dtype(np.float32))
VECTOR = ShapedArray((3,), np.dtype(np.float32))


def message(use: Any, *avals: ShapedArray, names: tuple[str, ...] = ("x", "y", "z")) -> str:
    """Return the message of the error that `use` meets on tracers."""

    def fun(*xs: Any) -> list[Any]:
        use(*xs)
        return []

    with pytest.raises(TypeError) as caught:
        stage(fun, avals, definition="f at model.py:3", arg_names=names[: len(avals)])
    text = str(caught.value)
    assert len(text.splitlines()) == 3
    return text


def test_what_was_asked() -> None:
    text = message(lambda x: bool(gt(x, 0.0)), SCALAR)
    assert "Abstract tracer value encountered where concrete value is expected" in text
    assert "The problem arose with the `bool` function" in text
    assert "while tracing the function f at model.py:3 for jit" in text
    assert "test_concretization.py:" in text


def test_only_the_arguments_responsible_are_named() -> None:
    assert "the value of the argument y." in message(lambda x, y, z: bool(y), *[SCALAR] * 3)
    text = message(lambda x, y, z: bool(add(z, x)), *[SCALAR] * 3)
    assert "the value of the arguments x and z." in text
    paths = ("d['a'][0]",)
    assert "argument d['a'][0]" in message(lambda x: float(x), SCALAR, names=paths)


def test_scalars_may_be_made_static() -> None:
    assert "static_argnames=['x']" in message(lambda x: int(x), SCALAR)
    assert "static" not in message(lambda x: int(x), VECTOR).splitlines()[2]
    # A path is not a parameter.
    assert "static" not in message(lambda x: int(x), SCALAR, names=("x[0]",)).splitlines()[2]


def conditional(x: Any) -> Any:
    if x:
        return 1
    return 2


def loop(x: Any) -> None:
    while x:
        pass


def joined(x: Any) -> Any:
    return x and x


def indexing(x: Any) -> Any:
    return [1, 2][x]


def counting(x: Any) -> Any:
    return list(range(x))


def numpy_call(x: Any) -> Any:
    return np.linalg.norm(x)


@pytest.mark.parametrize(
    ("use", "remedy"),
    [
        (conditional, "kiln.lax.cond"),
        (loop, "kiln.lax.while_loop"),
        (joined, "kiln.numpy.logical_and"),
        (lambda x: max(x, 1), "kiln.numpy.maximum"),
        (indexing, "dynamic_slice"),
        (counting, "kiln.lax.fori_loop"),
        (numpy_call, "kiln.numpy.linalg.norm"),
        (lambda x: float(x), "to keep an array"),
    ],
)
def test_the_remedy_fits_the_line(use: Any, remedy: str) -> None:
    assert remedy in message(use, SCALAR).splitlines()[2]


def test_another_remedy_may_be_given() -> None:
    text = message(lambda x: refuse(x, "arange", "give the stop as a Python int"), SCALAR)
    assert text.splitlines()[2] == "give the stop as a Python int"


def test_classes() -> None:
    with pytest.raises(TracerArrayConversionError):
        stage(lambda x: [np.asarray(x)], [VECTOR])
    with pytest.raises(ConcretizationTypeError):
        stage(lambda x: [float(x)], [SCALAR])
