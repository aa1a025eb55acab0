"""A library in which nothing is computed: it notes which of its functions a case calls."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.differential.oracle import Case


def called(case: Case) -> set[str]:
    """Return the dotted names, below the library, of the functions that a case looks up."""
    found: set[str] = set()
    # What was noted until an error counts.
    with contextlib.suppress(Exception):
        case.run(Name(found, ()))
    return found


class Result:
    """What a call returns: everything can be asked of it, and the answer is another one."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Result()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        _call_functions((*args, *kwargs.values()))
        return Result()

    def __getitem__(self, index: Any) -> Any:
        return Result()

    def __iter__(self) -> Iterator[Any]:
        return iter((Result(), Result()))

    def __len__(self) -> int:
        return 2

    def __bool__(self) -> bool:
        return True

    def __int__(self) -> int:
        return 2

    def __index__(self) -> int:
        return 2

    def __float__(self) -> float:
        return 2.0

    def __enter__(self) -> Any:
        return Result()

    def __exit__(self, *reason: object) -> None:
        return None

    def __array__(self, *options: Any, **others: Any) -> np.ndarray:
        return np.ones(2)

    def __hash__(self) -> int:
        return id(self)


def _operator(self: Any, *others: Any) -> Any:
    return Result()


for _name in (
    *("add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow", "matmul"),
    *("and", "or", "xor", "lshift", "rshift"),
):
    setattr(Result, f"__{_name}__", _operator)
    setattr(Result, f"__r{_name}__", _operator)
for _name in ("neg", "pos", "abs", "invert", "lt", "le", "gt", "ge", "eq", "ne", "round"):
    setattr(Result, f"__{_name}__", _operator)


class Name(Result):
    """A name of the library: it is noted when it is called, or passed to a call."""

    def __init__(self, found: set[str], parts: tuple[str, ...]) -> None:
        self._found = found
        self._parts = parts

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Name(self._found, (*self._parts, name))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._note()
        return super().__call__(*args, **kwargs)

    def __getitem__(self, index: Any) -> Any:
        self._note()
        return Result()

    def _note(self) -> None:
        self._found.add(".".join(self._parts))


def _call_functions(values: Any) -> None:
    """Call the functions among a call's arguments, as transformations and control flow do."""
    for value in values:
        if isinstance(value, Name):
            value._note()
        elif isinstance(value, Result):
            continue
        elif isinstance(value, (list, tuple)):
            _call_functions(value)
        elif isinstance(value, dict):
            _call_functions(value.values())
        elif inspect.isfunction(value):
            value(*[Result() for _ in _required(value)])


def _required(function: Any) -> list[inspect.Parameter]:
    return [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
