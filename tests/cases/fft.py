"""Cases of the discrete Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kiln.ops.linear import fft as ops
from tests.cases.case import Case, Operand

COMPLEX = Operand((2, 5), "complex64")
REAL = Operand((2, 6))
ODD = Operand((3, 5))


def fft(kind: str, *lengths: int) -> Callable[[Any], Any]:
    return lambda x: ops.fft(x, kind, lengths)


def _row(kind: str, operand: Operand, *lengths: int, **more: Any) -> Case:
    return Case(
        ops.fft_p,
        fft(kind, *lengths),
        (operand,),
        f"{kind}{list(lengths)} ".replace(" ", "") + " ",
        differentiable=(0,),
        tolerance=1e-5,
        **more,
    )


CASES = [
    _row("FFT", COMPLEX, 5, named=((0, 0),)),
    _row("IFFT", COMPLEX, 5),
    _row("FFT", Operand((2, 3, 4), "complex64"), 3, 4),
    _row("IFFT", Operand((2, 3, 4), "complex64"), 2, 3, 4),
    _row("RFFT", REAL, 6, named=((0, 0),)),
    _row("RFFT", ODD, 5),
    _row("RFFT", REAL, 2, 6),
    _row("RFFT", Operand((2, 3, 5)), 2, 3, 5),
    _row("IRFFT", Operand((2, 4), "complex64"), 6),
    _row("IRFFT", Operand((2, 3), "complex64"), 5),
    _row("IRFFT", Operand((3, 3), "complex64"), 3, 4),
    _row("IRFFT", Operand((2, 3, 3), "complex64"), 2, 3, 5),
    Case(ops.fft_p, fft("FFT"), (COMPLEX,), "no axes "),
    Case(ops.fft_p, fft("FFT", 0), (Operand((2, 0), "complex64"),), "no elements "),
]
