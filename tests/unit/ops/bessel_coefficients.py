"""Write the series of scaled Bessel functions: `python -m tests.unit.ops.bessel_coefficients`.

exp(-x) I0(x) and exp(-x) I1(x) are interpolated, with 60 digits, on intervals where they change by
less than their own size, so that nearly all of a sum is its first term.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import mpmath as mp

import kiln
from tests.unit.scipy.special.coefficients import DIGITS, of_inverse, series

SOURCE = Path(kiln.__file__).parent
ENDS = (0.0, 1.0, 3.0, 8.0)


def scaled(order: int, x: Any) -> Any:
    return mp.besseli(order, x) * mp.exp(-x)


def pieces(order: int) -> list[list[float]]:
    """Return the coefficients on the intervals of ENDS, then those beyond.

    The first interval of order 1 has those of the function divided by x, the last of both orders
    those of the function times sqrt(x), by 1/x.
    """

    def near(x: Any) -> Any:
        if order == 0:
            return scaled(0, x)
        return scaled(1, x) / x if x else mp.mpf(1) / 2

    found = []
    with mp.workdps(DIGITS):
        for low, high in itertools.pairwise(ENDS):
            found.append(series(near if low == 0 else lambda x: scaled(order, x), low, high))
        far = of_inverse(lambda x: scaled(order, x) * mp.sqrt(x), 1 / mp.sqrt(2 * mp.pi))
        found.append(series(far, 0, 1 / ENDS[-1]))
    return found


def difference() -> list[float]:
    """Return the coefficients beyond of exp(-x) (I0(x) - I1(x)) times x sqrt(x), by 1/x."""
    with mp.workdps(DIGITS):

        def far(x: Any) -> Any:
            return (scaled(0, x) - scaled(1, x)) * x * mp.sqrt(x)

        return series(of_inverse(far, 1 / mp.sqrt(8 * mp.pi)), 0, 1 / ENDS[-1])


PYTHON = '''"""Chebyshev series of exp(-x) I0(x) and exp(-x) I1(x); generated, do not edit.

`BESSEL[order]` has the coefficients on the intervals between 0, 1, 3, 8 and infinity, `DIFFERENCE`
those beyond 8 of the difference of both. Written by `tests/unit/ops/bessel_coefficients.py`, which
says what of.
"""

from __future__ import annotations

# fmt: off
BESSEL: tuple[tuple[tuple[float, ...], ...], ...] = (
'''

CPP = """// Chebyshev series of exp(-x) I0(x) and exp(-x) I1(x); generated, do not edit.
// Written by tests/unit/ops/bessel_coefficients.py, which documents them.
#pragma once

namespace kiln {

constexpr int kBesselTerms = %d;
// By order and interval: [0, 1], [1, 3], [3, 8], [8, infinity].
// clang-format off
constexpr double kBessel[2][4][kBesselTerms] = {
"""


def lines(coefficients: list[float], indent: str) -> str:
    text, line = "", indent
    for c in coefficients:
        if len(line) + len(repr(c)) > 94:
            text, line = text + line.rstrip() + "\n", indent
        line += f"{c!r}, "
    return text + line.rstrip() + "\n"


def python(orders: list[list[list[float]]]) -> str:
    """Return the module `kiln.ops.elements.bessel_series`."""
    text = PYTHON
    for order in orders:
        text += "    (\n"
        for piece in order:
            text += f"        (\n{lines(piece, ' ' * 12)}        ),\n"
        text += "    ),\n"
    return f"{text})\nDIFFERENCE: tuple[float, ...] = (\n{lines(difference(), ' ' * 4)})\n"


def cpp(orders: list[list[list[float]]]) -> str:
    """Return the header of the extension."""
    text = CPP % max(len(piece) for order in orders for piece in order)
    for order in orders:
        text += "    {\n"
        for piece in order:
            text += f"        {{\n{lines(piece, ' ' * 12)}        }},\n"
        text += "    },\n"
    return text + "};\n// clang-format on\n\n}  // namespace kiln\n"


def main() -> None:
    orders = [pieces(0), pieces(1)]
    print([[len(piece) for piece in order] for order in orders])
    (SOURCE / "ops" / "elements" / "bessel_series.py").write_text(python(orders))
    (SOURCE / "_runtime" / "kernels" / "bessel_series.h").write_text(cpp(orders))


if __name__ == "__main__":
    main()
