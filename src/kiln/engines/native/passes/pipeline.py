"""The passes, in order."""

from __future__ import annotations

from collections.abc import Callable

from kiln.core.engines.compile_steps import begin
from kiln.engines.native.loop_ir.statements import Function
from kiln.engines.native.loop_ir.validity import Verified, check
from kiln.engines.native.passes.carries import remove_copies, remove_remaining_copies
from kiln.engines.native.passes.collapse import collapse
from kiln.engines.native.passes.dead import sink
from kiln.engines.native.passes.fusion import fuse
from kiln.engines.native.passes.invariants import hoist, transpose_summed
from kiln.engines.native.passes.layouts.columns import divide_columns
from kiln.engines.native.passes.layouts.features_last import lay_out
from kiln.engines.native.passes.layouts.transposes import transpose_operands
from kiln.engines.native.passes.numbering import number_values
from kiln.engines.native.passes.pieces.cells import compute_in_cells
from kiln.engines.native.passes.pieces.producers import compute_in_pieces
from kiln.engines.native.passes.products.epilogues import run_in_blocks
from kiln.engines.native.passes.products.loop_operands import pack_matrices
from kiln.engines.native.passes.products.strip_loops import run_in_strips
from kiln.engines.native.passes.reductions import split_reductions
from kiln.engines.native.passes.rows import by_rows
from kiln.engines.native.passes.sequential.counters import count_by_axes
from kiln.engines.native.passes.sequential.independent import run_at_once
from kiln.engines.native.passes.sequential.interchange import interchange
from kiln.engines.native.passes.sequential.recurrences import carry_elements
from kiln.engines.native.passes.sequential.straight_line import straighten
from kiln.engines.native.passes.unrolling.jam import jam
from kiln.engines.native.passes.unrolling.short_axes import write_out
from kiln.engines.native.passes.watching import merge_checks

Pass = Callable[[Function], None]

PASSES: dict[str, Pass] = {
    "numbering": number_values,
    "columns": divide_columns,
    "hoist": hoist,
    "sink": sink,
    "fuse": fuse,
    "cells": compute_in_cells,
    "pieces": compute_in_pieces,
    "copies": remove_copies,
    "counters": count_by_axes,
    "independent": run_at_once,
    "layouts": lay_out,
    "straight": straighten,
    "remaining": remove_remaining_copies,
    "recurrences": carry_elements,
    "unrolled": write_out,
    "summed": transpose_summed,
    "matrices": pack_matrices,
    "transposes": transpose_operands,
    "strips": run_in_strips,
    "rows": by_rows,
    "collapse": collapse,
    "interchange": interchange,
    "reductions": split_reductions,
    "checks": merge_checks,
    "epilogues": run_in_blocks,
    "jam": jam,
}
"""Each changes a function in place."""


def optimized(function: Function, *, checked: bool = False) -> Function:
    """Run all passes on a function, and return it; with `checked`, verify it after each.

    Raises: CheckError if a pass breaks the function.
    """
    verified: Verified = set()
    if checked:
        check(function, "lowering", verified)
    for name, run in PASSES.items():
        begin(name)
        run(function)
        if checked:
            check(function, name, verified)
    return function
