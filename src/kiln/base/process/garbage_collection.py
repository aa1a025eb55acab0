"""Keeping Python's cyclic garbage collector away from objects that live as long as the process."""

from __future__ import annotations

import gc
from types import TracebackType

_MUCH = 2_000
"""This many net new objects: what a module of some size creates."""


class Permanent:
    """A context whose objects count as old to the collector: for loading modules.

    While modules load, nearly all new objects stay, and the collector would scan them again and
    again: a tenth of the time of `import kiln`, and a quarter of that of the first call. Nothing is
    exempt: the next full collection finds what does become garbage.
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
        # Freeze and unfreeze move all objects to the oldest generation without scanning them. They
        # would unfreeze objects that the user froze, and counting those takes time in proportion:
        # do so only after many objects were created.
        if gc.get_count()[0] > _MUCH and not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
        if self._was_enabled:
            gc.enable()
