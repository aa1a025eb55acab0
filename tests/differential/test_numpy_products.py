"""Products of arrays, Einstein sums, convolutions and polynomials give jax's arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy
from tests.differential.operands import DTYPES, Make, array, plain, smooth
from tests.differential.oracle import Case, Topic

SHAPES = {
    "dot": [((3,), (3,)), ((2, 3), (3,)), ((2, 3), (3, 4)), ((2, 3), (4, 3, 2)), ((), (3,))],
    "matmul": [
        *[((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((2, 3), (3, 4))],
        *[((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)), ((5, 2, 3), (5, 3, 4))],
        *[((5, 1, 2, 3), (6, 3, 4)), ((1, 2, 3), (5, 3, 4)), ((3,), (5, 3, 4))],
        *[((2, 0), (0, 3)), ((), (3,)), ((2, 3), (4, 5)), ((2, 2, 3), (3, 3, 4))],
    ],
    "inner": [((3,), (3,)), ((2, 3), (4, 3)), ((), (3,)), ((2, 3), (4, 2))],
    "outer": [((3,), (2,)), ((2, 2), (3,)), ((), (3,))],
    "vdot": [((3,), (3,)), ((2, 3), (3, 2)), ((2,), (3,))],
    "vecdot": [((3,), (3,)), ((2, 3), (3,)), ((2, 1, 3), (4, 3)), ((2,), (3,))],
    "matvec": [((2, 3), (3,)), ((5, 2, 3), (5, 3))],
    "vecmat": [((2,), (2, 3)), ((5, 2), (5, 2, 3))],
    "kron": [((3,), (2,)), ((2, 3), (2, 2)), ((2,), (2, 3)), ((), (3,))],
    "cross": [((3,), (3,)), ((2,), (2,)), ((2,), (3,)), ((4, 3), (3,)), ((4,), (4,))],
    "convolve": [((5,), (3,)), ((3,), (5,)), ((1,), (1,)), ((2, 2), (2,))],
    "correlate": [((5,), (3,)), ((3,), (5,))],
    "polymul": [((3,), (2,))],
    "polyadd": [((3,), (2,)), ((2,), (3,))],
    "polysub": [((3,), (2,))],
    "polydiv": [((4,), (2,))],
    "polyval": [((3,), (2, 2)), ((4,), ())],
}
EINSUMS = {
    "matmul": ("ij,jk->ik", (2, 3), (3, 4)),
    "implicit": ("ij,jk", (2, 3), (3, 4)),
    "swapped": ("ij,jk->ki", (2, 3), (3, 4)),
    "batch": ("bij,bkj->bki", (2, 3, 4), (2, 5, 4)),
    "inner": ("i,i", (3,), (3,)),
    "outer": ("i,j->ij", (3,), (2,)),
    "elementwise": ("ij,ij->ij", (2, 3), (2, 3)),
    "trace": ("ii", (3, 3)),
    "diagonal": ("ii->i", (3, 3)),
    "diagonal of three": ("iii->i", (2, 2, 2)),
    "sum": ("ij->", (2, 3)),
    "sum of one axis": ("ij->j", (2, 3)),
    "transpose": ("ijk->kij", (2, 3, 4)),
    "ellipsis": ("...ij,...jk->...ik", (5, 2, 3), (5, 3, 4)),
    "ellipsis of different rank": ("...ij,jk->...ik", (5, 2, 3), (3, 4)),
    "implicit ellipsis": ("...i,...i", (4, 3), (3,)),
    "size one": ("ij,ij->i", (2, 1), (2, 3)),
    "three": ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    "four": ("ab,bc,cd,da->", (2, 3), (3, 4), (4, 5), (5, 2)),
    "three batched": ("bi,bj,bk->bijk", (2, 3), (2, 4), (2, 5)),
    "sum and product": ("ij,k->i", (2, 3), (4,)),
    "wrong size": ("ij,jk", (2, 3), (4, 5)),
    "wrong rank": ("ijk,jk", (2, 3), (3, 4)),
    "unknown output": ("ij->k", (2, 3)),
    "wrong count": ("ij,jk", (2, 3)),
}


def call(name: str, *makes: Make, **options: Any) -> Callable[[Any], Any]:
    return lambda lib: getattr(lib.numpy, name)(*[make(lib) for make in makes], **options)


def cases() -> Iterator[Case]:
    for name, pairs in SHAPES.items():
        for a, b in pairs:
            x, y = array(smooth("float32", a, "x")), array(smooth("float32", b, "y"))
            yield Case(name, f"{a},{b}", call(name, x, y))
        a, b = pairs[0]
        for dtype in DTYPES:
            if dtype == "bool" and name in ("kron", "polyadd"):
                continue
            x, y = array(smooth(dtype, a, "x")), array(smooth(dtype, b, "y"))
            yield Case(name, dtype, call(name, x, y))
            if dtype != "float32":
                yield Case(name, f"{dtype},float32", call(name, x, array(smooth("float32", b))))
        # There the reference forgets weakness.
        if name not in ("cross", "polydiv"):
            yield Case(name, "weak", lambda lib, name=name, a=a, b=b: _of_weak(lib, name, a, b))
        yield Case(name, "list", call(name, plain([1.0, 2.0]), plain([1.0, 2.0])))
    x, y = array(smooth("float32", (2, 3, 4))), array(smooth("float32", (3, 4, 5)))
    for axes in (2, 0, ([1, 2], [0, 1]), ((1,), (0,)), (1, 0), 1, 4):
        yield Case("tensordot", str(axes), call("tensordot", x, y, axes=axes))
    for name, (text, *shapes) in EINSUMS.items():
        makes = [array(smooth("float32", s, str(i))) for i, s in enumerate(shapes)]
        yield Case("einsum", name, call("einsum", plain(text), *makes))
        yield Case(
            "einsum", f"{name},unoptimized", call("einsum", plain(text), *makes, optimize=False)
        )
    for dtype in DTYPES:
        pair = (array(smooth(dtype, (2, 3))), array(smooth(dtype, (3, 2))))
        yield Case("einsum", f"{dtype}", call("einsum", plain("ij,jk->ik"), *pair))
        yield Case("einsum", f"{dtype} sum", call("einsum", plain("ij->i"), pair[0]))
    yield Case(
        "einsum",
        "lists",
        lambda lib: lib.numpy.einsum(x(lib), [0, 1, 2], y(lib), [1, 2, 3], [3, 0]),
    )
    v, w = array(smooth("float32", (5,))), array(smooth("float32", (4,)))
    for mode in ("full", "same", "valid", "wrong"):
        for name in ("convolve", "correlate"):
            yield Case(name, f"{mode}", call(name, v, w, mode=mode))
            yield Case(name, f"{mode} reversed", call(name, w, v, mode=mode))
    i = array(np.arange(4))
    for name, options in (
        ("polyder", {}),
        ("polyder", {"m": 2}),
        ("polyint", {}),
        ("polyint", {"m": 2}),
    ):
        yield Case(name, f"float {options}", call(name, v, **options))
        yield Case(name, f"int {options}", call(name, i, **options))
    yield Case("polyint", "constants", call("polyint", v, m=2, k=np.array([1.0, 2.0])))
    yield Case("poly", "zeros", call("poly", v))
    yield from fits()
    for axis in (0, 1):
        yield Case(
            "cross",
            f"axis {axis}",
            call(
                "cross",
                array(smooth("float32", (3, 3))),
                array(smooth("float32", (3, 3), "b")),
                axis=axis,
            ),
        )
    yield Case(
        "matmul",
        "preferred",
        call(
            "matmul",
            array(np.ones((2, 2), "int8")),
            array(np.ones((2, 2), "int8")),
            preferred_element_type="int32",
        ),
    )


def fits() -> Iterator[Case]:
    x = np.linspace(0, 3, 7)
    y = 1 + 2 * x - x**2 + 0.1 * np.sin(9 * x)
    w = np.array([1.0, 2, 1, 1, 0.5, 1, 1])
    near = {"tolerance": 1e-3}
    a, b, both = array(x), array(y), array(np.stack([y, x], 1))
    yield Case("polyfit", "quadratic", call("polyfit", a, b, plain(2)), **near)
    yield Case("polyfit", "weights", call("polyfit", a, b, plain(2), w=w), **near)
    yield Case("polyfit", "two", call("polyfit", a, both, plain(1)), **near)
    yield Case("polyfit", "covariance", call("polyfit", a, b, plain(2), cov=True), **near)
    yield Case("polyfit", "unscaled", call("polyfit", a, b, plain(2), cov="unscaled"), **near)
    yield Case("polyfit", "wrong", call("polyfit", a, array(y[:3]), plain(2)))
    yield Case("roots", "cubic", lambda lib: _sorted(lib, [1.0, -6, 11, -6]), 1e-3)
    yield Case("roots", "complex", lambda lib: _sorted(lib, [1.0, 0, 1]), 1e-3)
    yield Case("roots", "zeros", lambda lib: _sorted(lib, [0.0, 1, -3, 2, 0]), 1e-3)
    yield Case("roots", "constant", lambda lib: _sorted(lib, [0.0, 2.0]), 1e-3)


def _sorted(lib: Any, p: list[float]) -> Any:
    return lib.numpy.sort(lib.numpy.roots(lib.numpy.asarray(p)))


def _of_weak(lib: Any, name: str, a: tuple[int, ...], b: tuple[int, ...]) -> Any:
    return getattr(lib.numpy, name)(lib.numpy.full(a, 2.0), lib.numpy.full(b, 3.0))


TOPIC = Topic("numpy_products", cases())


@pytest.mark.parametrize("group", TOPIC.groups)
def test_as_jax(group: str) -> None:
    TOPIC.check(group, kiln)
