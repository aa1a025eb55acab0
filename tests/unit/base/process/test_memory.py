"""The memory of the process."""

from __future__ import annotations

import gc
import weakref

from kiln.base.process.memory import MB, give_back, physical_bytes


class Node:
    def __init__(self) -> None:
        self.itself = self


def test_cycles_go() -> None:
    gc.disable()
    try:
        watch = weakref.ref(Node())
        assert watch() is not None
        give_back()
        assert watch() is None
    finally:
        gc.enable()


def test_the_machine_has_memory() -> None:
    assert physical_bytes() > 64 * MB
