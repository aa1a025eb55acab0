"""The numbers of convolutions."""

from __future__ import annotations

from typing import Any

import pytest

from kiln.engines.native.loop_ir.convolutions import is_first, last, window_of
from kiln.engines.native.loop_ir.statements import Buffer, Kernel, Place, Role
from kiln.ir.sizes.size import as_dim

SIZES = [2, 6, 9, 8, *(7, 3, 5, 2), *(2, 8, 9, 7)]
SPECS = [0, 1, 2, 3, *(0, 1, 2, 3), *(0, 3, 1, 2)]


def kernel(symbol: str, *numbers: int) -> Kernel:
    """Return a kernel with these numbers."""
    places = [Place(Buffer(name, "f32", 1 << 10, Role.TEMP)) for name in "abc"]
    return Kernel(symbol, places[:2], places[2:], tuple(map(as_dim, numbers)))


@pytest.mark.parametrize("holes", [1, 2])
def test_what_numbers_mean(holes: int) -> None:
    rest = [1, 2, 1, 1, 1, 0, holes, 2]
    numbers = [2, 2, 1, *SIZES, *SPECS, *rest]
    window = window_of(kernel("kiln_conv_f64", *numbers))
    assert window is not None
    assert window.numbers == numbers
    assert (window.feature_groups, window.batch_groups) == (2, 1)
    assert (window.operand, window.kernel, window.result) == (
        (2, 6, 9, 8),
        (7, 3, 5, 2),
        (2, 8, 9, 7),
    )
    assert (window.taps, window.terms, window.features) == (10, 30, 7)
    assert window.has_holes == (holes == 2)
    assert is_first(window.operand_spec)
    assert not is_first(window.result_spec)
    assert window.result_spec == last(4)


def test_other_kernels() -> None:
    assert window_of(kernel("kiln_conv_i32", 2, 1, 1, *SIZES, *SPECS, *[1] * 8)) is None
    assert window_of(kernel("kiln_gemm_f32", 1, 4, 5, 6, 0, 0, 24, 30, 20, 0)) is None


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, True),
        ({"result_spec": (0, 1, 2, 3), "result": (2, 7, 8, 9)}, False),
        ({"result_spec": (0, 1, 2, 3), "result": (2, 7, 8, 9), "operand_spec": (0, 3, 1, 2)}, True),
        ({"kernel": (4, 3, 5, 2)}, False),
        ({"kernel": (30, 13, 5, 2), "result_spec": (0, 1, 2, 3), "result": (2, 30, 8, 9)}, True),
        ({"kernel": (30, 13, 5, 2), "result_spec": (0, 1, 2, 3), "result": (2, 30, 9, 3)}, False),
        ({"kernel": (9, 30, 1, 1)}, False),
        ({"kernel": (9, 6, 9, 9)}, False),
        ({"batch_groups": 2}, False),
        ({"feature_groups": 2}, False),
        ({"rest": (1, 2, 2, 1, 1, 0, 1, 2)}, False),
    ],
)
def test_which_are_computed_line_by_line(changes: dict[str, Any], expected: bool) -> None:
    numbers = [2, 1, 1, *SIZES, *SPECS, *[1, 2, 1, 1, 1, 0, 1, 2]]
    window = window_of(kernel("kiln_conv_packed_f32", *numbers))
    assert window is not None
    window = window._replace(kernel=(9, 3, 5, 2))
    assert window._replace(**changes).has_lines == expected
