"""The measured peak of multiply-adds: plausible, and absent without the instruction."""

from __future__ import annotations

import pytest

from benchmarks.limit import fma_peak


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", fma_peak.DTYPES)
def test_peak(dtype: str, threads: int) -> None:
    found = fma_peak.peak_flops(dtype, threads, samples=2)
    if found is None:
        assert dtype in ("bfloat16", "int8")
    else:
        assert 1e7 < found < threads * 1e14


def test_unknown_dtype() -> None:
    with pytest.raises(KeyError):
        fma_peak.peak_flops("complex64")
