"""Weak references and collections that do not lose interrupts.

Python drops exceptions raised while an object is deallocated. The standard library's collections
run Python code then, which a Ctrl-C may interrupt; here it is raised right afterwards.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from kiln import _runtime

T = TypeVar("T")
K = TypeVar("K")


def reference(referent: T, on_death: Callable[[Any], object]) -> weakref.ref[T]:
    """Return a weak reference that is passed to a function when the object has died."""
    return weakref.ref(referent, _runtime.to_its_end(on_death))


class WeakSet(weakref.WeakSet[T]):
    """The standard library's set, without lost interrupts; it may change while it is iterated."""

    data: set[weakref.ref[T]]

    def __init__(self) -> None:
        super().__init__()
        self._remove: Any = _runtime.to_its_end(self._remove)

    def __iter__(self) -> Iterator[T]:
        for each in list(self.data):
            found = each()
            if found is not None:
                yield found


class WeakKeyDictionary(weakref.WeakKeyDictionary[K, T]):
    """The standard library's dictionary with weak keys, without lost interrupts."""

    def __init__(self) -> None:
        super().__init__()
        self._remove: Any = _runtime.to_its_end(self._remove)


class WeakValueDictionary(weakref.WeakValueDictionary[K, T]):
    """The standard library's dictionary with weak values, without lost interrupts."""

    def __init__(self) -> None:
        super().__init__()
        self._remove: Any = _runtime.to_its_end(self._remove)
