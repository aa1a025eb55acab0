"""Programs that several processes run together: which processes, and whether they agree."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.options.config import options
from kiln.base.process.identity import processes
from kiln.core.engines.engine import Placement, Program
from kiln.core.processes.peers import peers
from kiln.engines.xla.launches.collectives import note_collectives
from kiln.engines.xla.stablehlo.module import LoweredModule

_COMPARED = "compared with other processes"


def processes_of(placement: Placement | None) -> tuple[int, ...]:
    """Return the processes that run a program, in order; empty if only this one does."""
    here = processes()
    if here.count == 1 or placement is None:
        return ()
    found = tuple(sorted({device.process_index for device in placement.devices}))
    return () if found == (here.index,) else found


_EXCHANGE = re.compile(r" (?:all-|reduce-scatter|collective-|ragged-all-|send|recv)[a-z-]*\(")


def exchanges_data(raw: Any) -> bool:
    """Tell whether a compiled program needs other processes while it runs."""
    text = raw.get_hlo_text()
    if options().profile:
        note_collectives(text)
    return _EXCHANGE.search(text) is not None


def prepare(program: Program, lowered: LoweredModule, group: tuple[int, ...]) -> str:
    """Check a program before it is compiled for several processes, and return its digest.

    With the option `check` it is compared with the programs of the other processes.

    Raises: ValueError if this process does not take part; PeerError if the programs differ.
    """
    asked = f"compiling {program.name} for the devices of the processes {list(group)}"
    here = processes().index
    if here not in group:
        raise ValueError(
            three_lines(
                asked,
                f"process {here} has none of them",
                "call it in those processes only, or use devices of this one: kiln.local_devices()",
            )
        )
    others, placement = peers(), program.placement
    assert placement is not None
    parts = (lowered.text, program.compiler_options, [d.id for d in placement.devices])
    digest = hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
    if options().check and others is not None and _COMPARED not in program.jaxpr.memo:
        others.agree(group, program.name, digest)
        program.jaxpr.memo[_COMPARED] = True
    return digest
