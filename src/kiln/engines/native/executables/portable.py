"""Executables as bytes: object code, and the metadata needed to call it.

The bytes are valid for the same build of kiln and the same microarchitecture level: the object code
calls kernels of the extension by name.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import sys
from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np

from kiln import _runtime
from kiln.base.dtypes import long_name
from kiln.base.errors import JaxRuntimeError, three_lines
from kiln.base.lazy import hashlib, json, llvmlite, pathlib
from kiln.base.options.config import options
from kiln.core.engines.engine import Program
from kiln.engines.native.executables import openblas
from kiln.engines.native.executables.executable import (
    NativeCode,
    NativeExecutable,
    Source,
    named,
    needs_library,
    shared_results,
)
from kiln.engines.native.executables.sized import SizedExecutable
from kiln.engines.native.executables.stored_sizes import dim_data, dim_of, number_data, number_of
from kiln.engines.native.executables.value_types import known, value_type
from kiln.engines.native.llvm.assembly import host_target, load
from kiln.engines.native.llvm.linking import ENTRY
from kiln.engines.native.loop_ir.statements import Function, walk
from kiln.ir.sizes.size import Size, names

_BEGIN = b"kiln native code\n"
_CHECKSUM = 32
"""Bytes of a SHA-256."""


class StoredCode(NativeCode):
    """Code that was loaded from bytes."""

    __slots__ = ()

    def __init__(
        self, program: Program, about: dict[str, Any], image: bytes, source: Source
    ) -> None:
        if about["needs_library"]:
            openblas.load()
        self.program, self.image, self.source = program, image, source
        self.calls = about.get("calls", 0)
        self._kept = None
        self.needs_library, self.is_storable = about["needs_library"], not program.checks
        self.improved = None
        self.owner = load(image, ENTRY)
        self.symbols = named(program.name, image, self.owner.address)
        self.shared = [(result, operand) for result, operand in about["shared"]]
        self.taken = [(result, operand) for result, operand in about["taken"]]
        # A program with checks reports which of them failed: its sites are regenerated.
        self.sites = source().function.sites if program.checks else []


def digest(program: Program, function: Function) -> str | None:
    """Return a key shared only by programs that compile to the same code, on this build of kiln.

    `function` is the program as it was lowered. None for programs that call Python, and for those
    whose sizes have names that no call supplies.
    """
    if function.callbacks or _unknown_names(program):
        return None
    found = hashlib.sha256()
    described = (
        program.name,
        _machine(),
        _types(program),
        program.compiler_options,
        program.donated,
        program.sizes,
        program.constants,
        repr(options().key()),
    )
    found.update(repr(described).encode())
    for part in _parts([function.inputs, function.outputs, function.body]):
        found.update(part)
    if function.recomputed:
        regions = [function.recomputed.get(each, 0) for each in walk(function.body)]
        found.update(repr(regions).encode())
    return str(found.hexdigest())


def to_bytes(executable: NativeExecutable | SizedExecutable) -> bytes:
    """Return an executable as bytes; with named sizes, that for all of them.

    Raises: ValueError for programs that call Python or are instrumented.
    """
    code = executable.code
    program, written = code.program, code.written
    function = written.function
    if code.profile is not None:
        raise ValueError(
            three_lines(
                f"storing the compiled program {program.name}",
                "it is instrumented, and its counters are in the memory of this process",
                "compile it without KILN_PROFILE",
            )
        )
    if function.callbacks:
        count = len(function.callbacks)
        raise ValueError(
            three_lines(
                f"storing the compiled program {program.name}",
                f"it calls {count} Python function{'s' * (count > 1)}, which have no stored form",
                "leave callbacks out of what is stored, or compile it again",
            )
        )
    about = {
        "machine": _machine(),
        "types": _types(program),
        "workspace": dim_data(written.workspace),
        "sizes": list(map(number_data, written.sizes.numbers)),
        "needs_library": needs_library(function.body),
        "shared": shared_results(function),
        "taken": code.taken,
    }
    # Stored code is used often: prefer LLVM's code, if available.
    code.improve()
    text: bytes = json.dumps(about).encode()
    rest = len(text).to_bytes(8, "little") + text + code.image
    checksum: bytes = hashlib.sha256(rest).digest()
    return _BEGIN + checksum + rest


def from_bytes(
    program: Program, stored: bytes, source: Source
) -> NativeExecutable | SizedExecutable:
    """Return the executable of a program from what `to_bytes` returned.

    Raises: JaxRuntimeError for other bytes, or those of another program, build or processor.
    """
    rest = stored[len(_BEGIN) + _CHECKSUM :]
    if not stored.startswith(_BEGIN):
        raise _refused(program, "the bytes are not a compiled program of the native engine")
    if stored[len(_BEGIN) : len(_BEGIN) + _CHECKSUM] != hashlib.sha256(rest).digest():
        raise _refused(program, "the bytes are damaged: their checksum is another one")
    size = int.from_bytes(rest[:8], "little")
    about, image = json.loads(rest[8 : 8 + size]), rest[8 + size :]
    for what, (made_for, here) in _both(about["machine"], _machine()).items():
        if made_for != here:
            raise _refused(program, f"it was compiled for {what} {made_for}, and this is {here}")
    if about["types"] != json.loads(json.dumps(_types(program))):
        raise _refused(program, "it has operands or results of other types")
    operands = [value_type(v.aval) for v in program.jaxpr.invars]
    results = [value_type(v.aval) for v in program.jaxpr.outvars]
    code = StoredCode(program, about, image, source)
    workspace = dim_of(about["workspace"])
    if program.sizes:
        numbers = list(map(number_of, about["sizes"]))
        return SizedExecutable(code, operands, results, workspace, numbers)
    return NativeExecutable(code, known(operands), known(results), int(workspace))


def _unknown_names(program: Program) -> set[str]:
    values = (*program.jaxpr.invars, *program.jaxpr.outvars)
    return set(names(*[n for v in values for n in v.aval.shape])) - {*program.sizes}


def _both(x: dict[str, str], y: dict[str, str]) -> dict[str, tuple[str | None, str]]:
    return {name: (x.get(name), y[name]) for name in y}


def _refused(program: Program, wrong: str) -> JaxRuntimeError:
    return JaxRuntimeError(
        three_lines(
            f"loading a compiled program for {program.name}",
            wrong,
            "compile the program again, and store it on this machine",
        )
    )


def _machine() -> dict[str, str]:
    """Return the target of code generation, and the code generator."""
    return {
        "the system": sys.platform,
        "processors of level": host_target().name,
        "llvmlite": str(llvmlite.__version__),
        "the build of kiln": _build(),
    }


@functools.cache
def _build() -> str:
    """Return a hash of the code generator's sources, and of the extension that code calls."""
    found = hashlib.sha256()
    here = pathlib.Path(__file__).parent
    for path in [*sorted(here.rglob("*.py")), pathlib.Path(_runtime.__file__)]:
        found.update(path.name.encode() + b"\0" + path.read_bytes())
    return str(found.hexdigest())[:16]


