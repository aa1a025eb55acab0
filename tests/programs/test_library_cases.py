"""Every primitive gives the same bits in a library that C calls as in kiln."""

from __future__ import annotations

from pathlib import Path

import pytest

from kiln.base.options.config import override
from tests.programs.c_driver import COMPILER, have_same_bits, run_calls
from tests.programs.library_cases import GROUPS, QUICK, calls_of, data, supported

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")


@pytest.mark.parametrize(
    "group",
    [pytest.param(i, marks=[] if i in QUICK else [pytest.mark.full]) for i in range(len(GROUPS))],
)
def test_cases(group: int, tmp_path: Path) -> None:
    with override(enable_x64=True, engine="native"):
        made = calls_of(supported(group), tmp_path, blas=True)
        if not made:
            pytest.skip("none is compiled for the host, or has types that C has")
        found = run_calls([call for call, _, _ in made], tmp_path)
    for results, (_, expected, names) in zip(found, made, strict=True):
        for x, y, name in zip(results, expected, names, strict=True):
            assert have_same_bits(x, data(y)), (name, x, y)
