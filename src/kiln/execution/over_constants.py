"""Programs over arrays that a function closes over: what depends on these alone is computed once.

Each user of an executable has arrays of its own. What is kept for them is freed with the user, or
with the executable, and recomputed if that is loaded again.
"""

from __future__ import annotations

from collections.abc import Sequence

from kiln.base.caches.bounded import CLOCK
from kiln.base.process.memory import physical_bytes
from kiln.base.weak import WeakSet
from kiln.core.arrays.array import ConcreteArray, buffer_for
from kiln.core.engines.engine import DividedExecutable, Executable
from kiln.execution.compilation import CachedProgram, Variant


class Bound(Variant):
    """A program whose first inputs are always these arrays, with what it computes from them alone.

    That is computed at the first call, and dropped with the executable.
    """

    __slots__ = ("_constants", "_kept_bytes")

    def __init__(self, of: CachedProgram, constants: Sequence[ConcreteArray]) -> None:
        taken = range(len(constants)) if of.kept is None else of.kept
        self._constants = [constants[i] for i in taken if i < len(constants)]
        self._kept_bytes = 0
        super().__init__(of.base, of.out_avals)
        _bound.add(self)

    def _found(self) -> Executable:
        base = self._base
        base.used = CLOCK.now
        found = base.executable
        if isinstance(found, DividedExecutable):
            memory = base.engine.memory
            made = found.over([buffer_for(x, memory) for x in self._constants])
            self._call, self._kept_bytes = made, found.kept_bytes
            found = made
        else:
            self._call = found
        if not base.is_loaded:
            # It was evicted in between.
            self.forget()
        return found

    @property
    def kept_bytes(self) -> int:
        """The bytes of what it keeps beside the executable."""
        return self._kept_bytes

    def forget(self) -> None:
        """Drop what was computed; compute it again on the next call."""
        super().forget()
        self._kept_bytes = 0


_bound: WeakSet[Bound] = WeakSet()
KEPT_PART = 16
"""All programs together keep at most this fraction of the machine's memory for constants."""


def may_keep_more() -> bool:
    """Tell whether programs may keep more of what they compute from constants."""
    return sum(each.kept_bytes for each in list(_bound)) < physical_bytes() // KEPT_PART
