"""What is compiled: a jaxpr without what nobody needs, and how it was asked for."""

from __future__ import annotations

import dataclasses
from typing import Any

from kiln.base.config import options
from kiln.core.engine import BATCH_INVARIANT, Placement, Program
from kiln.execution.told_programs import without_told_types
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.rewrite import drop_inputs, eliminate_dead_code


def program_of(
    jaxpr: Jaxpr,
    name: str,
    keep_unused: bool = False,
    compiler_options: tuple[tuple[str, Any], ...] = (),
    donated: tuple[int, ...] = (),
    placement: Placement | None = None,
) -> tuple[Program, list[int] | None]:
    """Drop dead code and, unless `keep_unused`, unused inputs; return which inputs remain.

    The program also has the compiler options that options of kiln stand for.
    """
    if options().batch_invariant:
        compiler_options = (*compiler_options, (BATCH_INVARIANT, True))
    if placement is not None and placement.mesh is not None:
        jaxpr = without_told_types(jaxpr)
    clean, used = eliminate_dead_code(jaxpr)
    if keep_unused or all(used):
        return Program(clean, name, compiler_options, donated, placement), None
    kept = [i for i, u in enumerate(used) if u]
    if placement is not None and placement.in_shardings:
        in_shardings = tuple([placement.in_shardings[i] for i in kept])
        placement = dataclasses.replace(placement, in_shardings=in_shardings)
    donated = tuple([n for n, i in enumerate(kept) if i in donated])
    return Program(drop_inputs(clean, used), name, compiler_options, donated, placement), kept
