"""What a reading looked at, so that one look tells whether another would find the same.

A fresh lambda in a loop shares its code with the last one, and refers to the same objects. Reading
it again would build an equal key; comparing by identity what was read takes a fraction of the time.
This is known for functions that reach nothing but other functions, numbers, strings and fixed
values, by names that are still bound to the same objects; others have no evidence, and are read.
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
# Never fixed.
_OTHERS = frozenset([ConcreteArray, PlacedArray, tuple, list, dict])
_ABSENT = object()

Held = Any
"""A value of a name: itself, or a weak reference to a function of the user."""
Names = tuple[tuple[str, tuple[str, ...], Held], ...]
"""Global names, each with the attributes of modules read from it, and the value at their end."""


class _Part(NamedTuple):
    """One function that was read; `function` is None for the root, which is another each time.

    `_runtime/caches/evidence.cc` compares these.
    """

    function: weakref.ref[types.FunctionType] | None
    code: types.CodeType
    name: str
    defaults: tuple[Held, ...]
    cells: tuple[Held, ...]
    names: Names


class Evidence:
    """The functions that one reading met, and what their names were bound to.

    `place` tells which functions it may hold for. Functions of the user are referred to weakly.
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
        """Note a function, and what its global names are bound to."""
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
        """Return this at the end of a reading; None if what was met can change unseen."""
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
        """What `place_of` says of the functions that this may hold for, as long as this exists."""
        return (id(self._parts[0].code), self._is_partial)

    def holds_for(self, root: Any) -> bool:
        """Tell whether reading a function of this place would find what this reading found."""
        if self._is_partial and self._parts[0].function() is not root.func:  # type: ignore[misc]
            return False
        if not functions_are_as_noted(self._parts, root):
            return False
        return all(map(is_fixed, self._fixed.values()))


def is_bare_partial(value: Any) -> bool:
    """Tell whether a value is a partial without arguments or attributes."""
    return type(value) is functools.partial and not (value.args or value.keywords or value.__dict__)


def place_of(root: Any) -> Hashable | None:
    """Return where evidence for a function is to be looked for; None for other callables."""
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
