"""Tuples whose items have names: `typing.NamedTuple`s that cost little to define.

`typing.NamedTuple` compiles a constructor and checks each annotation as a class is defined, 0.15 ms
each time. Here the constructor is generated when the first instance is made, and annotations stay
strings.
"""

from __future__ import annotations

import sys
from _collections import _tuplegetter  # type: ignore[import-not-found]
from typing import TYPE_CHECKING, Any, ClassVar


class _Unwritten:
    """A placeholder for the `__new__` of a class until its first use."""

    def __get__(self, instance: object, kind: type[Any]) -> Any:
        made = _written_new(kind)
        # Two threads may both get here; they generate equivalent functions.
        kind.__new__ = staticmethod(made)
        return made


def _written_new(cls: Any) -> Any:
    names, defaults = cls._fields, cls._field_defaults
    given = [f"{name}=_defaults[{name!r}]" if name in defaults else name for name in names]
    items = "".join([f"{name}, " for name in names])
    space = {"_defaults": defaults, "_new": tuple.__new__}
    exec(f"def __new__({', '.join(['_cls', *given])}): return _new(_cls, ({items}))", space)
    made: Any = space["__new__"]
    made.__qualname__ = f"{cls.__qualname__}.__new__"
    made.__module__ = cls.__module__
    made.__annotations__ = cls.__annotations__
    return made


class _Named(tuple[Any, ...]):
    """The common base of such classes, with the methods of `collections.namedtuple`."""

    __slots__ = ()
    if TYPE_CHECKING:
        _fields: ClassVar[tuple[str, ...]]

    @classmethod
    def _make(cls, iterable: Any) -> Any:
        """Return an instance whose items are those of an iterable."""
        made = tuple.__new__(cls, iterable)
        if len(made) != len(cls._fields):
            raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
        return made

    def _replace(self, /, **changes: Any) -> Any:
        """Return a copy with other items for some names."""
        made = self._make(map(changes.pop, self._fields, self))
        if changes:
            # As `collections.namedtuple` of this version of Python does.
            wrong = TypeError if sys.version_info >= (3, 13) else ValueError
            raise wrong(f"Got unexpected field names: {list(changes)!r}")
        return made

    def _asdict(self) -> dict[str, Any]:
        """Return the items by name."""
        return dict(zip(self._fields, self, strict=True))

    def __repr__(self) -> str:
        items = zip(self._fields, self, strict=True)
        return f"{type(self).__name__}({', '.join([f'{name}={x!r}' for name, x in items])})"

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)


class _Defining(type):
    def __new__(mcs, name: str, bases: tuple[type, ...], space: dict[str, Any]) -> Any:
        fields = tuple(space.get("__annotations__", ()))
        defaults = {field: space[field] for field in fields if field in space}
        getters = {field: _tuplegetter(i, None) for i, field in enumerate(fields)}
        own = {"_fields": fields, "_field_defaults": defaults, "__match_args__": fields}
        space |= {**own, **getters, "__slots__": ()}
        space.setdefault("__new__", _Unwritten())
        # The metaclass of such a class is `type`, like that of any other tuple.
        return type(name, tuple(_Named if base is NamedTuple else base for base in bases), space)


if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    NamedTuple = type.__new__(_Defining, "NamedTuple", (), {"__doc__": _Named.__doc__})
