"""Programs as object code that other programs link: what an engine that writes it offers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from kiln.base.records import Record
from kiln.core.engines.engine import Compiler, Program, engine
from kiln.ir.sizes.size import Dim

LINKING_ENGINE = "native"
MODULE_TARGET = "wasm32"
"""The target whose libraries are WebAssembly modules."""
MACOS_TARGET = "aarch64-macos"
"""The target whose libraries are those of macOS."""


class Leaf(Record):
    """An array that a linked function takes by address: the numbers of an operand and a result.

    With both, it is an operand whose memory the result replaces. With neither, it is not used.
    """

    operand: int | None = None
    result: int | None = None


class Parameter(Record):
    """An argument of a linked function: the address of an array, or of a structure of addresses."""

    leaves: tuple[Leaf, ...]
    is_struct: bool


class LinkedFunction(Record):
    """A program and how it is called: its context, its named sizes, its parameters.

    `constants` are the values of the first operands, of which `program.constants` are closed over.
    """

    symbol: str
    program: Program
    constants: tuple[np.ndarray, ...]
    parameters: tuple[Parameter, ...]


class LinkedCode(Record):
    """A static library, and the symbols that it defines for its users.

    For a target of WebAssembly there is a module besides.

    `workspaces` are the bytes of temporaries of each function, `constant_bytes` those of arrays
    that functions close over, which are in `constants_file` if that is not None. `externals` are
    the symbols of the system's libraries that it uses; `blas_library` is the library with the
    routines of BLAS that it calls, if it does.
    """

    archive: bytes
    public: tuple[str, ...]
    workspaces: tuple[Dim, ...]
    constant_bytes: int
    constants_file: bytes | None
    externals: tuple[str, ...]
    target: str
    needs_blas: bool
    blas_library: str | None
    module: bytes | None = None


class Unlinkable(ValueError):
    """A program that cannot leave the process; the arguments are the reason, and what helps."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.reason, self.remedy = reason, remedy


@runtime_checkable
class LinkingCompiler(Compiler, Protocol):
    """A compiler whose programs can be linked into programs in other languages."""

    def target_names(self) -> tuple[str, ...]:
        """Return the names of the targets that it compiles for, the host's first."""
        ...

    def cross_triple(self, target: str | None) -> str | None:
        """Return the name that compilers have for a target; None: the host's architecture."""
        ...

    def link(
        self,
        prefix: str,
        functions: Sequence[LinkedFunction],
        *,
        target: str | None = None,
        blas: bool = False,
        threads: bool = False,
        mapped: bool = False,
    ) -> LinkedCode:
        """Return functions as a static library; its other symbols begin with a prefix too.

        With `blas` the library calls routines of BLAS and LAPACK, which its users must link, with
        `threads` its contexts may have threads. If `mapped`, its constants are in a file.

        Raises: Unlinkable for programs that call Python, or need what `blas` provides.
        """
        ...


def linking_compiler() -> LinkingCompiler:
    """Return the compiler whose programs can be linked."""
    found = engine(LINKING_ENGINE).compiler
    assert isinstance(found, LinkingCompiler)
    return found
