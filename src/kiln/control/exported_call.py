"""`call_exported`: a stored StableHLO program inside one of kiln's programs.

XLA compiles the StableHLO; for other engines it is expanded into kiln's own primitives, if they
include all of its operations. It has no derivative of its own; `kiln.export` adds that of the
program stored beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from kiln.base.dtypes import long_name
from kiln.base.errors import InconclusiveSizeError, UnsupportedPrimitive, three_lines
from kiln.base.records import Record
from kiln.base.source import current_source
from kiln.base.weak import WeakKeyDictionary
from kiln.control.call import jit_p
from kiln.control.loops.loops import map as sequential_map
from kiln.control.regions.region import merge, select_by
from kiln.core.arrays.array import ConcreteArray, from_host, host_value
from kiln.core.engines.artifacts import LARGE, artifact_compiler
from kiln.core.meaning import meaning
from kiln.core.primitive import Primitive
from kiln.core.trace import aval_of
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.shardings.sharding import NamedSharding
from kiln.ir.sizes.facts import broken, facts_of
from kiln.ir.sizes.size import Dim, names
from kiln.ir.sizes.solving import misfits, solve
from kiln.ir.sizes.values import substitute
from kiln.ir.types import ShapedArray
from kiln.ops.shape import move_axis

ANY_PLATFORM = "platform"
"""The name of the safety check of platforms: if disabled, a program may run on any platform."""


_KINDS: Mapping[str, tuple[str, ...]] = {"gpu": ("cuda", "rocm")}
"""The names in artifacts for platforms that kiln calls by one name."""
_HOST = "cpu"


class PortableProgram(Record):
    """A stored program: a portable StableHLO artifact, with the types it was written for.

    Types may have named sizes. `kept` numbers the inputs that the artifact takes, `arg_names` names
    the inputs in messages. With `is_refined`, sizes or the platform are decided when it is
    compiled. Shardings are over meshes without devices; None means any sharding.
    """

    name: str
    stored: bytes
    in_avals: tuple[ShapedArray, ...]
    out_avals: tuple[ShapedArray, ...]
    arg_names: tuple[str, ...]
    kept: tuple[int, ...]
    platforms: tuple[str, ...]
    any_platform: bool = False
    nr_devices: int = 1
    in_shardings: tuple[NamedSharding | None, ...] = ()
    out_shardings: tuple[NamedSharding | None, ...] = ()
    is_refined: bool = False

    def __repr__(self) -> str:
        return f"<{self.name}: {len(self.stored)} bytes for {', '.join(self.platforms)}>"


def sizes_of_call(program: PortableProgram, avals: Sequence[ShapedArray]) -> dict[str, Dim]:
    """Return the values of a program's named sizes for operands of these types.

    Raises: ValueError naming the arguments that do not fit.
    """
    wrong = []
    for i, (wanted, aval) in enumerate(zip(program.in_avals, avals, strict=True)):
        if wanted.ndim != aval.ndim:
            wrong.append(f"Rank mismatch for {program.arg_names[i]}: expected {wanted}, got {aval}")
        elif wanted.dtype != aval.dtype:
            wrong.append(
                f"Dtype mismatch for {program.arg_names[i]}: expected {long_name(wanted.dtype)}, "
                f"got {long_name(aval.dtype)}"
            )
    if wrong:
        _refuse(program, "; ".join(wrong))
    patterns, shapes = [a.shape for a in program.in_avals], [a.shape for a in avals]
    try:
        values = solve(patterns, shapes)
        wanted_names = {name for row in patterns for name in names(*row)}
        for name in sorted(wanted_names - values.keys()):
            where = next(
                f"{program.arg_names[i]} of shape {aval.shape} (declared {wanted.shape})"
                for i, (wanted, aval) in enumerate(zip(program.in_avals, avals, strict=True))
                if name in names(*wanted.shape)
            )
            _refuse(program, f"the size {name!r} has no solution for {where}")
        for name, value in values.items():
            if not value >= 1:
                _refuse(program, f"Expected value >= 1 for the size {name!r}, got {value}")
        wrong.extend(_broken(program, values))
        for at in misfits(patterns, shapes, values):
            wanted, aval = program.in_avals[at.array], avals[at.array]
            wrong.append(
                f"Shape mismatch for {program.arg_names[at.array]}.shape[{at.axis}]: it is "
                f"{aval.shape[at.axis]} and should be {at.wanted} (declared {wanted.shape})"
            )
    except InconclusiveSizeError as error:
        compared = str(error).splitlines()[0].removeprefix("sizes: ")
        _refuse(program, f"sizes that cannot be compared: {compared}")
    if wrong:
        _refuse(program, "; ".join(wrong))
    return values


def _broken(program: PortableProgram, values: dict[str, Dim]) -> list[str]:
    """Return the violated constraints on the program's named sizes, as text."""
    facts = facts_of(*[dim for aval in program.in_avals for dim in aval.shape])
    found = None if facts is None else broken(facts, values, substitute)
    if found is None:
        return []
    fact, difference = found
    wanted = "equal" if fact.is_equality else "greater or equal"
    given = ", ".join(f"{name}={values[name]}" for name in names(fact.difference))
    wrong = (
        f"Input shapes do not match the symbolic shape constraint {fact.text}: for {given}, "
        f"{fact.difference} should be {wanted} to 0, and is {difference}"
    )
    return [wrong]


