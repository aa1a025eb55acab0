"""Compiled programs as bytes: machine code with all that is needed to call it again.

The program as a portable artifact is stored beside the code: the loaded program uses it for
everything but running.
"""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Sequence
from typing import Any, NoReturn

from kiln.base.errors import JaxRuntimeError, three_lines
from kiln.base.files.checksums import with_checksum, without_checksum
from kiln.base.records import Record
from kiln.base.source import current_source
from kiln.base.tree import PyTreeDef, tree_unflatten
from kiln.control.exported_call import PortableProgram, call_exported_p
from kiln.core.engines.artifacts import artifact_compiler
from kiln.core.engines.engine import Executable, Placement, PortableCompiler, Program, engine
from kiln.execution.compilation import CachedProgram, ProgramKey
from kiln.execution.engine_choice import Choice
from kiln.execution.placement import PlacementRequest, Placer
from kiln.ir.jaxpr import Eqn, Jaxpr, Var
from kiln.ir.types import ShapedArray
from kiln.jit.entry import Recording
from kiln.jit.signatures.argument_binding import CallForm, flatten_call
from kiln.jit.stages.compiled import Compiled

_FORMAT = 2
_LOADED = "it was compiled before, and loaded"


class StoredCompiled(Record):
    """A compiled program in its stored form.

    `kept` numbers the inputs that the code takes: constants first, then leaves of `(args, kwargs)`.
    `donated` uses the same numbers.
    """

    name: str
    engine: str
    code: bytes
    artifact: bytes
    is_refined: bool
    consts: tuple[Any, ...]
    in_avals: tuple[ShapedArray, ...]
    out_avals: tuple[ShapedArray, ...]
    arg_names: tuple[str, ...]
    kept: tuple[int, ...]
    donated: tuple[int, ...]
    compiler_options: tuple[tuple[str, Any], ...]
    place: Placement | None


def stored_form(function: Compiled) -> StoredCompiled:
    """Return a compiled program in its stored form.

    Raises: ValueError for a program that has none: one that calls Python, or for all sizes.
    """
    compiled, placer, consts, form, place = function.parts()
    program, compiler = compiled.program, compiled.engine.compiler
    asked = f"serialize() of the compiled function {placer.name} at {current_source()}"
    if program.sizes:
        _refuse(asked, "it is compiled for all sizes of its named axes")
    if place is not None and len({device.process_index for device in place.devices}) > 1:
        _refuse(asked, "parts of it run in other processes")
    if not isinstance(compiler, PortableCompiler):
        _refuse(asked, f"programs of the {compiled.engine.name} engine have no stored form")
    try:
        code = compiler.serialize(compiled.executable)
        platform = place.devices[0].platform if place is not None else "cpu"
        written = artifact_compiler().artifact(program, (platform,), ("ALL",))
    except (ValueError, NotImplementedError, JaxRuntimeError, AttributeError) as error:
        lines = str(error).splitlines()
        _refuse(asked, lines[1] if len(lines) > 1 else str(error))
    hidden, jaxpr = len(consts), placer.jaxpr
    # Inputs by their numbers in the stored form: constants, then leaves in the order of the call.
    place_of = {i: i for i in range(hidden)}
    place_of |= {hidden + leaf: hidden + at for at, leaf in enumerate(form.order)}
    inputs = range(len(jaxpr.invars))
    at = sorted(inputs, key=place_of.__getitem__)
    if place is not None and place.in_shardings:
        shardings = tuple([place.in_shardings[i] for i in at])
        place = dataclasses.replace(place, in_shardings=shardings)
    names = jaxpr.arg_names or ("",) * len(inputs)
    return StoredCompiled(
        name=placer.name,
        engine=compiled.engine.name,
        code=code,
        artifact=written.stored,
        is_refined=written.is_refined,
        consts=tuple(consts),
        in_avals=tuple([jaxpr.in_avals[i] for i in at]),
        out_avals=tuple(compiled.out_avals),
        arg_names=tuple([names[i] for i in at]),
        kept=tuple([place_of[i] for i in (compiled.kept or inputs)]),
        donated=tuple(sorted(place_of[i] for i in placer.request.donated)),
        compiler_options=program.compiler_options,
        place=place,
    )


def _refuse(asked: str, why: str) -> NoReturn:
    raise ValueError(
        three_lines(
            asked,
            f"Compilation does not support serialization: {why}",
            "store the function as StableHLO: kiln.export.export(f)(*args).serialize()",
        )
    )


def to_bytes(stored: StoredCompiled) -> bytes:
    """Return a stored form as bytes, with a checksum."""
    fields = {f.name: getattr(stored, f.name) for f in _fields()}
    return with_checksum(pickle.dumps((_FORMAT, fields)))


def _fields() -> tuple[Any, ...]:
    return dataclasses.fields(StoredCompiled)


def from_bytes(stored: bytes) -> StoredCompiled:
    """Return a stored form from bytes, which must be trusted: they are unpickled and hold code.

    The checksum detects damage before anything else reads them.

    Raises: ValueError for other bytes.
    """
    try:
        version, values = pickle.loads(without_checksum(stored))
        if version != _FORMAT:
            raise ValueError(f"format {version}, and this kiln has {_FORMAT}")
        return StoredCompiled(**values)
    except Exception as error:  # noqa: BLE001, damaged pickles raise anything
        raise ValueError(
            three_lines(
                f"deserialize_and_load of {len(stored)} bytes at {current_source()}",
                f"they are not what serialize() returns here: {type(error).__name__}: {error}",
                "compile the function again, and store it",
            )
        ) from None


