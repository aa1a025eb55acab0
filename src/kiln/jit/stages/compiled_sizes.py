"""Programs compiled ahead of time for all sizes of named axes: runners by sizes."""

from __future__ import annotations

from collections.abc import Sequence

from kiln.base.errors import three_lines
from kiln.base.named_tuples import NamedTuple
from kiln.base.source import current_source
from kiln.execution.placement import Placer, Run
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.specialize import types_for
from kiln.ir.types import ShapedArray
from kiln.jit.entry import Recording

MOST_SIZES = 4096
"""How many runners are kept; they are small, and recreated in microseconds."""

Types = tuple[ShapedArray, ...]


class RunForSizes(NamedTuple):
    """The runner of a program for given sizes, and its jaxpr for them."""

    run: Run
    jaxpr: Jaxpr


class OtherSizes:
    """Runs a program for sizes of its named axes other than those it was compiled for."""

    __slots__ = ("_general", "_known", "_placer", "_recording", "_types")

    def __init__(self, recording: Recording, placer: Placer, hidden: int) -> None:
        assert recording.general is not None
        self._recording = recording
        self._general = recording.general
        self._placer = placer
        self._types = recording.general.in_avals[hidden:]
        self._known: dict[Types, RunForSizes] = {}

    def known(self, avals: Types) -> RunForSizes | None:
        """Return the runner for arguments of exactly the types of an earlier call."""
        return self._known.get(avals)

    def sizes(self, avals: Sequence[ShapedArray]) -> dict[str, int]:
        """Return the sizes of named axes in a call; where an argument lacks axes, the known sizes.

        Raises: TypeError if one of them is 0.
        """
        recording = self._recording
        names = [*recording.sizes]
        found: dict[str, int] = {}
        for aval, own, axes in zip(avals, self._types, recording.named_axes, strict=True):
            if aval.ndim == own.ndim:
                for axis, number in axes:
                    found.setdefault(names[number], int(aval.shape[axis]))
        empty = [name for name, size in found.items() if size == 0]
        if empty:
            raise TypeError(
                three_lines(
                    f"call of the compiled function {recording.name} at {current_source()}",
                    f"it was compiled for sizes from 1 on of its named axes, and {empty[0]} is 0",
                    "call the function itself, or compile it again for a size of 0",
                )
            )
        sizes = {name: found.get(name, size) for name, size in recording.sizes.items()}
        if not recording.holds_for(sizes):
            raise TypeError(
                three_lines(
                    f"call of the compiled function {recording.name} at {current_source()}",
                    f"{recording.name} compares sizes, and takes another branch for {sizes} than "
                    f"for {recording.sizes}, for which it was compiled",
                    "call the function itself, or compile it again for arguments of these sizes",
                )
            )
        return sizes

    def types(self, sizes: dict[str, int]) -> list[ShapedArray]:
        """Return the types of the arguments for given sizes.

        Raises: ValueError for arrays that are too large.
        """
        return types_for(self._types, sizes)

    def described(self, number: int, aval: ShapedArray, sizes: dict[str, int]) -> str:
        """Return the expected type, with names, of an argument passed with another type."""
        own, recording = self._types[number], self._recording
        names = [*recording.sizes]
        others = [
            f"{names[name]} is {sizes[names[name]]}"
            for axis, name in recording.named_axes[number]
            if aval.ndim == own.ndim and aval.shape[axis] != sizes[names[name]]
        ]
        return f"{own}, where {' and '.join(others)}," if others else str(own)

    def run(self, avals: Types, sizes: dict[str, int]) -> RunForSizes:
        """Return the runner of the program for given sizes, and remember it for these types."""
        placer = self._placer.for_sizes(sizes)
        placer.compiled(None)
        if len(self._known) >= MOST_SIZES:
            self._known.clear()
        made = self._known[avals] = RunForSizes(placer.run, placer.jaxpr)
        return made
