"""What is said of an array that cannot be used as it was."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from kiln.core.arrays import errors as array_errors
from kiln.ir.types import ShapedArray

AVAL = ShapedArray((3,), np.dtype("f4"))


@pytest.mark.parametrize(
    ("make", "kind", "phrase"),
    [
        (lambda: array_errors.deleted(AVAL), RuntimeError, "Array has been deleted"),
        (lambda: array_errors.not_scalar(AVAL, "int"), TypeError, "arr.ndim=1"),
        (lambda: array_errors.ambiguous(AVAL, 3), ValueError, "more than one element"),
        (lambda: array_errors.ambiguous(AVAL, 0), ValueError, "no element"),
        (lambda: array_errors.not_index(AVAL), TypeError, "Only integer scalar arrays"),
        (lambda: array_errors.no_item(AVAL, (5,), IndexError("far")), IndexError, "far"),
        (lambda: array_errors.immutable(AVAL), TypeError, "do not support item assignment"),
    ],
)
def test_three_lines(make: Callable[[], Exception], kind: type[Exception], phrase: str) -> None:
    error = make()
    what, wrong, instead = str(error).splitlines()
    assert type(error) is kind
    assert "float32[3]" in what and phrase in wrong and instead