class LoadedProgram(CachedProgram):
    """A program whose executable was loaded: it is never compiled, nor evicted."""

    __slots__ = ()

    def hold(self, executable: Executable) -> None:
        """Take the executable."""
        self._executable = executable
        self._call = executable
        self.size = executable.size_in_bytes()
        self.pinned = True


class LoadedPlacer(Placer):
    """Runs a loaded program on the devices it was compiled for."""

    def __init__(self, stored: StoredCompiled, jaxpr: Jaxpr, request: PlacementRequest) -> None:
        super().__init__(
            jaxpr,
            stored.name,
            hidden=len(stored.consts),
            request=request,
            keep_unused=True,
            compiler_options=stored.compiler_options,
        )
        self._loaded = _loaded(stored, jaxpr)

    def compiled(self, placement: Placement | None) -> CachedProgram:
        """Return the executable, which is for one placement."""
        self._note(self._loaded)
        return self._loaded


def _portable(stored: StoredCompiled) -> PortableProgram:
    kept = [stored.in_avals[i] for i in stored.kept]
    return PortableProgram(
        name=stored.name,
        stored=stored.artifact,
        in_avals=tuple(kept),
        out_avals=stored.out_avals,
        arg_names=tuple([stored.arg_names[i] for i in stored.kept]),
        kept=tuple(range(len(kept))),
        platforms=(stored.place.devices[0].platform if stored.place is not None else "cpu",),
        nr_devices=len(stored.place.devices) if stored.place is not None else 1,
        is_refined=stored.is_refined,
    )


def _call_of(stored: StoredCompiled, inputs: Sequence[Var], used: Sequence[Var]) -> Jaxpr:
    outs = [Var(aval) for aval in stored.out_avals]
    eqn = Eqn(call_exported_p, list(used), outs, {"program": _portable(stored)})
    return Jaxpr([], inputs, [eqn], outs, name=stored.name)


def _loaded(stored: StoredCompiled, jaxpr: Jaxpr) -> LoadedProgram:
    used = [Var(stored.in_avals[i]) for i in stored.kept]
    place = stored.place
    if place is not None and place.in_shardings:
        shardings = tuple([place.in_shardings[i] for i in stored.kept])
        place = dataclasses.replace(place, in_shardings=shardings)
    donated = tuple([n for n, i in enumerate(stored.kept) if i in stored.donated])
    program = Program(
        _call_of(stored, used, used), stored.name, stored.compiler_options, donated, place
    )
    choice = Choice(stored.engine, _LOADED)
    compiler: Any = engine(stored.engine).compiler
    executable = compiler.load(program, stored.code)
    made = LoadedProgram(
        ProgramKey("loaded", id(program)), program, choice, list(stored.kept), jaxpr
    )
    made.hold(executable)
    return made


def compiled_from(stored: StoredCompiled, in_tree: PyTreeDef, out_tree: PyTreeDef) -> Compiled:
    """Return a stored program, ready to be called with arguments of a given structure.

    Raises: ValueError for structures of other numbers of leaves; JaxRuntimeError if the code cannot
        be loaded here.
    """
    hidden = len(stored.consts)
    given, returned = len(stored.in_avals) - hidden, len(stored.out_avals)
    if in_tree.num_leaves != given or out_tree.num_leaves != returned:
        raise ValueError(
            three_lines(
                f"deserialize_and_load of {stored.name} at {current_source()}",
                f"it has {given} arguments and {returned} results, and the trees "
                f"{in_tree.num_leaves} and {out_tree.num_leaves} leaves",
                "pass the trees that serialize() returned with the bytes",
            )
        )
    args, kwargs = tree_unflatten(in_tree, list(range(given)))
    leaves, tree = flatten_call(args, kwargs)
    # The code knows leaves by their numbers in `in_tree`; the call flattens them as `tree` says.
    at = [*range(hidden), *[hidden + leaf for leaf in leaves]]
    stored = _renumbered(stored, at)
    inputs = [Var(aval) for aval in stored.in_avals]
    jaxpr = _call_of(stored, inputs, [inputs[i] for i in stored.kept])
    jaxpr = jaxpr.with_(arg_names=stored.arg_names)
    recording = Recording(jaxpr, list(stored.consts), out_tree, stored.name)
    placer = LoadedPlacer(stored, jaxpr, PlacementRequest(donated=stored.donated))
    order = tuple([leaves.index(i) for i in range(given)])
    form = CallForm(in_tree, tree, order, ())
    committed = (None,) * len(inputs)
    return Compiled(recording, stored.consts, placer, committed, form, stored.place)


def _renumbered(stored: StoredCompiled, at: Sequence[int]) -> StoredCompiled:
    """Return a stored form whose input n is the original input at[n]."""
    number = {old: new for new, old in enumerate(at)}
    place = stored.place
    if place is not None and place.in_shardings:
        shardings = tuple([place.in_shardings[i] for i in at])
        place = dataclasses.replace(place, in_shardings=shardings)
    return dataclasses.replace(
        stored,
        in_avals=tuple([stored.in_avals[i] for i in at]),
        arg_names=tuple([stored.arg_names[i] for i in at]),
        kept=tuple([number[i] for i in stored.kept]),
        donated=tuple(sorted(number[i] for i in stored.donated)),
        place=place,
    )
