"""Objects that are old to the garbage collector from the start."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from kiln.base.process.garbage_collection import Permanent


class Node:
    """Something that can refer to itself."""


@pytest.fixture(autouse=True)
def collector_as_it_was() -> Iterator[None]:
    enabled = gc.isenabled()
    yield
    gc.unfreeze()
    (gc.enable if enabled else gc.disable)()


def test_the_collector_pauses_and_runs_again() -> None:
    gc.enable()
    with Permanent():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_disabled_collector_stays_disabled() -> None:
    gc.disable()
    with Permanent():
        assert not gc.isenabled()
    assert not gc.isenabled()


def test_contexts_nest() -> None:
    gc.enable()
    with Permanent():
        with Permanent():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_the_collector_runs_again_after_an_error() -> None:
    gc.enable()
    with pytest.raises(ImportError), Permanent():
        raise ImportError
    assert gc.isenabled()


def test_objects_are_old_but_garbage_is_found() -> None:
    gc.disable()
    with Permanent():
        node = Node()
        node.itself = node
        node.many = [[] for _ in range(5_000)]
        seen = weakref.ref(node)
    del node
    gc.collect(1)
    assert seen() is not None
    gc.collect()
    assert seen() is None


def test_what_the_user_froze_stays_frozen() -> None:
    gc.freeze()
    frozen = gc.get_freeze_count()
    assert frozen > 0
    with Permanent():
        pass
    assert gc.get_freeze_count() > frozen / 2