def _types(program: Program) -> list[Any]:
    """Return the types of operands and of results: dtypes, shapes and bytes; names of sizes."""
    jaxpr = program.jaxpr
    found: list[Any] = [
        [(long_name(v.aval.dtype), str(v.aval.shape), str(value_type(v.aval)[1])) for v in values]
        for values in (jaxpr.invars, jaxpr.outvars)
    ]
    return [*found, program.sizes]


_OMITTED = frozenset(("source", "lines", "scope", "_hash", "_operands"))
"""Fields that do not affect code."""


def _parts(root: Any) -> Iterator[bytes]:
    """Yield the parts of loops, in a deterministic order; equal objects once."""
    numbers: dict[Any, int] = {}
    held: list[Any] = []
    stack = [root]
    while stack:
        x = stack.pop()
        if isinstance(x, (list, tuple)):
            yield f"[{len(x)}".encode()
            stack.extend(reversed(x))
        elif isinstance(x, np.ndarray):
            yield f"{x.dtype.str}{x.shape}".encode() + x.tobytes()
        elif isinstance(x, Size):
            yield f"{x};".encode()
        elif x is None or isinstance(x, (str, bytes, int, float, enum.Enum, np.generic)):
            yield repr(x).encode() + b";"
        elif id(x) in numbers:
            yield f"#{numbers[id(x)]};".encode()
        else:
            numbers[id(x)] = len(numbers)
            held.append(x)
            yield type(x).__name__.encode()
            stack.extend(getattr(x, name) for name in reversed(_fields(x.__class__)))


@functools.cache
def _fields(kind: Hashable) -> tuple[str, ...]:
    assert isinstance(kind, type)
    if dataclasses.is_dataclass(kind):
        names = tuple(field.name for field in dataclasses.fields(kind))
    else:
        names = tuple(kind.__slots__)  # type: ignore[attr-defined]
    return tuple(name for name in names if name not in _OMITTED)
