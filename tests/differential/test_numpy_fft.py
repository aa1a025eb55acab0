"""Fourier transforms give jax's values, dtypes and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy
from tests.differential.operands import DTYPES, array, operands, plain, smooth
from tests.differential.oracle import Case, Topic

ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
TWO = ("fft2", "ifft2", "rfft2", "irfft2")
SEVERAL = ("fftn", "ifftn", "rfftn", "irfftn")
NORMS = ("backward", "ortho", "forward", "wrong")


def call(name: str, *makes: Any, **options: Any) -> Callable[[Any], Any]:
    return lambda lib: getattr(lib.numpy.fft, name)(*operands(lib, makes), **options)


def cases() -> Iterator[Case]:
    small, cube = array(smooth("float32", (3, 4))), array(smooth("float32", (2, 3, 4)))
    for name in ONE:
        for dtype in DTYPES:
            yield Case(name, dtype, call(name, array(smooth(dtype, (3, 4)))))
        for n in (1, 2, 3, 5, 7, 0, -1):
            yield Case(name, f"n={n}", call(name, small, n))
        yield Case(name, "axis 0", call(name, small, axis=0))
        yield Case(name, "axes", call(name, small, axis=(0, 1)))
        yield Case(name, "empty", call(name, array(np.zeros((3, 0), np.float32))))
        yield Case(name, "one", call(name, array(np.ones((3, 1), np.float32))))
        yield Case(name, "weak", lambda lib, name=name: _of_weak(lib, name))
        if name != "ihfft":
            # There the reference takes lists for ihfft alone.
            yield Case(name, "list", call(name, plain([1.0, 2.0])))
        for norm in NORMS:
            yield Case(name, norm, call(name, small, norm=norm))
    for name in TWO:
        for norm in NORMS:
            yield Case(name, norm, call(name, cube, norm=norm))
        yield Case(name, "s", call(name, cube, (5, 2)))
        yield Case(name, "axes", call(name, cube, axes=(0, 1)))
        yield Case(name, "three axes", call(name, cube, axes=(0, 1, 2)))
        yield Case(name, "repeated", call(name, cube, axes=(1, 1)))
    for name in SEVERAL:
        for norm in NORMS:
            yield Case(name, norm, call(name, cube, norm=norm))
        yield Case(name, "s", call(name, cube, (5, 2)))
        yield Case(name, "permuted", call(name, cube, (5, 6), (2, 0)))
        yield Case(name, "one axis", call(name, cube, (5,), (1,)))
        yield Case(name, "no axes", call(name, cube, axes=()))
        yield Case(name, "unequal", call(name, cube, (2,), (0, 1)))
        yield Case(name, "scalar", call(name, plain(np.float32(2))))
        yield Case(name, "four", call(name, array(smooth("float32", (2, 3, 2, 4)))))
        yield Case(name, "five", call(name, array(smooth("complex64", (2, 3, 2, 2, 3)).real)))
        yield Case(name, "complex", call(name, array(smooth("complex64", (3, 4)))))
    for name in ("fftfreq", "rfftfreq"):
        for n in (4, 5, 1):
            for d in (1.0, 0.1, 2, np.float64(0.1)):
                yield Case(name, f"{n},{d!r}", call(name, plain(n), plain(d)))
        for dtype in ("float16", "float32", "int32", "complex64"):
            yield Case(name, dtype, call(name, plain(4), dtype=dtype))
        yield Case(name, "list", call(name, plain(4), plain([0.1])))
        yield Case(name, "tuple", call(name, plain((4,))))
    for name in ("fftshift", "ifftshift"):
        for shape in ((5,), (4,), (2, 3), (3, 4, 5)):
            yield Case(name, str(shape), call(name, array(smooth("int32", shape))))
        for axes in (1, (0,), (0, 1), -1):
            yield Case(name, f"axes {axes}", call(name, small, axes))
        yield Case(name, "list", call(name, plain([1, 2])))


def _of_weak(lib: Any, name: str) -> Any:
    return getattr(lib.numpy.fft, name)(lib.numpy.full((4,), 2.0))


TOPIC = Topic("numpy_fft", cases())


@pytest.mark.parametrize("group", TOPIC.groups)
def test_as_jax(group: str) -> None:
    TOPIC.check(group, kiln)