def number_of_platform(program: PortableProgram, platform: str) -> int:
    """Return the number of a platform among those of a stored program.

    Raises: ValueError if it was exported for others.
    """
    for name in (platform, *_KINDS.get(platform, ())):
        if name in program.platforms:
            return program.platforms.index(name)
    if program.any_platform:
        return 0
    raise ValueError(
        three_lines(
            f"call of the exported function {program.name} on {platform} at {current_source()}",
            f"Function '{program.name}' was exported for platforms '{program.platforms}' but it is "
            f"used on '{platform}'",
            f"export it with platforms={(*program.platforms, platform)!r}",
        )
    )


def _refuse(program: PortableProgram, why: str) -> NoReturn:
    raise ValueError(
        three_lines(
            f"call of the exported function {program.name} at {current_source()}",
            why,
            "pass arrays of the types it was exported for (Exported.in_avals), or export it again "
            "for these, with named sizes where they vary (kiln.export.symbolic_shape)",
        )
    )


_expanded: WeakKeyDictionary[PortableProgram, dict[Any, Jaxpr]] = WeakKeyDictionary()
"""For each stored program, the jaxprs for the types that it was called with."""
_MOST_TYPES = 16
"""Of each program, the jaxprs for this many types are kept: one with named sizes has any number."""
_constants: WeakKeyDictionary[PortableProgram, list[ConcreteArray]] = WeakKeyDictionary()
"""For each stored program, its large constants."""


def expanded(program: PortableProgram, avals: Sequence[ShapedArray]) -> Jaxpr:
    """Return a stored program as a jaxpr of the inputs that it keeps, for the first CPU device.

    The types are those of the inputs, and of the large constants if these are inputs too.

    Raises: UnsupportedPrimitive if kiln lacks one of its operations, or it is for several devices;
        ValueError if it is not for CPUs.
    """
    known = _expanded.setdefault(program, {})
    types = tuple([aval.with_(weak_type=False) for aval in avals])
    found = known.get(types)
    if found is None:
        found = known[types] = _raised(program, types)
        if len(known) > _MOST_TYPES:
            known.pop(next(iter(known)), None)
    return found


def _raised(program: PortableProgram, types: Sequence[ShapedArray]) -> Jaxpr:
    asked = f"call of the exported function {program.name} at {current_source()}"
    if program.nr_devices > 1:
        raise UnsupportedPrimitive(
            three_lines(
                asked,
                f"the exported function {program.name} is for {program.nr_devices} devices",
                "export it for one device: without shardings",
            )
        )
    results = call_exported_p.infer(*types, program=program)
    number = number_of_platform(program, _HOST)
    count = len(program.in_avals)
    return artifact_compiler().raised_artifact(
        program.name,
        program.stored,
        [types[i] for i in program.kept],
        results,
        number if len(program.platforms) > 1 else None,
        program.is_refined,
        [host_value(x) for x in large_constants(program)] if len(types) > count else [],
    )


def _kept(program: PortableProgram, operands: Sequence[Any]) -> list[Any]:
    return [*[operands[i] for i in program.kept], *operands[len(program.in_avals) :]]


def large_constants(program: PortableProgram) -> list[ConcreteArray]:
    """Return the large constants of a stored program as arrays, each once.

    Raises: ValueError if the program cannot be read.
    """
    if program.nr_devices > 1 or len(program.stored) < LARGE:
        return []
    found = _constants.get(program)
    if found is None:
        arrays = artifact_compiler().large_constants(program.stored)
        found = _constants[program] = [from_host(x) for x in arrays]
    return found


class CallExported(Primitive):
    """Run a stored program on its inputs.

    All its large constants may follow the inputs. Engines that expand it then compile it as a
    function that closes over these arrays: they keep them once, in the layout that they need.
    """

    name = "call_exported"
    multiple = True

    def infer(self, *avals: ShapedArray, program: PortableProgram) -> list[ShapedArray]:
        values = sizes_of_call(program, avals[: len(program.in_avals)])
        return [
            aval.with_(shape=[substitute(dim, values) for dim in aval.shape])
            for aval in program.out_avals
        ]

    def numpy(self, *arrays: Any, program: PortableProgram) -> Any:
        avals = [ShapedArray(x.shape, x.dtype) for x in arrays]
        return meaning(expanded(program, avals), _kept(program, arrays))

    def expand(self, *xs: Any, program: PortableProgram) -> Any:
        jaxpr = expanded(program, [aval_of(x) for x in xs])
        return jit_p.bind(*_kept(program, xs), jaxpr=jaxpr, name=program.name)

    def batch(
        self, size: Any, xs: Sequence[Any], axes: Sequence[Any], /, *, program: PortableProgram
    ) -> Any:
        # The shapes of a stored program are fixed: it runs once for each element.
        stacked = [axis is not None for axis in axes]
        leaves = [x if a is None else move_axis(x, a, 0) for x, a in zip(xs, axes, strict=True)]

        def one(elements: Any) -> Any:
            merged = merge(stacked, elements, select_by(stacked, leaves, False))
            return self.bind(*merged, program=program)

        outs = sequential_map(one, select_by(stacked, leaves))
        return outs, [0] * len(outs)


call_exported_p = CallExported()
