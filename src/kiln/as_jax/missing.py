"""Placeholders for names of JAX that kiln does not have: they raise when they are used.

While a program is examined (`python -m kiln.as_jax doctor`), uses are only recorded, and their
results are placeholders, too.
"""

from __future__ import annotations

from types import FunctionType, ModuleType
from typing import Any, NoReturn

from kiln.as_jax.names import is_public, public_names
from kiln.as_jax.refusals import reason
from kiln.as_jax.replacements import replacement
from kiln.as_jax.report import examining, record_asked, record_missed
from kiln.base.errors import three_lines
from kiln.base.source import current_source


class MissingNameError(NotImplementedError):
    """A program used a name of JAX that kiln does not have."""


def _error(name: str, used: str) -> MissingNameError:
    why = reason(name)
    return MissingNameError(
        three_lines(
            f"{name}{used} at {current_source()}",
            f"kiln has no {name}: {why}" if why else f"kiln does not have {name} yet",
            f"{replacement(name)}; python -m kiln.as_jax doctor PROGRAM lists all such names",
        )
    )


class MissingName:
    """A name of JAX that kiln does not have.

    It can be imported, stored, compared by identity, used in annotations and in `isinstance` (which
    returns False). Calls, subclasses and arithmetic raise MissingNameError with the full name.
    While a program is examined, these return placeholders, a decorator returns its function
    unchanged, and only conversions to Python values raise.
    """

    def __init__(self, name: str) -> None:
        self._kiln_name = name
        # Decorators copy these attributes from a function.
        self.__module__, _, self.__name__ = name.rpartition(".")
        self.__qualname__ = self.__name__

    def __repr__(self) -> str:
        return f"<{self._kiln_name}, which kiln does not have>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise the error of a missing name."""
        result = self._used("(...)")
        is_decorator = len(args) == 1 and not kwargs and isinstance(args[0], FunctionType)
        return args[0] if is_decorator else result

    def __getattr__(self, name: str) -> MissingName:
        # Protocols are looked up by dunder names; a placeholder implements none.
        if name.startswith("__"):
            raise AttributeError(f"{self._kiln_name} does not exist in kiln, nor does its {name}")
        return MissingName(f"{self._kiln_name}.{name}")

    def __instancecheck__(self, instance: Any) -> bool:
        return False

    def __subclasscheck__(self, subclass: type) -> bool:
        return False

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        missing = self

        class Base:
            def __init__(self, *args: Any, **kwargs: Any) -> None:
                missing._used("(...)")

        return (Base,)

    def __or__(self, other: Any) -> Any:
        return Any

    __ror__ = __or__

    def __getitem__(self, key: Any) -> MissingName:
        return self

    def __setitem__(self, key: Any, value: Any) -> None:
        # A rule that is registered for a missing name is never looked up.
        return None

    def __bool__(self) -> NoReturn:
        raise self._raised(" as a truth value")

    def __iter__(self) -> NoReturn:
        raise self._raised(" in a loop")

    def __enter__(self) -> Any:
        return self._used(" as a context")

    def __exit__(self, *exception: object) -> None:
        return None

    def _computed(self, *others: Any) -> Any:
        return self._used(" as an operand")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _computed
    __truediv__ = __rtruediv__ = __pow__ = __matmul__ = __neg__ = _computed
    __lt__ = __gt__ = __le__ = __ge__ = _computed

    def _value(self, *options: Any, **others: Any) -> NoReturn:
        raise self._raised(" as a number")

    __float__ = __int__ = __index__ = __len__ = __array__ = _value

    def _used(self, used: str) -> MissingName:
        """Record a use; return a stand-in for its result, or raise unless uses are examined."""
        error = self._raised(used)
        if not examining():
            raise error
        return MissingResult(self._kiln_name)

    def _raised(self, used: str) -> MissingNameError:
        record_missed(self._kiln_name)
        return _error(self._kiln_name, used)


class MissingResult(MissingName):
    """The result of using a missing name: further uses are attributed to that name."""

    def __getattr__(self, name: str) -> MissingName:
        super().__getattr__(name)
        return self


def asked_for(name: str) -> MissingName:
    """Record that a missing name was imported or read; return its placeholder."""
    record_asked(name)
    return MissingName(name)


def missing_name(module: str, name: str) -> MissingName:
    """Return the placeholder of a public name of JAX.

    Raises: AttributeError if JAX has no such name either.
    """
    if name.startswith("__") or not is_public(module, name):
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    return asked_for(f"{module}.{name}")


class MissingModule(ModuleType):
    """A module of JAX that kiln does not have: all its names are placeholders."""

    def __init__(self, name: str) -> None:
        super().__init__(name, f"{name}, which kiln does not have.")
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if public_names().get(self.__name__):
            return missing_name(self.__name__, name)
        return asked_for(f"{self.__name__}.{name}")
