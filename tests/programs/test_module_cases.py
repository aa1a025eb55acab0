"""Every primitive gives the same bits in a WebAssembly module as in a library for x86-64-v2."""

from __future__ import annotations

from pathlib import Path

import pytest

from kiln.base.options.config import override
from tests.programs.c_driver import COMPILER, have_same_bits, run_calls
from tests.programs.library_cases import GROUPS, calls_of, supported
from tests.programs.node_driver import needs_node, run_in_node

pytestmark = [needs_node, pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")]

QUICK = (0,)
"""Which groups are part of `make test`."""


@pytest.mark.parametrize(
    "group",
    [pytest.param(i, marks=[] if i in QUICK else [pytest.mark.full]) for i in range(len(GROUPS))],
)
def test_cases(group: int, tmp_path: Path) -> None:
    with override(enable_x64=True, engine="native"):
        cases = supported(group)
        modules = calls_of(cases, tmp_path / "modules", target="wasm32")
        libraries = calls_of(cases, tmp_path / "libraries", target="x86-64-v2")
        if not modules:
            pytest.skip("none is compiled for the host, or has types that C has")
        found = run_in_node([call for call, _, _ in modules], tmp_path)
        expected = run_calls([call for call, _, _ in libraries], tmp_path)
    assert [names for _, _, names in modules] == [names for _, _, names in libraries]
    for xs, ys, (_, _, names) in zip(found, expected, modules, strict=True):
        for x, y, name in zip(xs, ys, names, strict=True):
            assert have_same_bits(x, y), (name, x, y)
