"""Libraries for other processors, called from C under emulation, have kiln's answers.

riscv64 has the bits of aarch64: vectors of the same size, and the same fused operations, except in
kernels of complex numbers (and Fourier transforms), where the C++ compiler chooses what is fused.
The host's bits differ where sums of other vectors are rounded otherwise.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kiln
from kiln import _runtime
from kiln.base.options.config import override
from tests.programs.c_driver import Call, Machine, have_same_bits, run_calls
from tests.programs.exported import ONE, function_of
from tests.programs.library_cases import GROUPS, calls_of, data, supported, written
from tests.programs.models import MODELS
from tests.programs.test_models import LOOSE

TARGETS = ("aarch64", "riscv64")
RUNTIMES = [Path(_runtime.__file__).parent / f"_runtime.{name}.a" for name in TARGETS]
EMULATORS = {name: shutil.which(f"qemu-{name}") or "" for name in TARGETS}
MISSING = [
    text
    for text, is_there in {
        "zig and static runtimes (make cross)": all(path.exists() for path in RUNTIMES)
        and importlib.util.find_spec("ziglang") is not None,
        "qemu-aarch64 and qemu-riscv64 (apt-get install qemu-user)": all(EMULATORS.values()),
    }.items()
    if not is_there
]
pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}"),
    pytest.mark.full,
    pytest.mark.timeout(1800),
]


def _machine(target: str) -> Machine:
    zig = [sys.executable, "-m", "ziglang", "cc", "-target", f"{target}-linux-musl", "-static"]
    return Machine(zig, [EMULATORS[target]])


def _run(target: str, calls: Sequence[Call], folder: Path) -> list[list[np.ndarray]]:
    return run_calls(calls, folder, machine=_machine(target))


def _close(x: np.ndarray, y: np.ndarray, within: float) -> bool:
    """Tell whether numbers are as near as a program's accuracy; all others are equal."""
    x = np.ravel(x).view(y.dtype).reshape(y.shape)
    if not kiln.dtypes.issubdtype(y.dtype, np.inexact):
        return bool((x == y).all())
    wide = np.complex128 if y.dtype.kind == "c" else np.float64
    x, y = x.astype(wide), y.astype(wide)
    return bool(np.allclose(x, y, rtol=within, atol=within, equal_nan=True))


@pytest.mark.parametrize("part", range(4))
def test_models(part: int, tmp_path: Path) -> None:
    made: dict[str, list[Call]] = {target: [] for target in TARGETS}
    expected: list[tuple[str, list[np.ndarray]]] = []
    for name in list(MODELS)[part::4]:
        run = function_of(name, kiln)
        for target in TARGETS:
            path = written(run, ONE, f"{name}_{target}", tmp_path, target=target)
            if path is not None:
                made[target].append(Call(path, f"{name}_{target}", {}, [ONE]))
        if path is not None:
            expected.append((name, [np.asarray(y) for y in kiln.jit(run)(ONE)]))
    assert expected
    first, second = (_run(target, made[target], tmp_path) for target in TARGETS)
    for xs, others, (name, ys) in zip(first, second, expected, strict=True):
        for x, other, y in zip(xs, others, ys, strict=True):
            assert have_same_bits(x, other), (name, x, other)
            assert _close(x, y, LOOSE.get(name, 1e-4)), (name, x, y)


def _accuracy(y: np.ndarray) -> float:
    """Return some hundred roundings of a type."""
    is_inexact = kiln.dtypes.issubdtype(y.dtype, np.inexact)
    return 256 * float(kiln.dtypes.finfo(y.dtype).eps) if is_inexact else 0.0


@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_cases(group: int, tmp_path: Path) -> None:
    with override(enable_x64=True, engine="native"):
        cases = supported(group)
        made: dict[str, Any] = {}
        for target in TARGETS:
            made[target] = calls_of(cases, tmp_path / target, target=target)
        if not made[TARGETS[0]]:
            pytest.skip("none is compiled for the host, or has types that C has")
        first, second = (
            _run(target, [call for call, _, _ in made[target]], tmp_path) for target in TARGETS
        )
    for xs, others, (_, expected, names) in zip(first, second, made[TARGETS[0]], strict=True):
        for x, other, y, name in zip(xs, others, map(data, expected), names, strict=True):
            if y.dtype.kind == "c" or name.startswith("fft"):
                assert _close(x, other, _accuracy(y)), (name, x, other)
            else:
                assert have_same_bits(x, other), (name, x, other)
            assert _close(x, y, _accuracy(y)), (name, x, y)
