"""Finds the packaged OpenBLAS, and loads it with the best loops for the host CPU.

It is loaded when a program first needs it, privately (NumPy and SciPy have their own copies), and
runs single-threaded: the kernels divide the work.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.machinery
import os
import platform
from collections.abc import Iterator, Sequence

from kiln import _runtime
from kiln.base.errors import three_lines

PACKAGE = "scipy_openblas32"
PREFIX = "scipy_"
KERNELS = tuple(
    f"kiln_{name}"
    for name in (
        "gemm_f",
        "gemm_c",
        "gemm_bf",
        "conv_f",
        "conv_c",
        "conv_bf",
        "cholesky",
        "triangular_solve",
        "lu",
        "geqrf",
        "geqp3",
        "householder_product",
        "eigh",
        "eig",
        "svd",
    )
)
"""The prefixes of the names of kernels that call routines of the library."""
_AVX512 = {"avx512f", "avx512dq", "avx512bw", "avx512vl"}
# For the levels with which values of KILN_TARGET begin: a processor family, and the features that
# its loops need.
_CORE_TYPES: dict[str, tuple[str, set[str]]] = {
    "x86-64-v2": ("Nehalem", set()),
    "x86-64-v3": ("Haswell", {"avx2", "fma"}),
    "x86-64-v4": ("SkylakeX", _AVX512),
}
_CPU_INFO = "/proc/cpuinfo"


@functools.cache
def load() -> str:
    """Load OpenBLAS, pass its routines to the kernels, and return its path; idempotent.

    Raises: ImportError if the package is missing or its library lacks a routine.
    """
    path = _library_path()
    try:
        with _environment(_settings()):
            _runtime.load_blas(path, PREFIX, "_")
    except OSError as error:
        raise _missing(str(error)) from None
    return path


def core_name() -> str:
    """Return the name of the processor family whose loops OpenBLAS runs.

    Raises: ImportError if the package is missing or its library lacks a routine.
    """
    function = getattr(ctypes.CDLL(load()), f"{PREFIX}openblas_get_corename")
    function.restype = ctypes.c_char_p
    name: bytes = function()
    return name.decode()


def _library_path() -> str:
    """Find the library; importing the package would load it, before the settings."""
    found = importlib.machinery.PathFinder.find_spec(PACKAGE)
    folders: Sequence[str] = (found and found.submodule_search_locations) or ()
    for folder in folders:
        libraries = os.path.join(folder, "lib")
        for name in sorted(os.listdir(libraries) if os.path.isdir(libraries) else ()):
            if "openblas" in name and (".so" in name or name.endswith((".dylib", ".dll"))):
                return os.path.join(libraries, name)
    raise _missing(f"there is no package {PACKAGE} with a library")


def _missing(wrong: str) -> ImportError:
    return ImportError(
        three_lines(
            "a program with matrix products or factorizations needs OpenBLAS",
            wrong,
            "pip install --force-reinstall scipy-openblas32",
        )
    )


def _settings() -> dict[str, str]:
    """Return the environment variables to set while the library is loaded."""
    # One thread from the start: otherwise it would create a pool, which forked children lack.
    settings = {"OPENBLAS_NUM_THREADS": "1"}
    core = core_type(platform.machine(), os.environ.get("KILN_TARGET"), _processor_flags())
    if core is not None and not os.environ.get("OPENBLAS_CORETYPE"):
        settings["OPENBLAS_CORETYPE"] = core
    return settings


def core_type(machine: str, target: str | None, flags: frozenset[str]) -> str | None:
    """Return the OPENBLAS_CORETYPE to request, or None for OpenBLAS's own choice.

    OpenBLAS recognizes CPUs by model, and uses the Haswell loops, which are half as fast, on newer
    models that it does not recognize.
    """
    if machine not in ("x86_64", "AMD64"):
        return None
    level = (target or "")[: len("x86-64-v4")]
    core, needed = _CORE_TYPES.get(level, _CORE_TYPES["x86-64-v4"])
    return core if flags >= needed else None


def _processor_flags() -> frozenset[str]:
    try:
        with open(_CPU_INFO, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith("flags"):
                    return frozenset(line.partition(":")[2].split())
    except OSError:
        pass
    return frozenset()


@contextlib.contextmanager
def _environment(settings: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
