"""The parameters of a function: which ones options select, and their names in messages."""

from __future__ import annotations

import inspect
import operator
import sys
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from kiln import _runtime
from kiln.base.errors import three_lines
from kiln.base.records import Record
from kiln.base.source import current_source, name_of
from kiln.base.tree import KeyPath, keystr

POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def signature_of(fun: Callable[..., Any]) -> inspect.Signature | None:
    """Return a callable's signature, or None if it has none (some builtins)."""
    try:
        return inspect.signature(signed_by(fun))
    except (ValueError, TypeError):
        return None


def signed_by(fun: Any) -> Any:
    """Return the callable below a jitted function and wrappers whose signature they have.

    `inspect` queries the signature of each layer, and a jitted function queries that of the layer
    below it: called on the outermost one, it would query each layer twice as often as the one
    around it.
    """
    for _ in range(sys.getrecursionlimit()):
        if not isinstance(fun, (types.FunctionType, _runtime.Callable)):
            break
        own = fun.__dict__
        if "__signature__" in own or "__wrapped__" not in own:
            break
        fun = own["__wrapped__"]
    return fun


class Chosen(Record):
    """Parameters selected by number and by name."""

    argnums: tuple[int, ...] = ()
    argnames: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.argnums or self.argnames)


NONE_CHOSEN = Chosen()


def choose(fun: Callable[..., Any], argnums: Any, argnames: Any, option: str) -> Chosen:
    """Validate `static_argnums` / `static_argnames` (or the donated ones) of a function.

    Given one of the two, the other follows from the signature; given both, nothing is inferred.

    Raises: TypeError for other types; ValueError for numbers and names the function does not have.
    """
    if argnums is None and argnames is None:
        return NONE_CHOSEN
    nums = _numbers(argnums, f"{option}_argnums")
    names = _names(argnames, f"{option}_argnames")
    signature = signature_of(fun)
    if signature is None:
        return Chosen(nums, names) or NONE_CHOSEN
    nums = _check_numbers(fun, signature, nums, f"{option}_argnums")
    _check_names(fun, signature, names, f"{option}_argnames")
    parameters = list(signature.parameters.values())
    positional = [p for p in parameters if p.kind in POSITIONAL]
    if argnames is None:
        names = tuple(
            positional[i].name for i in nums if i < len(positional) and positional[i].kind in NAMED
        )
    elif argnums is None:
        nums = tuple(i for i, p in enumerate(positional) if p.name in names)
    return Chosen(tuple(sorted(set(nums))), tuple(dict.fromkeys(names))) or NONE_CHOSEN


def _wrong_option(option: str, given: Any, wanted: str, example: str) -> TypeError:
    return TypeError(
        three_lines(
            f"jit with {option}={given!r:.60} at {current_source()}",
            f"{option} must be {wanted}, got {given!r:.200}",
            f"write {option}={example}",
        )
    )


def _numbers(argnums: Any, option: str) -> tuple[int, ...]:
    if argnums is None:
        return ()
    if isinstance(argnums, str) or not isinstance(argnums, (int, np.integer, Iterable)):
        raise _wrong_option(option, argnums, "an int or a sequence of ints", "(0, 2)")
    items = [argnums] if isinstance(argnums, (int, np.integer)) else list(argnums)
    try:
        return tuple(operator.index(i) for i in items)
    except TypeError:
        raise _wrong_option(option, argnums, "an int or a sequence of ints", "(0, 2)") from None


def _names(argnames: Any, option: str) -> tuple[str, ...]:
    if argnames is None:
        return ()
    items = [argnames] if isinstance(argnames, str) else argnames
    if not isinstance(items, Iterable):
        raise _wrong_option(option, argnames, "a str or an iterable of str", "('axis', 'mode')")
    found = tuple(items)
    for name in found:
        if not isinstance(name, str):
            raise _wrong_option(option, argnames, "a str or an iterable of str", "('axis', 'mode')")
    return found


def _check_numbers(
    fun: Callable[..., Any], signature: inspect.Signature, nums: Sequence[int], option: str
) -> tuple[int, ...]:
    kinds = [p.kind for p in signature.parameters.values()]
    count = sum(kind in POSITIONAL for kind in kinds)
    variadic = inspect.Parameter.VAR_POSITIONAL in kinds
    for i in nums:
        if not -count <= i < count and not variadic:
            raise ValueError(
                three_lines(
                    f"jit of {name_of(fun)}{signature} with {option}={tuple(nums)}"
                    f" at {current_source()}",
                    f"the function has {option}={tuple(nums)}, but only accepts {count} "
                    "positional arguments",
                    f"use numbers from 0 to {count - 1}, or {option[:-4]}names",
                )
            )
    # With `*args`, negative numbers before the first parameter select nothing, as in JAX.
    return tuple([i + count if i < 0 else i for i in nums if i >= -count])


def _check_names(
    fun: Callable[..., Any], signature: inspect.Signature, names: Sequence[str], option: str
) -> None:
    parameters = signature.parameters
    variadic = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    for name in names:
        parameter = parameters.get(name)
        if parameter is not None and parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise ValueError(
                three_lines(
                    f"jit of {name_of(fun)}{signature} with {option}={tuple(names)}"
                    f" at {current_source()}",
                    f"{name!r} names a positional-only parameter, so {option} cannot reach it",
                    f"use {option[:-5]}nums instead",
                )
            )
        if not variadic if parameter is None else parameter.kind not in NAMED:
            valid = [p.name for p in parameters.values() if p.kind in NAMED]
            raise ValueError(
                three_lines(
                    f"jit of {name_of(fun)}{signature} with {option}={tuple(names)}"
                    f" at {current_source()}",
                    f"{option} names {name!r}, which is not a keyword parameter of the function",
                    f"use names among {valid}",
                )
            )


def parameter_name(fun: Callable[..., Any], place: int | str) -> str:
    """Return the name of the parameter that takes a positional argument."""
    if isinstance(place, str):
        return place
    signature = signature_of(fun)
    if signature is not None:
        positional = [p for p in signature.parameters.values() if p.kind in POSITIONAL]
        if place < len(positional):
            return positional[place].name
        for p in signature.parameters.values():
            if p.kind is inspect.Parameter.VAR_POSITIONAL:
                return f"{p.name}[{place - len(positional)}]"
    return f"args[{place}]"


def argument_name(fun: Callable[..., Any], path: KeyPath, places: Sequence[int | str]) -> str:
    """Return the name, for messages, of the value at a path into `(args, kwargs)`."""
    if len(path) == 1:
        return "args" if path[0].idx == 0 else "kwargs"
    if path[0].idx == 0:
        root = parameter_name(fun, places[path[1].idx])
    else:
        root = str(path[1].key)
    return root + keystr(path[2:])
