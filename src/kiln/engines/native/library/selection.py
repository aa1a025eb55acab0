"""Which members of the static runtime a library needs, and the names of its symbols."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Collection, Sequence

from kiln import _runtime
from kiln.base.errors import three_lines
from kiln.base.lazy import pathlib
from kiln.engines.native.library.archive import Member, read_archive
from kiln.engines.native.library.object_files import object_file
from kiln.engines.native.library.symbols import ObjectFile
from kiln.engines.native.llvm.target import Target

_OWN = ".cc.o"
_TAG = "__c_longjmp"
"""The tag of longjmp's exceptions in WebAssembly: one for all libraries of a program."""
WITH_BLAS, WITHOUT_BLAS = "with_blas.cc.o", "without_blas.cc.o"
"""The members that hold the table of routines of BLAS and LAPACK: filled, or empty."""
WITH_THREADS, WITHOUT_THREADS = "threads.cc.o", "one_thread.cc.o"
"""The members that run parallel loops."""


def members_left_out(*, blas: bool, threads: bool) -> set[str]:
    """Return the members that are left out in favor of others with the same symbols."""
    return {WITHOUT_BLAS if blas else WITH_BLAS, WITHOUT_THREADS if threads else WITH_THREADS}


def runtime_file(target: Target) -> str:
    """Return the path of a target's static runtime.

    Raises: NotImplementedError if this build of kiln has none for it.
    """
    path = pathlib.Path(_runtime.__file__).parent / f"_runtime.{target.name}.a"
    if not path.exists():
        built = sorted(p.name[len("_runtime.") : -2] for p in path.parent.glob("_runtime.*.a"))
        command = "make demo" if target.triple == "x86_64" else "make cross"
        other = f"; there are: {', '.join(built)}" if built else ""
        raise NotImplementedError(
            three_lines(
                f"a library for target {target.name}",
                f"this build of kiln has no static runtime for it: {path.name} is missing{other}",
                f"build it in a checkout of kiln: {command}",
            )
        )
    return str(path)


@functools.cache
def runtime_members(target: Target) -> dict[str, ObjectFile]:
    """Return the members of a target's static runtime by name.

    Raises: NotImplementedError if this build of kiln has none for it.
    """
    archive = pathlib.Path(runtime_file(target)).read_bytes()
    return {
        name: object_file(content)
        for name, content in read_archive(archive)
        # That of WebAssembly holds a libc too, which is for closed modules.
        if name.endswith(_OWN)
    }


def needed_members(
    needed: Collection[str], runtime: dict[str, ObjectFile], excluded: Collection[str]
) -> tuple[list[str], set[str]]:
    """Return the members that define what is needed, and the symbols that none defines."""
    defined_by = {
        symbol.name: name
        for name, file in runtime.items()
        if name not in excluded
        for symbol in file.symbols()
        if symbol.is_defined
    }
    waiting, found, unknown = list(needed), dict[str, None](), set[str]()
    while waiting:
        name = waiting.pop()
        member = defined_by.get(name)
        if member is None:
            unknown.add(name)
        elif member not in found:
            found[member] = None
            waiting += [s.name for s in runtime[member].symbols() if not s.is_defined]
    order = [name for name in runtime if name in found]
    return order, unknown


def with_prefix(prefix: str, members: Sequence[Member], public: Collection[str]) -> list[Member]:
    """Return members whose internal symbols have a prefix and are hidden.

    Several libraries of kiln, of any versions, may be linked into one program. If several members
    define a public name, it is the first one's: a user's function may be called `sort`, as a kernel
    is, which the other members then mean.
    """
    files = [(name, object_file(content)) for name, content in members]
    defined = [[s.name for s in file.symbols() if s.is_defined] for _, file in files]
    times = Counter(name for names in defined for name in names)
    internal = {n: f"{prefix}_{n}" for n in times.keys() - set(public) - {_TAG}}
    shared = {n: f"{prefix}_{n}" for n in public if times[n] > 1}
    made, owned = [], set[str]()
    for (name, file), own in zip(files, defined, strict=True):
        kept = set(own) - owned
        owned |= kept
        rename = internal | {n: new for n, new in shared.items() if n not in kept}
        made.append((name, file.renamed(rename.get)))
    return made
