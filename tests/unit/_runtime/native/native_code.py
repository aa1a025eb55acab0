"""C functions with the calling convention of compiled code, for tests of how they are called."""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kiln.numpy as jnp
from kiln import _runtime
from kiln.core.arrays.host_memory import HOST_MEMORY

DECLARATIONS = """
#include <stddef.h>
#include <stdint.h>
struct fault { int32_t site; int64_t index, iteration; };
struct call {
  const void *const *operands; void *const *results; const int64_t *sizes; char *workspace;
  void *pool; struct fault *fault;
};
int32_t (*kiln_poll)(struct call *);
int32_t (*kiln_call_python)(struct call *, void *const *, const int64_t *);
int32_t (*kiln_parallel)(struct call *, int32_t (*)(struct call *, void *, int64_t, int64_t),
                         void *, int64_t, int64_t);
#define IN(type, i) ((const type *)c->operands[i])
#define OUT(type, i) ((type *)c->results[i])
#define ENTRY(name) int32_t name(struct call *c)
"""
SYMBOLS = ("kiln_poll", "kiln_call_python", "kiln_parallel")

_COMPILER = os.environ.get("CC", "cc")
LACK = "needs a C compiler"
needs_compiler = pytest.mark.skipif(shutil.which(_COMPILER) is None, reason=LACK)


@functools.cache
def library(source: str) -> ctypes.CDLL:
    """Compile C functions and give them what compiled code calls by name."""
    if shutil.which(_COMPILER) is None:
        pytest.skip(LACK)
    # Not a TemporaryDirectory: those end with the interpreter, and a thread may still be compiling.
    folder = Path(tempfile.mkdtemp(prefix="kiln-native-"))
    (folder / "f.c").write_text(DECLARATIONS + source)
    built = folder / "f.so"
    subprocess.run([_COMPILER, "-O1", "-shared", "-fPIC", folder / "f.c", "-o", built], check=True)
    loaded = ctypes.CDLL(str(built))
    shutil.rmtree(folder)
    addresses = _runtime.native_symbols()
    for name in SYMBOLS:
        if name in addresses:
            ctypes.c_void_p.in_dll(loaded, name).value = addresses[name]
    return loaded


def address_of(loaded: ctypes.CDLL, name: str) -> int:
    """Return the address of a function."""
    address = ctypes.cast(getattr(loaded, name), ctypes.c_void_p).value
    assert address is not None
    return address


def types_of(values: Sequence[Any]) -> list[tuple[Any, int]]:
    """Return the types of values as `Native` takes them."""
    return [(np.asarray(x).dtype, np.asarray(x).nbytes) for x in values]


def native(
    source: str, name: str, ins: Sequence[Any], outs: Sequence[Any], **options: Any
) -> _runtime.Native:
    """Return a compiled function for operands and results like these values."""
    loaded = library(source)
    return _runtime.Native(
        address_of(loaded, name), types_of(ins), types_of(outs), loaded, **options
    )


def program(
    source: str,
    name: str,
    ins: Sequence[Any],
    outs: Sequence[Any],
    kept: list[int] | None = None,
    **options: Any,
) -> _runtime.CompiledProgram:
    """Return a program that runs a compiled function."""
    avals = [jnp.asarray(x).aval for x in outs]
    made = native(source, name, ins, outs, **options)
    return _runtime.CompiledProgram(made, avals, kept, HOST_MEMORY, True)
