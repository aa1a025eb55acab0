"""Portable artifacts: StableHLO that later releases of XLA can read, on other machines."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from kiln.base.errors import UnsupportedPrimitive, three_lines
from kiln.base.source import current_source
from kiln.core.engines.artifacts import Artifact
from kiln.core.engines.engine import Program
from kiln.engines.xla.program_module import lowered_program
from kiln.engines.xla.runtime.binding import XlaError
from kiln.engines.xla.stablehlo.imported import for_types
from kiln.engines.xla.stablehlo.mlir import bindings, from_artifact, to_artifact
from kiln.engines.xla.stablehlo.module import Export
from kiln.ir.sizes.facts import facts_of
from kiln.ir.sizes.size import names
from kiln.ir.sizes.solving import steps
from kiln.ir.sizes.values import example, substitute
from kiln.ir.types import ShapedArray

_TARGET = re.compile(r'call_target_name = "([^"]*)"|stablehlo\.custom_call @([\w.$]+)')
_OPERATION = re.compile(r"'(stablehlo\.\w+)' op")
_KEPT = re.compile(r"(lapack|cusolver)_\w+_ffi|shape_assertion")
"""Routines whose names and operands are stable across releases of jaxlib."""
_ON_CPU = "lapack_"
_ANY = "ALL"


def artifact(
    program: Program, platforms: Sequence[str], allowed_calls: Collection[str]
) -> Artifact:
    """Return a program as an artifact for some platforms.

    Raises: NotImplementedError, naming what cannot be stored.
    """
    asked = f"export of {program.name} for {', '.join(platforms)} at {current_source()}"
    _check_names(asked, program)
    export = Export(tuple(platforms), program.sizes)
    lowered = lowered_program(program, export=export)
    if lowered.callbacks or lowered.effects or lowered.ordered:
        raise NotImplementedError(
            three_lines(
                asked,
                "serialization of host_callbacks is not yet implemented: the program calls "
                "Python functions, which cannot be stored with it",
                "leave callbacks, debug.print and kiln.check out of the exported function",
            )
        )
    _check_calls(asked, lowered.text, platforms, allowed_calls)
    if not export.sizes:
        return Artifact(to_artifact(lowered.text), export.is_refined)
    return Artifact(_for_all_sizes(asked, program, lowered.text, len(platforms) > 1), True)


def _check_names(asked: str, program: Program) -> None:
    """Raise for sizes that cannot be computed from those of the arguments."""
    avals = program.jaxpr.in_avals
    found = {step.name for step in steps([aval.shape for aval in avals])}
    facts = facts_of(*[dim for aval in avals for dim in aval.shape])
    for fact in facts.facts if facts is not None else ():
        others = [name for name in names(fact.difference) if name not in program.sizes]
        if others:
            raise ValueError(
                three_lines(
                    asked,
                    f"the constraint {fact.text} mentions {', '.join(others)}, which no argument "
                    "has as a size: it could not be checked",
                    "leave the constraint out, or pass an argument with an axis of that size",
                )
            )
    for name in program.sizes:
        if name not in found:
            where = ", ".join(str(aval) for aval in avals if name in names(*aval.shape))
            raise ValueError(
                three_lines(
                    asked,
                    f"Cannot solve for the value of the size {name!r} from the types {where}: a "
                    "name follows from a size that is linear in it, if its other names are known",
                    f"pass an argument with an axis of size {name!r}",
                )
            )


def _for_all_sizes(asked: str, program: Program, text: str, takes_number: bool) -> bytes:
    """Return a module with named sizes as an artifact, after trying it for some sizes.

    Raises: UnsupportedPrimitive if XLA cannot infer some sizes.
    """
    facts = facts_of(*[dim for aval in program.jaxpr.in_avals for dim in aval.shape])
    values = example(program.sizes, facts)
    if values is None:
        return to_artifact(text)

    def tried(avals: Sequence[ShapedArray]) -> list[ShapedArray]:
        return [a.with_(shape=[substitute(dim, values) for dim in a.shape]) for a in avals]

    inputs, outputs = tried(program.jaxpr.in_avals), tried(program.jaxpr.out_avals)
    try:
        stored = to_artifact(text)
        for_types(stored, inputs, outputs, 0 if takes_number else None)
    except (XlaError, ValueError, RuntimeError) as error:
        found = _OPERATION.search(str(error))
        what = found.group(1) if found else str(error).splitlines()[0]
        raise UnsupportedPrimitive(
            three_lines(
                asked,
                f"XLA cannot infer the sizes of this program: those of {what}, for example, are "
                "not known from those of the arguments",
                "export the function for constant sizes, or leave this part out",
            )
        ) from None
    return stored


def _check_calls(
    asked: str, text: str, platforms: Sequence[str], allowed_calls: Collection[str]
) -> None:
    targets = sorted({a or b for a, b in _TARGET.findall(text)})
    others = [platform for platform in platforms if platform != "cpu"]
    for target in targets:
        if target.startswith(_ON_CPU) and others:
            raise UnsupportedPrimitive(
                three_lines(
                    asked,
                    f"the program calls {target}, a routine of LAPACK, which only the cpu has",
                    "export it for platforms=('cpu',), and for other platforms separately",
                )
            )
        if not _KEPT.fullmatch(target) and not {target, _ANY} & set(allowed_calls):
            raise ValueError(
                three_lines(
                    asked,
                    "Cannot serialize code with custom calls whose targets have no compatibility "
                    f"guarantees: {target}",
                    "leave it out, or accept that another release may not run it: "
                    f"disabled_checks=[DisabledSafetyCheck.custom_call({target!r})]",
                )
            )


def artifact_text(stored: bytes) -> str:
    """Return an artifact as StableHLO text.

    Raises: ValueError for bytes that are not an artifact.
    """
    try:
        with bindings():
            return str(from_artifact(stored))
    except (XlaError, ValueError, RuntimeError) as error:
        raise ValueError(
            three_lines(
                f"an artifact of {len(stored)} bytes at {current_source()}",
                f"it is not portable StableHLO that this jaxlib can read: {error}",
                "export the function again, with an older release of kiln or jax",
            )
        ) from None
