"""Loading OpenBLAS: the loops it takes, the environment it leaves, the threads it does not make."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from kiln import _runtime
from kiln.engines.native.executables import openblas

AVX512 = frozenset({"avx512f", "avx512dq", "avx512bw", "avx512vl", "avx2", "fma"})
AVX2 = frozenset({"avx2", "fma", "bmi2"})


@pytest.mark.parametrize(
    ("machine", "target", "flags", "expected"),
    [
        ("x86_64", None, AVX512, "SkylakeX"),
        ("x86_64", None, AVX512 - {"avx512vl"}, None),
        ("x86_64", None, AVX2, None),
        ("x86_64", "x86-64-v2", AVX512, "Nehalem"),
        ("x86_64", "x86-64-v3", AVX512, "Haswell"),
        ("x86_64", "x86-64-v4", AVX512, "SkylakeX"),
        ("x86_64", "x86-64-v4", AVX2, None),
        ("x86_64", "x86-64-v3", frozenset(), None),
        ("x86_64", "x86-64-v2-avx", AVX512, "Nehalem"),
        ("aarch64", None, AVX512, None),
    ],
)
def test_core_type(
    machine: str, target: str | None, flags: frozenset[str], expected: str | None
) -> None:
    assert openblas.core_type(machine, target, flags) == expected


def child(code: str, **environment: str) -> str:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("OPENBLAS", "KILN_TARGET"))}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


LOAD = """
import os
from kiln.engines.native.executables import openblas
before = dict(os.environ)
threads = len(os.listdir("/proc/self/task"))
name = openblas.core_name()
assert dict(os.environ) == before
print(name, len(os.listdir("/proc/self/task")) - threads)
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="reads Linux's list of threads")
def test_loading_leaves_no_trace() -> None:
    name, threads = child(LOAD, KILN_TARGET="x86-64-v2").split()
    assert threads == "0"
    if openblas.core_type(platform.machine(), None, openblas._processor_flags()):
        assert name == "Nehalem"
        assert child(LOAD).split()[0] == "SkylakeX"
        assert child(LOAD, OPENBLAS_CORETYPE="Haswell").split()[0] == "Haswell"


def test_it_is_loaded_on_first_use() -> None:
    code = "import kiln.engines.native.executables.openblas; print(open('/proc/self/maps').read())"
    if Path("/proc/self/maps").exists():
        assert openblas.PACKAGE not in child(code)


def test_a_missing_package_says_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openblas, "PACKAGE", "no_such_package")
    with pytest.raises(ImportError, match="pip install"):
        openblas.load.__wrapped__()


def test_a_library_without_the_routines_says_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openblas, "PREFIX", "other_")
    with pytest.raises(ImportError, match=r"no routine other_sgemm_[\s\S]*pip install"):
        openblas.load.__wrapped__()
    with pytest.raises(OSError, match="no_such_library"):
        _runtime.load_blas("/no_such_library.so", "", "")
    with pytest.raises(TypeError):
        _runtime.load_blas(None, "", "")  # type: ignore[arg-type]
