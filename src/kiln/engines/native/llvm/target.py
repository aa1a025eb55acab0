"""Targets of code generation: microarchitecture levels, the same for all machines of one kind.

A level, not the exact CPU model, so that object files may be stored on disk and used on another
machine.
"""

from __future__ import annotations

from collections.abc import Mapping

from kiln.base.errors import three_lines
from kiln.base.records import Record


class Target(Record):
    """A microarchitecture level: the options for LLVM, and what the engine must know."""

    name: str
    triple: str
    """Starts with the architecture; empty fields mean the host's."""
    cpu: str
    features: str
    vector_bytes: int
    """The width of the vector registers that loops use."""
    fma: bool
    """Whether fused multiply-add is a single instruction."""
    half: bool
    """Whether there are instructions that convert f16 to f32 and back."""
    masked_stores: bool
    """Whether a masked store is one instruction, so that loops need no scalar remainder."""
    requires: tuple[str, ...] = ()
    """The features (LLVM's names) of a CPU of this level, besides those of older levels."""
    abi: str = ""
    """How functions take arguments, where an architecture has several ways."""
    system: str = "linux"
    """Whose object files and libraries it has: a key of `SYSTEMS`."""

    @property
    def is_module(self) -> bool:
        """Whether libraries for it are WebAssembly modules, whose pointers have 32 bits."""
        return self.triple == "wasm32"

    def lanes(self, bits: int) -> int:
        """Return how many numbers of a width fill a register."""
        return self.vector_bytes * 8 // bits


SYSTEMS = {"linux": "unknown-linux-gnu", "macos": "apple-macosx11.0.0", "wasi": "unknown-wasi"}
"""What LLVM calls systems; of macOS the oldest release for ARM."""
COMPILERS_NAMES = {"linux": "linux-gnu", "macos": "macos.11.0", "wasi": "wasi"}
"""What compilers of C call them, after the architecture: GCC's names, or else zig's."""

LEVELS = {
    level.name: level
    for level in (
        Target(
            "x86-64-v2", "x86_64", "x86-64-v2", "", 16, False, False, False,
            ("sse4.2", "ssse3", "popcnt", "cx16"),
        ),
        # Without fast-gather the code generator loads lane by lane.
        Target(
            "x86-64-v3", "x86_64", "x86-64-v3", "+fast-gather", 32, True, True, True,
            ("avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"),
        ),
        Target(
            "x86-64-v4", "x86_64", "x86-64-v4", "-prefer-256-bit,+fast-gather",
            64, True, True, True,
            ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
        ),
        Target("aarch64", "aarch64", "generic", "+neon", 16, True, True, False),
    )
}  # fmt: skip
"""The levels by name, per architecture from the oldest to the newest.

The name of an x86-64 level begins with that of the level whose kernels and OpenBLAS loops it runs.
"""

FOR_LIBRARIES = {
    level.name: level
    for level in (
        # LLVM scalarizes vectors: sums have the order, and so the bits, of aarch64.
        Target(
            "riscv64", "riscv64", "generic-rv64", "+m,+a,+f,+d,+c", 16, True, False, False,
            abi="lp64d",
        ),
        # Its vectors have the width of x86-64-v2, and so sums its order and bits.
        Target(
            "wasm32", "wasm32", "generic",
            "+simd128,+bulk-memory,+mutable-globals,+nontrapping-fptoint,+sign-ext",
            16, False, False, False, system="wasi",
        ),
        # For the oldest processors, so that its bits are those of aarch64.
        Target(
            "aarch64-macos", "aarch64", "generic", "+neon", 16, True, True, False,
            system="macos",
        ),
    )
}  # fmt: skip
"""Targets by name where kiln itself does not run."""

DISPATCHED = {"x86-64": ("x86-64-v2", "x86-64-v3", "x86-64-v4")}
"""Targets of libraries with code for several levels, from the oldest to the newest."""


def runnable(architecture: str, features: Mapping[str, bool]) -> list[Target]:
    """Return the levels that a processor with these features (LLVM's names) runs, oldest first.

    Raises RuntimeError if there is none.
    """
    needed: tuple[str, ...] = ()
    found = []
    for level in LEVELS.values():
        if level.triple != architecture:
            continue
        needed = (*needed, *level.requires)
        if all(features.get(f, False) for f in needed):
            found.append(level)
    if not found:
        raise RuntimeError(
            three_lines(
                f"compiling for a processor of kind {architecture}",
                "the native engine needs x86-64-v2 (SSE 4.2) or aarch64",
                'use another engine: kiln.config.update("engine", "xla")',
            )
        )
    return found


def best(architecture: str, features: Mapping[str, bool]) -> Target:
    """Return the newest level that a processor with these features (LLVM's names) runs.

    Raises RuntimeError on other processors.
    """
    return runnable(architecture, features)[-1]


def forced(name: str, architecture: str, features: Mapping[str, bool]) -> Target:
    """Return the level that KILN_TARGET names, for such a processor.

    Raises ValueError on unknown names, and on levels whose code the processor does not run;
    RuntimeError as `best`.
    """
    levels = {level.name: level for level in runnable(architecture, features)}
    if name in levels:
        return levels[name]
    is_known = name in LEVELS or name in FOR_LIBRARIES
    raise ValueError(
        three_lines(
            f"compiling for target {name!r}",
            "this processor does not run its code" if is_known else "there is no such target",
            f"set KILN_TARGET to one of: {', '.join(levels)}",
        )
    )


def named(name: str) -> Target:
    """Return a target by its name, for libraries or to be looked at. Raises KeyError on others."""
    return LEVELS[name] if name in LEVELS else FOR_LIBRARIES[name]
