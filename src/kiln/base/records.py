"""Immutable classes of a few named values: dataclasses that are cheap to define.

`dataclasses.dataclass` generates and compiles six functions when a class is defined: half a
millisecond each. For a `Record` only `__init__` is generated, when the first instance is made.
"""

from __future__ import annotations

import dataclasses
import operator
import reprlib
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar, cast, dataclass_transform

R = TypeVar("R", bound="Record")

_MISSING = dataclasses.MISSING
_Field = dataclasses.Field[Any]


class _Unwritten:
    """A placeholder for the `__init__` of a class until its first use."""

    __slots__ = ("owner",)

    def __init__(self, owner: type[Record]) -> None:
        self.owner = owner

    def __get__(self, instance: object, kind: type | None = None) -> Any:
        made = _written_init(self.owner)
        # Two threads may both get here; they generate equivalent functions.
        self.owner.__init__ = made  # type: ignore[method-assign]
        return made if instance is None else made.__get__(instance)


class _Fields:
    """The fields in the form of the module `dataclasses`, made when it reads them."""

    def __get__(self, instance: object, kind: type[Record]) -> dict[str, _Field]:
        if kind is Record:
            raise AttributeError("Record has no fields")
        space: dict[str, Any] = {
            **kind._given,
            "__annotations__": kind._annotated,
            "__module__": kind.__module__,
            # Otherwise a docstring would be generated.
            "__doc__": kind.__name__,
        }
        plain = type(kind.__name__, (), space)
        made = cast(Any, dataclasses.dataclass(init=False, repr=False, eq=False)(plain))
        kind.__dataclass_fields__ = made.__dataclass_fields__
        return kind.__dataclass_fields__


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
class Record:
    """Base of classes whose fields are their annotated names; instances cannot be changed.

    It does what `dataclasses.dataclass(frozen=True)` does, for defaults, `dataclasses.field`,
    `__post_init__`, derived classes, and `replace` and `fields` of the module `dataclasses`.
    With `class C(Record, eq=False)` instances are equal only to themselves.
    """

    _annotated: ClassVar[dict[str, Any]] = {}
    _given: ClassVar[dict[str, Any]] = {}
    """The default of each field that has one, or its `dataclasses.field`."""
    _parameters: ClassVar[tuple[str, ...]] = ()
    """The fields that `__init__` takes."""
    _compared: ClassVar[Any]
    """Returns the class and the values that decide whether instances are equal."""
    __dataclass_fields__: ClassVar[dict[str, _Field]] = cast(Any, _Fields())

    def __init_subclass__(cls, *, eq: bool = True) -> None:
        super().__init_subclass__()
        space = cls.__dict__
        own = {
            name: kind
            for name, kind in space.get("__annotations__", {}).items()
            if not str(kind).startswith(("ClassVar", "typing.ClassVar"))
        }
        given = {name: space[name] for name in own if name in space}
        for name, default in given.items():
            if isinstance(default, dataclasses.Field):
                if default.default is _MISSING:
                    delattr(cls, name)
                else:
                    setattr(cls, name, default.default)
        cls._annotated = {**cls._annotated, **own}
        cls._given = {**cls._given, **given}
        cls.__dataclass_fields__ = cast(Any, _fields)
        cls._parameters = tuple([name for name in cls._annotated if cls._is("init", name)])
        type.__setattr__(cls, "__match_args__", cls._parameters)
        names = [name for name in cls._annotated if cls._is("compare", name)]
        cls._compared = operator.attrgetter("__class__", *names)
        if "__init__" not in space:
            cls.__init__ = cast(Any, _Unwritten(cls))  # type: ignore[method-assign]
        if not eq:
            cls.__eq__ = object.__eq__  # type: ignore[method-assign]
            cls.__hash__ = object.__hash__  # type: ignore[method-assign]

    @classmethod
    def _is(cls, question: str, name: str) -> bool:
        given = cls._given.get(name)
        return not isinstance(given, dataclasses.Field) or getattr(given, question)

    def __eq__(self, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return self._compared(self) == self._compared(other)

    def __hash__(self) -> int:
        return hash(self._compared(self))

    @reprlib.recursive_repr()
    def __repr__(self) -> str:
        shown = [name for name in self._annotated if self._is("repr", name)]
        values = ", ".join([f"{name}={getattr(self, name)!r}" for name in shown])
        return f"{type(self).__qualname__}({values})"

    def __setattr__(self, name: str, value: Any) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


_fields = _Fields()


def metadata_of(cls: type[Record]) -> dict[str, Mapping[Any, Any]]:
    """Return the metadata of each field that `__init__` takes, as `dataclasses.fields` would."""
    return {name: getattr(cls._given.get(name), "metadata", {}) for name in cls._parameters}


def replaced(record: R, changes: Mapping[str, Any]) -> R:
    """Return a record with other values of some fields, as `dataclasses.replace` would.

    That function reads the fields in the form of dataclasses, which takes time to make.

    Raises: TypeError for a field that `__init__` does not take.
    """
    kept = {name: getattr(record, name) for name in record._parameters}
    return type(record)(**{**kept, **changes})


def _written_init(cls: type[Record]) -> Any:
    given = cls._given
    space: dict[str, Any] = {"_set": object.__setattr__, "_MISSING": _MISSING}
    parameters, lines = ["self"], []
    for name in cls._parameters:
        value = name
        if name not in given:
            parameters.append(name)
        elif isinstance(given[name], dataclasses.Field) and given[name].default is _MISSING:
            factory = given[name].default_factory
            if factory is _MISSING:
                parameters.append(name)
            else:
                space[f"_made_{name}"] = factory
                parameters.append(f"{name}=_MISSING")
                value = f"_made_{name}() if {name} is _MISSING else {name}"
        else:
            space[f"_default_{name}"] = getattr(cls, name)
            parameters.append(f"{name}=_default_{name}")
        lines.append(f"  _set(self, {name!r}, {value})\n")
    if hasattr(cls, "__post_init__"):
        lines.append("  self.__post_init__()\n")
    exec(f"def __init__({', '.join(parameters)}):\n{''.join(lines) or '  pass'}", space)
    made = space["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    made.__module__ = cls.__module__
    made.__annotations__ = {name: cls._annotated[name] for name in cls._parameters}
    made.__annotations__["return"] = None
    return made
