"""A mapping bounded in bytes, which evicts the least recently used values.

Lookups take no lock, so the `__eq__` of a user object in a key never runs under one. Time is
counted in insertions, which is precise enough: values are evicted only when another is inserted.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from kiln import _runtime
from kiln.base.process.forks import new_lock

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

SLACK = 16
"""An overflow frees a sixteenth more than needed, which keeps eviction cheap per insertion."""


CLOCK = _runtime.clock
"""The clock of all bounded mappings."""


class _Cost:
    __slots__ = ("size", "used")

    def __init__(self, size: int) -> None:
        self.size = size
        self.used = CLOCK.now


class Bounded(Generic[K, V]):
    """Values with their sizes in bytes; their total is at most `limit()`, or that of one value.

    `used(value)` returns when a value was last used other than by `get`. `on_leaving` is called
    with each evicted value, without holding a lock. `peek` looks up like `get`, but does not count
    as a use.
    """

    def __init__(
        self,
        limit: Callable[[], int],
        *,
        used: Callable[[V], int] | None = None,
        on_leaving: Callable[[V], None] | None = None,
    ) -> None:
        self.size = 0
        self._limit = limit
        self._used = used
        self._on_leaving = on_leaving
        self._values: dict[K, V] = {}
        self._costs: dict[K, _Cost] = {}
        self._lock = new_lock()
        self.peek = self._values.get

    def __len__(self) -> int:
        return len(self._values)

    def items(self) -> list[tuple[K, V]]:
        """Return the keys and values."""
        # The list allocates, so it may run finalizers, which change the mapping; a copy does not.
        return list(self._values.copy().items())

    def get(self, key: K) -> V | None:
        """Return the value of a key, or None."""
        value = self._values.get(key)
        if value is not None:
            cost = self._costs.get(key)
            if cost is not None:
                cost.used = CLOCK.now
        return value

    def put(self, key: K, value: V, size: int) -> V:
        """Store a value and return it, or return the one that another thread stored first."""
        cost = _Cost(size)
        CLOCK.now += 1
        if self._costs.setdefault(key, cost) is cost:
            self._account(size)
        kept = self._values.setdefault(key, value)
        if self.size > self._limit():
            self._shrink(key)
        return kept

    def take(self, key: K) -> V | None:
        """Remove and return the value of a key, or return None; `on_leaving` is not called."""
        value = self._values.pop(key, None)
        cost = self._costs.pop(key, None)
        if cost is not None:
            self._account(-cost.size)
        return value

    def remove(self, key: K) -> None:
        """Remove the value of a key, if there is one."""
        value = self.take(key)
        if value is not None and self._on_leaving is not None:
            self._on_leaving(value)

    def clear(self) -> None:
        """Remove all values."""
        for key in list(self._values):
            self.remove(key)

    def _account(self, change: int) -> None:
        with self._lock:
            self.size += change

    def _shrink(self, newest: K) -> None:
        limit = self._limit()
        target = limit - limit // SLACK
        for key in sorted(self._values, key=self._last_used):
            if self.size <= target:
                return
            if key is not newest:
                self.remove(key)

    def _last_used(self, key: K) -> int:
        cost, value = self._costs.get(key), self._values.get(key)
        when = 0 if cost is None else cost.used
        return when if self._used is None or value is None else max(when, self._used(value))
