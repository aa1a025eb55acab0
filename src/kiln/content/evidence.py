"""Evidence of what a reading depended on: would reading another function give the same result?

A fresh lambda in a loop shares its code with the previous one, and refers to the same objects.
Reading it again would build an equal key; comparing what was read by identity takes a fraction of
the time. That suffices for functions that reach only other functions, numbers, strings and fixed
values, by names that are still bound to the same objects; for others there is no evidence, and they
are read.
"""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from kiln._runtime import functions_are_as_noted
from kiln.base.named_tuples import NamedTuple
from kiln.content.fixed_values import is_fixed
from kiln.core.arrays.array import ConcreteArray, PlacedArray

# The same object is the same value.
_SCALARS = frozenset(
    [int, bool, str, bytes, float, complex, type(None), type(...), type(NotImplemented)]
)
# Never fixed values.
_OTHERS = frozenset([ConcreteArray, PlacedArray, tuple, list, dict])
_ABSENT = object()

Held = Any
"""A value of a name: itself, or a weak reference to a function of the user."""
Names = tuple[tuple[str, tuple[str, ...], Held], ...]
"""Global names, each with a chain of module attributes, and the value at its end."""


class _Part(NamedTuple):
    """One function that was read; `function` is None for the root, which differs each time.

    `_runtime/caches/evidence.cc` compares these.
    """

    function: weakref.ref[types.FunctionType] | None
    code: types.CodeType
    name: str
    defaults: tuple[Held, ...]
    cells: tuple[Held, ...]
    names: Names


class Evidence:
    """The functions that one reading reached, and what their names were bound to.

    `place` identifies the functions it may hold for. References to functions of the user are weak.
    """

    __slots__ = ("_fixed", "_is_partial", "_parts", "_root", "is_complete")

    def __init__(self, root: Any) -> None:
        self._is_partial = is_bare_partial(root)
        self._root: Any = root.func if self._is_partial else root
        self.is_complete = type(self._root) is types.FunctionType
        self._parts: tuple[_Part, ...] = ()
        self._fixed: dict[int, Any] = {}

    def note(
        self,
        f: types.FunctionType,
        names: Iterable[tuple[str, tuple[str, ...], Any]],
    ) -> None:
        """Record a function, and what its global names are bound to."""
        if f.__kwdefaults__ or f.__dict__:
            self.is_complete = False
        if not self.is_complete:
            return
        is_root = f is self._root and not self._is_partial
        part = _Part(
            None if is_root else weakref.ref(f),
            f.__code__,
            f.__name__,
            self._held(f.__defaults__ or ()),
            self._held([_contents(cell) for cell in f.__closure__ or ()]),
            tuple([(name, steps, *self._held([value])) for name, steps, value in names]),
        )
        self._parts = (*self._parts, part)

    def finish(self) -> Evidence | None:
        """Return this after a reading; None if something that was read can change unnoticed."""
        root, self._root = self._root, None
        if not self.is_complete or not self._parts or self._parts[0].code is not root.__code__:
            return None
        return self

    def _held(self, values: Sequence[Any]) -> tuple[Held, ...]:
        return tuple([self._hold(x) for x in values])

    def _hold(self, value: Any) -> Held:
        if type(value) in _SCALARS:
            return value
        if type(value) in _OTHERS:
            self.is_complete = False
            return None
        if is_fixed(value):
            self._fixed[id(value)] = value
            return value
        # The root is compared as a new function, not as the one that a name is bound to.
        if type(value) is types.FunctionType and value is not self._root:
            return weakref.ref(value)
        self.is_complete = False
        return None

    @property
    def place(self) -> Hashable:
        """`place_of` of the functions that this may hold for, unique while this exists."""
        return (id(self._parts[0].code), self._is_partial)

    def holds_for(self, root: Any) -> bool:
        """Tell whether reading a function of the same `place_of` would give the same content."""
        if self._is_partial and self._parts[0].function() is not root.func:  # type: ignore[misc]
            return False
        if not functions_are_as_noted(self._parts, root):
            return False
        return all(map(is_fixed, self._fixed.values()))


def is_bare_partial(value: Any) -> bool:
    """Tell whether a value is a partial without arguments or attributes."""
    return type(value) is functools.partial and not (value.args or value.keywords or value.__dict__)


def place_of(root: Any) -> Hashable | None:
    """Return the key under which evidence for a function is stored; None for other callables."""
    if type(root) is types.FunctionType:
        return (id(root.__code__), False)
    if is_bare_partial(root) and type(root.func) is types.FunctionType:
        return (id(root.func.__code__), True)
    return None


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _ABSENT
