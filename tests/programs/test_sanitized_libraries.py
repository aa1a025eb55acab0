"""Libraries whose static runtime is built with sanitizers: `make sanitize-libraries`.

KILN_TEST_SANITIZED names the sanitizers and the folder of that runtime. What LLVM generates is not
instrumented: the kernels, the contexts and the threads are.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import kiln
from kiln import export
from kiln.base.options.config import override
from kiln.engines.native.library import selection
from kiln.engines.native.llvm.target import Target
from tests.programs.c_driver import COMPILER, Call, Machine, run_calls
from tests.programs.exported import ONE, function_of
from tests.programs.library_cases import GROUPS, calls_of, sized_calls, supported, written
from tests.programs.models import MODELS
from tests.programs.sized import PROGRAMS as SIZED
from tests.programs.test_library_allocations import PROGRAMS
from tests.programs.test_library_languages import THREADS, kernels_at_work

SANITIZERS, _, FOLDER = os.environ.get("KILN_TEST_SANITIZED", "").partition(":")
pytestmark = [
    pytest.mark.skipif(not FOLDER, reason="needs make sanitize-libraries"),
    pytest.mark.full,
    pytest.mark.timeout(1800),
]
LAPACK = ("factors", "solution")
"""Programs that need routines of LAPACK: those of OpenBLAS are not instrumented."""
OPTIONS = [f"-fsanitize={SANITIZERS}", "-fno-sanitize-recover=all"]
MACHINE = Machine([COMPILER or "cc", *OPTIONS])


@pytest.fixture(autouse=True)
def sanitized(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Link libraries with the instrumented runtime, which is there for the host's level."""

    def found(target: Target) -> str:
        path = Path(FOLDER) / f"_runtime.{target.name}.a"
        assert b"san_" in path.read_bytes(), "it is not instrumented"
        return str(path)

    monkeypatch.setattr(selection, "runtime_file", found)
    selection.runtime_members.cache_clear()
    yield
    selection.runtime_members.cache_clear()


def _run(calls: list[Call], folder: Path, threads: int | None = None) -> list[list[np.ndarray]]:
    assert calls
    return run_calls(calls, folder, threads=threads, machine=MACHINE, counts_allocations=False)


def test_a_thousand_calls_from_eight_threads(tmp_path: Path) -> None:
    kernels_at_work(tmp_path)
    command = [COMPILER or "cc", *OPTIONS, "-std=c11", "-g", "-pthread", str(THREADS), "-I."]
    subprocess.run([*command, "libwork.a", "-lm", "-o", "main"], cwd=tmp_path, check=True)
    done = subprocess.run(
        [str(tmp_path / "main")], capture_output=True, text=True, check=False, timeout=900
    )
    assert (done.returncode, done.stdout) == (0, "0 failures\n"), done.stderr


@pytest.mark.parametrize("threads", [None, 3], ids=["alone", "threads"])
def test_kernels(threads: int | None, tmp_path: Path) -> None:
    calls = []
    for name, (function, args) in PROGRAMS.items():
        if name in LAPACK:
            continue
        made = export.library(
            kiln.jit(function),
            *args,
            name=name,
            path=tmp_path / name,
            threads=threads is not None,
            shared=False,
        )
        calls.append(Call(Path(made.path), name, {}, args))
    found = _run(calls, tmp_path, threads)
    for (result,), call in zip(found, calls, strict=True):
        assert result.size > 0, call.symbol


@pytest.mark.parametrize("part", range(4))
def test_models(part: int, tmp_path: Path) -> None:
    calls = []
    for name in list(MODELS)[part::4]:
        path = written(function_of(name, kiln), ONE, name, tmp_path, threads=True)
        if path is not None:
            calls.append(Call(path, name, {}, [ONE]))
    _run(calls, tmp_path, 3)


def test_sized(tmp_path: Path) -> None:
    calls = [
        call
        for _, call in sized_calls(
            SIZED, lambda run, x, name: written(run, x, name, tmp_path, threads=True)
        )
    ]
    _run(calls, tmp_path, 3)


@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_cases(group: int, tmp_path: Path) -> None:
    with override(enable_x64=True, engine="native"):
        made = calls_of(supported(group), tmp_path)
    if not made:
        pytest.skip("none is compiled for the host, or has types that C has")
    _run([call for call, _, _ in made], tmp_path)
