"""A program -> a module: by this engine's lowerings, with donated operands in XLA's form."""

from __future__ import annotations

from kiln.core.engines.engine import Program
from kiln.engines.xla.lowerings import LOWERINGS
from kiln.engines.xla.stablehlo.module import Export, LoweredModule, lower
from kiln.ir.analysis.aliasing import reused


def lowered_program(
    program: Program, *, locations: bool = False, export: Export | None = None
) -> LoweredModule:
    """Lower a program to a module.

    Raises: UnsupportedPrimitive, naming the primitive and the source line.
    """
    placement = program.placement
    several = placement is not None and len(placement.devices) > 1
    return lower(
        program.jaxpr,
        program.name,
        LOWERINGS,
        aliases={} if several else reused(program.jaxpr, program.donated),
        # The sizes of shards of results are not known yet: XLA pairs inputs and outputs.
        donors=program.donated if several else (),
        placement=placement,
        locations=locations,
        export=export,
    )
