"""Collections of objects that may die: they are the standard library's, and lose no interrupt."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

import kiln
from kiln.base import weak


class Thing:
    """An object that can be forgotten."""


def _kept(collection: Any, thing: Thing) -> None:
    if isinstance(collection, weak.WeakSet):
        collection.add(thing)
    elif isinstance(collection, weak.WeakKeyDictionary):
        collection[thing] = 1
    else:
        collection[1] = thing


@pytest.mark.parametrize("kind", [weak.WeakSet, weak.WeakKeyDictionary, weak.WeakValueDictionary])
def test_an_interrupt_as_an_object_dies(kind: Any) -> None:
    """It reaches the program, and the object is forgotten."""
    collection = kind()
    struck = []
    remove = collection._remove

    def interrupted(*args: Any) -> None:
        if not struck:
            struck.append(args)
            raise KeyboardInterrupt
        remove(*args)

    # As if a signal had struck in the standard library's code.
    collection._remove = kiln._runtime.to_its_end(interrupted)
    thing, other = Thing(), Thing()
    _kept(collection, thing)
    with pytest.raises(KeyboardInterrupt):
        del thing
        for _ in range(100):
            time.sleep(0)
    assert len(struck) == 1
    assert len(collection) == 0
    _kept(collection, other)
    assert len(collection) == 1


@pytest.mark.parametrize("kind", [weak.WeakSet, weak.WeakKeyDictionary, weak.WeakValueDictionary])
def test_what_removes_an_object_is_protected(kind: Any) -> None:
    """Python code as it is would lose what strikes it."""
    assert type(kind()._remove).__name__ == "builtin_function_or_method"


def test_kiln_uses_no_others() -> None:
    root = Path(kiln.__file__).parent
    found = [
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if re.search(r"weakref(\.| import .*)(Weak|finalize)", path.read_text(encoding="utf-8"))
    ]
    # These two close files, and want no weak table.
    assert sorted(found) == ["base/weak.py", "checkpoints/checkpoint.py", "execution/own_folder.py"]


def test_a_set_may_grow_while_it_is_iterated() -> None:
    things = [Thing() for _ in range(3)]
    found: weak.WeakSet[Thing] = weak.WeakSet()
    for thing in things:
        found.add(thing)
    seen = []
    for thing in found:
        seen.append(thing)
        later = Thing()
        things.append(later)
        found.add(later)
    assert len(seen) == 3
    assert len(found) == 6
    del thing, later, seen
    things.clear()
    assert list(found) == []
