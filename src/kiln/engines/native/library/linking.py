"""From programs to a static library."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from kiln.base.records import Record
from kiln.core.engines.linking import LinkedCode, LinkedFunction, Unlinkable
from kiln.engines.native.executables import openblas
from kiln.engines.native.executables.executable import Written, needs_library, shared_results
from kiln.engines.native.executables.value_types import value_type
from kiln.engines.native.library.archive import Member, write_archive
from kiln.engines.native.library.constants import Constants, constants_of, digest
from kiln.engines.native.library.dispatch import dispatch_text, forwarded
from kiln.engines.native.library.object_files import data_file, object_file, undefined
from kiln.engines.native.library.scratch import scratch_bytes, transforms
from kiln.engines.native.library.selection import (
    WITH_BLAS,
    members_left_out,
    needed_members,
    runtime_members,
    with_prefix,
)
from kiln.engines.native.library.wrappers import (
    Entry,
    needed_workspace,
    public_symbols,
    wrappers_text,
)
from kiln.engines.native.llvm.assembly import assemble
from kiln.engines.native.llvm.generation import effort_for
from kiln.engines.native.llvm.linking import ENTRY
from kiln.engines.native.llvm.target import Target
from kiln.engines.native.loop_ir.buffers import everywhere
from kiln.engines.native.loop_ir.statements import Buffer, Function, Kernel, walk
from kiln.engines.native.passes.donation import reusable
from kiln.ir.analysis import aliasing
from kiln.ir.sizes.size import Dim

_HIDDEN_STATE = "kiln_draw_counters"
_SCRATCH = "scratch.cc.o"
_LEVEL = "level.cc.o"
_LAPACK = (
    "kiln_cholesky",
    "kiln_lu_f",
    "kiln_lu_c",
    "kiln_geq",
    "kiln_householder",
    "kiln_eig",
    "kiln_svd",
    "kiln_triangular_solve",
)
"""The beginnings of the names of kernels that cannot do without routines of LAPACK."""


class Ready(LinkedFunction):
    """A function whose program was written for a target, and what was computed of its constants."""

    written: Written
    kept: tuple[np.ndarray, ...]


class Options(Record):
    """What a library is linked with: see `LinkingCompiler.link`."""

    blas: bool
    threads: bool
    mapped: bool


class _Group(Record):
    """The members of a library for one target, and what they use and define."""

    members: tuple[Member, ...]
    public: tuple[str, ...]
    workspaces: tuple[Dim, ...]
    constants: Constants
    externals: frozenset[str]
    needs_blas: bool


def linked(prefix: str, functions: Sequence[Ready], target: Target, options: Options) -> LinkedCode:
    """Return a static library for a target.

    Raises: Unlinkable for programs that call Python, or routines of LAPACK without `blas`.
    """
    group = _group(prefix, functions, target, options, has_data=True)
    members = with_prefix(prefix, group.members, group.public)
    return _code(members, group.public, group, target.name, options)


def dispatched(
    prefix: str, by_level: Mapping[Target, Sequence[Ready]], name: str, options: Options
) -> LinkedCode:
    """Return a static library with code for several levels, the lowest first, over one's constants.

    Raises: Unlinkable for programs that call Python, or routines of LAPACK without `blas`.
    """
    members: list[Member] = []
    groups: list[_Group] = []
    levels = [int(target.name[-1]) for target in by_level]
    for level, (target, functions) in zip(levels, by_level.items(), strict=True):
        own = [dataclasses.replace(f, symbol=f"{f.symbol}_v{level}") for f in functions]
        group = _group(f"{prefix}_v{level}", own, target, options, has_data=not groups)
        shared = group.constants.symbols.values()
        made = with_prefix(f"{prefix}_v{level}", group.members, [*group.public, *shared])
        members += [(f"v{level}_{file}", content) for file, content in made]
        groups.append(group)
    lowest, functions = next(iter(by_level.items()))
    has_file = options.mapped and bool(groups[0].constants.blocks)
    chosen = forwarded(prefix, functions, threads=options.threads, has_file=has_file)
    text = assemble(dispatch_text(chosen, levels), lowest)
    level_code = runtime_members(lowest)[_LEVEL]
    members += [(f"{prefix}.o", text), ("level.o", level_code.image)]
    public = sorted(f"{each.base}{each.ending}" for each in chosen)
    members = with_prefix(prefix, members, public)
    whole = dataclasses.replace(
        groups[0],
        externals=frozenset(undefined([object_file(content) for _, content in members])),
        needs_blas=any(group.needs_blas for group in groups),
    )
    return _code(members, public, whole, name, options)


def _code(
    members: Sequence[Member],
    public: Sequence[str],
    group: _Group,
    target: str,
    options: Options,
) -> LinkedCode:
    is_mapped = options.mapped and bool(group.constants.blocks)
    return LinkedCode(
        archive=write_archive(members),
        public=tuple(public),
        workspaces=group.workspaces,
        constant_bytes=group.constants.nbytes,
        constants_file=group.constants.file() if is_mapped else None,
        externals=tuple(sorted(group.externals - {"_GLOBAL_OFFSET_TABLE_"})),
        target=target,
        needs_blas=group.needs_blas,
        blas_library=openblas.load() if group.needs_blas else None,
    )


def _group(
    prefix: str, functions: Sequence[Ready], target: Target, options: Options, *, has_data: bool
) -> _Group:
    for function in functions:
        check(function, blas=options.blas)
    runtime = runtime_members(target)
    constants = constants_of([value for f in functions for _, value in embedded(f)])
    file = constants.file() if options.mapped and constants.blocks else None
    code: list[Member] = []
    entries: list[Entry] = []
    excluded = members_left_out(blas=options.blas, threads=options.threads)
    for function in functions:
        name = f"{function.symbol}_code"
        image = assemble(function.written.llvm, target, effort_for(function.written.function))
        written = object_file(image)
        called, _ = needed_members(undefined([written]), runtime, excluded)
        code.append((f"{name}.o", written.renamed({ENTRY: name}.get)))
        entry = entry_of(function, name, constants, needs_scratch=_SCRATCH in called)
        entries.append(entry)
    text = wrappers_text(prefix, functions, entries, threads=options.threads, file=file)
    made = [(f"{prefix}.o", assemble(text, target)), *code]
    if constants.blocks and file is None and has_data:
        data = {constants.symbols[key]: block for key, block in constants.blocks.items()}
        made.append((f"{prefix}_constants.o", data_file(data, target)))
    public = public_symbols(prefix, functions, threads=options.threads, has_file=file is not None)
    needed = undefined([object_file(content) for _, content in made])
    # By the name of a public function, code means the runtime's.
    needed |= undefined([object_file(content) for _, content in code]) & set(public)
    names, externals = needed_members(needed, runtime, excluded)
    for name in sorted(externals & set(public)):
        raise Unlinkable(
            f"its code calls {name} of the C library, which a function of that name would replace",
            f"choose another name, such as {name}_of_model",
        )
    return _Group(
        members=(*made, *[(f"{name[:-5]}.o", runtime[name].image) for name in names]),
        public=tuple(public),
        workspaces=tuple(map(needed_workspace, functions, entries)),
        constants=constants,
        externals=frozenset(externals),
        needs_blas=WITH_BLAS in names,
    )


def check(function: Ready, *, blas: bool) -> None:
    """Raise Unlinkable for a program that calls Python, or routines of LAPACK without `blas`."""
    loops = function.written.function
    if loops.callbacks:
        count = len(loops.callbacks)
        raise Unlinkable(
            f"it calls {count} Python function{'s' * (count > 1)}, and a library has no Python",
            "leave callbacks and debug.print out, or return what they would be given",
        )
    if loops.sites:
        raise Unlinkable(
            "its checks report lines of Python",
            "leave check= out of jit, or return what is checked",
        )
    symbols = {each.symbol for each in walk(loops.body) if isinstance(each, Kernel)}
    if _HIDDEN_STATE in symbols:
        raise Unlinkable(
            "it draws random numbers from a hidden state of this process",
            "draw them from a key that is an argument: kiln.random.uniform(key)",
        )
    lapack = sorted(symbol for symbol in symbols if symbol.startswith(_LAPACK))
    if lapack and not blas and needs_library(loops.body):
        raise Unlinkable(
            f"it factors matrices by routines of LAPACK ({', '.join(lapack)})",
            "write blas=True: programs that use the library then link an OpenBLAS too",
        )


def embedded(function: Ready) -> list[tuple[int, np.ndarray]]:
    """Return the embedded operands that the code reads, with their numbers."""
    loops = function.written.function
    first_kept = len(function.program.jaxpr.invars)
    values = [*enumerate(function.constants), *enumerate(function.kept, first_kept)]
    read = _read(loops)
    shared = {operand for _, operand in shared_results(loops)}
    return [(i, value) for i, value in values if loops.inputs[i] in read or i in shared]


def _read(loops: Function) -> set[Buffer]:
    return {buffer for statement in loops.body for buffer in everywhere(statement)}


def entry_of(function: Ready, symbol: str, constants: Constants, *, needs_scratch: bool) -> Entry:
    """Return the code of a program as the functions that C calls see it."""
    written, program = function.written, function.program
    loops = written.function
    wanted = aliasing.reused(program.jaxpr, program.donated)
    return Entry(
        symbol=symbol,
        operands=len(loops.inputs),
        blocks={i: constants.symbols[digest(value)] for i, value in embedded(function)},
        places={i: constants.places[digest(value)] for i, value in embedded(function)},
        result_bytes=tuple([value_type(v.aval)[1] for v in program.jaxpr.outvars]),
        shared=dict(shared_results(loops)),
        taken=dict(reusable(loops, {result: operand for operand, result in wanted.items()})),
        workspace=written.workspace,
        numbers=tuple(written.sizes.numbers),
        scratch=scratch_bytes(loops) if needs_scratch else None,
        transforms=tuple(transforms(loops)),
    )


def ready(function: LinkedFunction, written: Written, kept: Sequence[np.ndarray]) -> Ready:
    """Return a function with its code."""
    fields: Mapping[str, object] = {
        "symbol": function.symbol,
        "program": function.program,
        "constants": function.constants,
        "parameters": function.parameters,
    }
    return Ready(**fields, written=written, kept=tuple(kept))  # type: ignore[arg-type]
