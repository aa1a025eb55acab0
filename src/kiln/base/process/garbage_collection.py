"""Keeping Python's cyclic garbage collector away from objects that live as long as the process."""

from __future__ import annotations

import gc
from types import TracebackType

_MUCH = 2_000
"""So many objects more than were deleted: what a module of some size creates."""


class Permanent:
    """A context whose objects count as old to the collector: for loading modules.

    While modules load nearly everything that is created stays, and the collector would look at it
    again and again: a tenth of the time of `import kiln`, and a quarter of that of the first call.
    Nothing is exempted: what becomes garbage nevertheless is found by the next full collection.
    """

    __slots__ = ("_was_enabled",)

    def __enter__(self) -> None:
        self._was_enabled = gc.isenabled()
        gc.disable()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # This moves all objects to the oldest generation without looking at them. Objects that
        # the user froze would come back with them, and to count those takes as long as they are
        # many: it is only done after much was created.
        if gc.get_count()[0] > _MUCH and not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
        if self._was_enabled:
            gc.enable()
