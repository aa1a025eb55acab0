"""Applying an entry to the leaves of a call: run it, or bind it as one equation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.base.lazy import references
from kiln.base.options.config import Options, options
from kiln.base.source import api_boundary, current_source
from kiln.base.tree import tree_unflatten
from kiln.control.call import jit_p
from kiln.core.arrays.placement import together
from kiln.core.arrays.transfers import called
from kiln.core.ref import check_distinct
from kiln.core.staging import eval_jaxpr, recording
from kiln.core.trace import state
from kiln.execution.compilation import WrongDevice
from kiln.execution.inspection import inspect_program
from kiln.execution.placement import NO_REQUEST
from kiln.ir.sizes.assumptions import assume_not_zero
from kiln.jit.compiler_options import Settings, nested, of_whole_programs
from kiln.jit.entry import Entry
from kiln.jit.placement_options import constrained


def run(entry: Entry, values: Sequence[Any], opts: Options) -> list[Any]:
    """Return the flat results of an entry for concrete values, its constants first."""
    direct = entry.direct if opts.plain else None
    if direct is None:
        outs = _placed(entry, values, opts)
    else:
        try:
            outs = direct(values)
        except WrongDevice:
            outs = _placed(entry, values, opts)
    if opts.checks_values:
        inspect_program(entry.recording.name, entry.recording.jaxpr, values, outs)
    return outs


@api_boundary
def _placed(entry: Entry, values: Sequence[Any], opts: Options) -> list[Any]:
    """Run an entry where its arguments require, compiling it for that placement if needed."""
    if opts.guards_transfers:
        called(values[len(entry.consts) :])
    return entry.run_for(values)(values)


@api_boundary
def bind(
    entry: Entry, leaves: Sequence[Any], *, inline: bool = False, settings: Settings = ()
) -> Sequence[Any]:
    """Return the flat results of an entry under the active transformations.

    It becomes one equation, unless `inline`.

    Raises: ValueError for compiler options, which apply to whole programs only.
    """
    recorded, request = entry.recording, entry.placer.request
    if entry.is_bound:
        values = [*entry.consts, *leaves]
        check_distinct(f"call of {recorded.name}", values, recorded.jaxpr.arg_names)
        opts = options()
        if opts.guards_transfers and state.trace is state.root:
            called(leaves)
        is_usual = opts.jit and opts.default_device is None
        if request is NO_REQUEST and state.trace is state.root and is_usual:
            if not recorded.is_temporary:
                on_contents = references.on_contents(recorded.jaxpr, recorded.name)
                found: Sequence[Any] = on_contents.run(values, settings)
                return found
    if recorded.assumed:
        assume_not_zero(recorded.assumed)
    if request.in_shardings:
        leaves = constrained(leaves, request.in_shardings[len(entry.consts) :])
    if settings and of_whole_programs(settings):
        raise nested(recorded.name, of_whole_programs(settings), current_source())
    outs: Sequence[Any]
    # While recording, closed-over arrays stay constants; otherwise they become arguments, whose
    # devices must agree.
    is_recorded = recording() is not None
    consts = entry.consts if is_recorded else together(entry.consts)
    if inline and is_recorded:
        outs = eval_jaxpr(recorded.jaxpr, (), *consts, *leaves)
    else:
        outs = jit_p.bind(*consts, *leaves, jaxpr=recorded.jaxpr, name=recorded.name)
    return constrained(outs, request.out_shardings) if request.out_shardings else outs


def arranged(entry: Entry, outs: Sequence[Any]) -> Any:
    """Return flat results in the structure that the function returned them in."""
    return outs[0] if entry.out_is_leaf else tree_unflatten(entry.recording.out_tree, outs)
