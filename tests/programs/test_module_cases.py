"""Every primitive gives the same bits in a WebAssembly module as in a library for x86-64-v2."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import kiln
from kiln import export
from kiln.base.options.config import override
from tests.cases.case import Case
from tests.cases.collection import drawn
from tests.programs.c_driver import COMPILER, Call, have_same_bits, run_calls
from tests.programs.node_driver import needs_node, run_in_node
from tests.programs.test_library_cases import GROUPS, data_of, function_of_cases, supported

pytestmark = [needs_node, pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")]

QUICK = (0,)
"""Which groups are part of `make test`."""


def _written(cases: Sequence[Case], name: str, folder: Path) -> tuple[Call, Call] | None:
    """Write a module and a library of some cases; None if either is refused."""
    operands = [drawn(case) for case in cases]
    flat = [x for xs in operands for x in xs]
    fun = kiln.jit(function_of_cases(cases, [len(xs) for xs in operands]))
    try:
        module = export.library(fun, *flat, name=name, path=folder / f"{name}_m", target="wasm32")
        library = export.library(
            fun, *flat, name=name, path=folder / f"{name}_l", target="x86-64-v2", shared=False
        )
    except NotImplementedError:
        return None
    values = [data_of(x) for x in flat]
    first, second = [Call(Path(made.path), name, {}, values) for made in (module, library)]
    return first, second


@pytest.mark.parametrize(
    "group",
    [pytest.param(i, marks=[] if i in QUICK else [pytest.mark.full]) for i in range(len(GROUPS))],
)
def test_cases(group: int, tmp_path: Path) -> None:
    with override(enable_x64=True, engine="native"):
        cases = supported(GROUPS[group])
        if not cases:
            pytest.skip("none is compiled for the host")
        made = [_written(cases, "all", tmp_path)]
        named = [[case.id for case in cases]]
        if made[0] is None:
            # One case that does not leave the process hides the others.
            made = [_written([case], f"case{i}", tmp_path) for i, case in enumerate(cases)]
            named = [[case.id] for case in cases]
        kept = [(pair, names) for pair, names in zip(made, named, strict=True) if pair is not None]
        if not kept:
            pytest.skip("none has types that C has")
        of_modules = run_in_node([module for (module, _), _ in kept], tmp_path)
        of_libraries = run_calls([library for (_, library), _ in kept], tmp_path)
    different = []
    for found, expected, (_, names) in zip(of_modules, of_libraries, kept, strict=True):
        assert len(found) == len(expected)
        different += [
            (names, i, x.dtype, x.ravel()[:4], y.ravel()[:4])
            for i, (x, y) in enumerate(zip(found, expected, strict=True))
            if not have_same_bits(x, y)
        ]
    assert not different, different
