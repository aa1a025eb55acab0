"""Which programs are kept on disk, under which names, and how they are loaded.

A program for the host is named by its jaxpr, so that code from another process runs before the
compiler is even loaded. Other programs are first written in the language of their engine, and named
by that text.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from typing import Any, cast

from kiln.base.errors import JaxRuntimeError
from kiln.base.lazy import blake2, shared_compilation
from kiln.base.options.config import Options, options
from kiln.base.process.identity import process_count
from kiln.core.engines.engine import (
    CHECKS,
    Compiler,
    Executable,
    PortableCompiler,
    Program,
    StoringEngine,
    engine,
)
from kiln.execution import dumping
from kiln.execution.disk_cache import Entry, Folder, counts, folder
from kiln.execution.engine_choice import (
    HOST_COMPILER,
    Choice,
    compiling,
    may_be_for_host,
)
from kiln.execution.own_code import code_digest
from kiln.ir.analysis.digest import Unnameable, portable_bytes, weight

ENOUGH = 8
"""Programs for the host with fewer equations compile in about the time of a lookup."""

_FOUND = "what the cache on disk has of a program"
_FOR_TRACES = ("mesh", "default_mesh", "logical_axis_rules", "user_contexts")
"""Options that affect only what is recorded."""


class _Place:
    """The place of a program on disk, now or later: `entry` is what it holds.

    The folder is None if the cache is off, and processes share what they compile. `is_for_all` says
    that the program runs in several processes, `is_shared` that they have one name for it.
    """

    __slots__ = ("entry", "folder", "is_for_all", "is_shared", "name")

    def __init__(self, place: Folder | None, name: str) -> None:
        self.folder, self.name = place, name
        self.is_for_all, self.is_shared = False, True
        self.entry = None if place is None else place.get(name)
        if place is not None and self.entry is None:
            counts.misses += 1

    def put(self, entry: Entry) -> None:
        """Write the program to disk."""
        if self.folder is not None:
            self.folder.put(self.name, entry)


def choice_for(choice: Choice, program: Program) -> Choice:
    """Return the engine of a program whose place was chosen, as `compiling` does.

    That of a program on disk is known without querying what the engine can compile.
    """
    place = _place_for_host(choice, program)
    # Other programs may be made of the same jaxpr meanwhile.
    program.jaxpr.memo[_FOUND] = program, place
    if place is not None and place.entry is not None:
        return Choice(place.entry.engine, place.entry.reason)
    return compiling(choice, program)


def executable_of(choice: Choice, program: Program) -> Executable:
    """Return a program ready to run: from disk, or compiled, and then kept there."""
    compiler = choice.engine.compiler if choice.name != HOST_COMPILER else None
    known, place = program.jaxpr.memo.pop(_FOUND, (None, None))
    if known is not program or choice.name != HOST_COMPILER:
        place = _place_of(choice, program, compiler)
    if place is None:
        return choice.engine.compiler.compile(program)
    if place.entry is not None and place.folder is not None:
        found = _loaded_from(place, place.entry, choice, program)
        if found is not None:
            counts.hits += 1
            if options().log_compiles:
                dumping.log("%s was loaded from %s", program.name, place.folder.path)
            return found
    shared = None
    if place.is_shared and _shares():
        shared = shared_compilation.claim(place.name, place.folder, is_for_all=place.is_for_all)
    if shared is None:
        return _compiled(choice, program, place)[0]
    try:
        received = shared.received(program.name)
        if received is not None:
            found = _loaded_from(place, received, choice, program)
            if found is not None:
                if options().log_compiles:
                    dumping.log("%s was received from another process", program.name)
                return found
        made, entry = _compiled(choice, program, place)
        shared.publish(entry)
    finally:
        shared.fail()
    return made


def _compiled(choice: Choice, program: Program, place: _Place) -> tuple[Executable, Entry | None]:
    """Compile a program and keep it; return it and what is kept, if it has a stored form."""
    start = time.perf_counter()
    made = choice.engine.compiler.compile(program)
    return made, _keep(choice, program, made, place, time.perf_counter() - start)


def _loaded_from(
    place: _Place, entry: Entry, choice: Choice, program: Program
) -> Executable | None:
    """Return a program ready to run; None, and remove it from disk, if it cannot be loaded."""
    try:
        found = _loaded(choice, program, entry)
    except JaxRuntimeError as error:
        lines = str(error).splitlines()
        if place.folder is not None:
            place.folder.reject(place.name, lines[1] if len(lines) > 1 else lines[0])
        return None
    if choice.name == HOST_COMPILER:
        _keep_better(choice, program, found, place, entry.seconds)
    return found


def _loaded(choice: Choice, program: Program, entry: Entry) -> Executable:
    if choice.name == HOST_COMPILER:
        return _host().from_stored(program, entry.code)
    compiler: Any = choice.engine.compiler
    return compiler.load(program, entry.code)  # type: ignore[no-any-return]


def _keep(
    choice: Choice, program: Program, made: Executable, place: _Place, seconds: float
) -> Entry | None:
    """Write an executable to disk, and return the entry, if it has a stored form."""
    code: bytes | None
    if choice.name == HOST_COMPILER:
        code = _host().to_stored(made)
        if code is not None:
            _keep_better(choice, program, made, place, seconds)
    else:
        compiler: Any = choice.engine.compiler
        try:
            code = compiler.serialize(made)
        except (ValueError, JaxRuntimeError):
            # For example, XLA cannot serialize sorts.
            code = None
    if code is None:
        return None
    entry = _entry(choice, program, seconds, code)
    place.put(entry)
    return entry


def _keep_better(
    choice: Choice, program: Program, made: Executable, place: _Place, seconds: float
) -> None:
    """Replace the assembler's code on disk by LLVM's, once the program has it."""
    host = _host()

    def again() -> None:
        code = host.to_stored(made)
        if code is not None:
            place.put(entry(code))

    entry = functools.partial(_entry, choice, program, seconds)
    host.when_improved(made, again)


def _entry(choice: Choice, program: Program, seconds: float, code: bytes) -> Entry:
    return Entry(choice.name, choice.reason, program.name, seconds, code)


def _place_for_host(choice: Choice, program: Program) -> _Place | None:
    """Return the place of a program for the host, if it is to be kept."""
    chosen = options()
    if (
        not _is_kept(chosen)
        or program.sizes
        or _is_watched(chosen)
        or program.engine_options
        or not may_be_for_host(choice, program)
        or any(name == CHECKS for name, _ in program.compiler_options)
        or weight(program.jaxpr, ENOUGH) < ENOUGH
    ):
        return None
    place = folder()
    if place is None and not _shares():
        return None
    host = _host()
    device = None if program.placement is None else len(program.placement.devices)
    affecting = [
        (field.name, getattr(chosen, field.name))
        for field in dataclasses.fields(chosen)
        if field.metadata.get("in_key") and field.name not in _FOR_TRACES
    ]
    try:
        described = portable_bytes(
            program.jaxpr,
            program.name,
            program.compiler_options,
            program.constants,
            program.donated,
            device,
            affecting,
            host.machine(),
        )
    except Unnameable:
        return None
    return _named(place, HOST_COMPILER, described)


def _place_of(choice: Choice, program: Program, compiler: Compiler | None) -> _Place | None:
    """Return the place of a program on disk, if it is to be kept."""
    chosen = options()
    if not _is_kept(chosen) or _is_watched(chosen):
        return None
    if compiler is None:
        # It was evicted, or the choice was made elsewhere.
        return _place_for_host(choice, program)
    if not isinstance(compiler, PortableCompiler):
        return None
    place = folder()
    digest = None if place is None and not _shares() else compiler.digest(program)
    named = None if digest is None else _named(place, choice.name, digest.encode())
    if named is not None:
        named.is_for_all = _is_shared(program)
        named.is_shared = named.is_for_all or program.placement is None
    return named


def _host() -> StoringEngine:
    # Checking the protocol would load its compiler.
    return cast(StoringEngine, engine(HOST_COMPILER))


def _is_kept(chosen: Options) -> bool:
    """Tell whether compiled programs are kept on disk, or given to other processes."""
    return bool(chosen.disk_cache and chosen.cache_dir) or _shares()


def _shares() -> bool:
    """Tell whether processes give each other what they compile."""
    return process_count() > 1 and bool(shared_compilation.shares())


def _named(place: Folder | None, engine_name: str, described: bytes) -> _Place | None:
    own = code_digest(place, engine_name)
    if own is None:
        return None
    found = blake2.blake2b(f"{engine_name} {own} ".encode(), digest_size=32)
    found.update(described)
    return _Place(place, found.hexdigest())


def _is_watched(chosen: Options) -> bool:
    """Tell whether an option requires that the program is really compiled."""
    return bool(chosen.dump or chosen.check or chosen.profile)


def _is_shared(program: Program) -> bool:
    """Tell whether several processes run parts of a program."""
    placement = program.placement
    return placement is not None and len({d.process_index for d in placement.devices}) > 1
