"""From programs to a WebAssembly module.

A module is closed: nothing but its exports is visible outside. So symbols keep their names, and
zig's linker, not `selection.py`, takes what is called from the static runtime, which holds libc.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Sequence

from kiln.base.errors import three_lines
from kiln.base.lazy import LazyModule, pathlib
from kiln.core.engines.linking import LinkedCode, Unlinkable
from kiln.engines.native.library.constants import constants_of
from kiln.engines.native.library.linking import (
    Options,
    Ready,
    check,
    embedded,
    entry_of,
    linked,
)
from kiln.engines.native.library.object_files import data_file
from kiln.engines.native.library.selection import runtime_file
from kiln.engines.native.library.wrappers import (
    Entry,
    wrappers_text,
)
from kiln.engines.native.llvm.assembly import assemble
from kiln.engines.native.llvm.generation import effort_for
from kiln.engines.native.llvm.linking import ENTRY
from kiln.engines.native.llvm.target import Target

importlib_util = LazyModule("importlib.util")
subprocess = LazyModule("subprocess")
tempfile = LazyModule("tempfile")

MOST_MEMORY = 1 << 30
"""Bytes of a module's memory: sizes of the runtime's scratch memory, at most four times those of
operands, then fit in 32 bits."""
_STACK = 4 << 20
_OWN = "exported."
_DEFINED = re.compile(rf"^(define .*@{re.escape(_OWN)}(\w+)\(.*\) #0)", re.MULTILINE)


def linked_module(
    prefix: str, functions: Sequence[Ready], target: Target, options: Options
) -> LinkedCode:
    """Return a WebAssembly module that exports functions, its memory, and what allocates memory.

    Beside it is a static library, which other modules link with a libc of their own.

    Raises: Unlinkable for programs that call Python or routines of LAPACK, and for options that
        modules do not have; NotImplementedError without a static runtime, or without zig.
    """
    _check_options(options)
    for function in functions:
        check(function, blas=False)
    runtime, linker = runtime_file(target), _linker(target)
    constants = constants_of([value for f in functions for _, value in embedded(f)])
    files: dict[str, bytes] = {}
    entries = []
    for number, function in enumerate(functions):
        name = f"{ENTRY}.{number}"
        text = function.written.llvm.replace(f"@{ENTRY}(", f"@{name}(")
        files[f"code{number}.o"] = assemble(text, target, effort_for(function.written.function))
        entries.append(entry_of(function, name, constants, needs_scratch=True))
    files["calls.o"] = assemble(_calls(prefix, functions, entries), target)
    if constants.blocks:
        data = {constants.symbols[key]: block for key, block in constants.blocks.items()}
        files["constants.o"] = data_file(data, target)
    module = _linked(files, runtime, linker)
    return dataclasses.replace(linked(prefix, functions, target, options), module=module)


def _calls(prefix: str, functions: Sequence[Ready], entries: Sequence[Entry]) -> str:
    """Return the exported functions.

    In the module they have other names: a user's function may be called `exp`, as one of libc is.
    """
    own = [dataclasses.replace(f, symbol=f"{_OWN}{f.symbol}") for f in functions]
    text = wrappers_text(f"{_OWN}{prefix}", own, entries, threads=False, file=None, allocates=True)
    return _DEFINED.sub(r'\1 "wasm-export-name"="\2"', text)


def _check_options(options: Options) -> None:
    if options.threads:
        raise Unlinkable(
            "threads=True gives contexts threads, and a WebAssembly module has one",
            "leave threads out",
        )
    if options.mapped:
        raise Unlinkable(
            "mapped=True maps a file, and a WebAssembly module has no files",
            "leave mapped out: constants are data of the module",
        )


def _linker(target: Target) -> list[str]:
    """Return the command of LLVM's linker for WebAssembly, which the package ziglang brings."""
    if importlib_util.find_spec("ziglang") is None:
        raise NotImplementedError(
            three_lines(
                f"a library for target {target.name}",
                "modules are linked by the linker of zig, and the package ziglang is missing",
                "pip install ziglang",
            )
        )
    return [sys.executable, "-m", "ziglang", "wasm-ld"]


def _linked(files: dict[str, bytes], runtime: str, linker: Sequence[str]) -> bytes:
    with tempfile.TemporaryDirectory() as made:
        work = pathlib.Path(made)
        for name, content in files.items():
            (work / name).write_bytes(content)
        command = [
            *linker,
            "-o",
            "module.wasm",
            *files,
            runtime,
            "--no-entry",
            "--gc-sections",
            "--strip-all",
            # Functions whose types differ would be replaced by ones that trap.
            "--fatal-warnings",
            # A stack that overflows traps, and does not overwrite data.
            "--stack-first",
            "-z",
            f"stack-size={_STACK}",
            f"--max-memory={MOST_MEMORY}",
            "-O2",
        ]
        done = subprocess.run(command, cwd=made, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(
                three_lines(
                    f"linking a WebAssembly module with {' '.join(linker)}",
                    done.stderr.strip() or f"the linker ended with status {done.returncode}",
                    "build the static runtime again: make cross",
                )
            )
        module: bytes = (work / "module.wasm").read_bytes()
    return module
