"""Which random keys a program uses, and whether it uses one twice.

Each element of an array of keys is a `Key`; an array of them stands for the array of keys. A
program is interpreted over these in place of values. Operations that only move elements move
`Key`s; `random_bits`, `random_split` and unknown operations use all keys among their operands.
Loops are interpreted iteration by iteration, until a fixed point. If an index is unknown, the keys
that it selects are unknown, and nothing is reported about them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import KeyReuseError, three_lines
from kiln.base.source import Source
from kiln.ir.jaxpr import Eqn, Jaxpr, Literal
from kiln.ir.sizes.size import Size

Keys = np.ndarray | None
"""The `Key`s of an array of keys; None for another array, or if they are unknown."""


class _Here(threading.local):
    """What a thread interprets. Equations have the lines of their first trace instead."""

    programs: tuple[str, ...] = ()
    call = ""
    is_again = False
    """Whether a loop is past its first iteration."""

    def place(self, eqn: Eqn) -> str:
        return f"{' in '.join(reversed(self.programs)) or eqn.primitive.name} at {self.call}"


_here = _Here()

_AGAIN = "function leads to key reuse when repeatedly executed"


def called_at(source: Source | None) -> None:
    """Set the user's line that calls the programs interpreted from now on."""
    _here.call = str(source) if source is not None else "an unknown line"


class Key:
    """One random key, and what has used it, if anything."""

    __slots__ = ("used_at",)

    def __init__(self) -> None:
        self.used_at = ""


def is_key(aval: Any) -> bool:
    """Tell whether a type is that of an array of random keys."""
    return type(getattr(aval, "dtype", None)) is dtypes.KeyDtype


def fresh(aval: Any) -> Keys:
    """Return unused keys of a type; None if it is not a type of keys, or has named sizes."""
    if not is_key(aval) or any(isinstance(size, Size) for size in aval.shape):
        return None
    found = np.empty(aval.shape, object)
    for index in np.ndindex(aval.shape):
        found[index] = Key()
    return found


def use(eqn: Eqn, operands: Sequence[Keys]) -> None:
    """Record that an equation uses keys.

    Raises: KeyReuseError if one of them was used before.
    """
    place = _here.place(eqn)
    for i, keys in enumerate(operands):
        if keys is None:
            continue
        # An operation may be given the same key several times: it uses it once.
        given = distinct([keys])
        again = next((key for key in given if key.used_at), None)
        if again is not None:
            raise _used_again(
                again,
                f"{eqn.primitive.name} of {eqn.invars[i].aval} by {place}",
                eqn.primitive.name,
                i,
            )
        for key in given:
            key.used_at = place


def _used_again(key: Key, asked: str, name: str, i: int) -> KeyReuseError:
    given_to = "jit-compiled function" if name == "jit" else name
    error = KeyReuseError(
        three_lines(
            asked,
            f"Previously-consumed key passed to {given_to} at index {i}: "
            f"In {name}, argument {i} is already consumed, by {key.used_at}",
            "make a key for each use: key, other = kiln.random.split(key); or, to draw the "
            "same numbers on purpose, kiln.random.clone(key)",
        )
    )
    error.reused = key
    return error


def run_call(call: str, jaxpr: Jaxpr, operands: Sequence[Keys], name: str) -> list[Keys]:
    """Interpret the program of an operation, a call; return the keys of its results.

    Raises: KeyReuseError, about the call itself if it is passed a key that was used before.
    """
    used = {id(key): key.used_at for key in distinct(operands) if key.used_at}
    try:
        return run(jaxpr, operands, name)
    except KeyReuseError as error:
        for i, keys in enumerate(operands):
            if any(key is error.reused and id(key) in used for key in distinct([keys])):
                asked = str(error).partition("\n")[0]
                raise _used_again(error.reused, asked, call, i) from None
        raise


def distinct(operands: Sequence[Keys]) -> list[Key]:
    """Return the keys in arrays of them, each once."""
    arrays = [keys for keys in operands if keys is not None]
    found = {id(key): key for keys in arrays for key in keys.flat if isinstance(key, Key)}
    return list(found.values())


def run(jaxpr: Jaxpr, operands: Sequence[Keys], name: str = "") -> list[Keys]:
    """Interpret a program; return the keys of its results.

    Raises: KeyReuseError if it uses a key twice, or one that was used before.
    """
    outer = _here.programs
    _here.programs = (*outer, name) if name else outer
    try:
        return _run(jaxpr, operands)
    finally:
        _here.programs = outer


def _run(jaxpr: Jaxpr, operands: Sequence[Keys]) -> list[Keys]:
    known: dict[Any, Keys] = dict(zip(jaxpr.invars, operands, strict=True))

    def read(v: Any) -> Keys:
        return None if isinstance(v, Literal) else known.get(v)

    for eqn in jaxpr.eqns:
        # A region may make keys from numbers.
        has_keys = any(is_key(v.aval) for v in (*eqn.invars, *eqn.outvars))
        if not has_keys and not eqn.primitive.region:
            continue
        constants = [v.val if isinstance(v, Literal) else None for v in eqn.invars]
        found = eqn.primitive.use_keys(eqn, [read(v) for v in eqn.invars], constants)
        known.update(zip(eqn.outvars, found, strict=True))
    return [read(v) for v in jaxpr.outvars]


def moved(eqn: Eqn, operands: Sequence[Keys], values: Sequence[Any]) -> list[Keys]:
    """Return the keys of the results of an operation that only moves elements."""
    given = []
    for v, keys, value in zip(eqn.invars, operands, values, strict=True):
        found = keys if is_key(v.aval) else value
        if found is None:
            return [None] * len(eqn.outvars)
        given.append(found)
    found = eqn.primitive.numpy(*given, **eqn.params)
    return list(found) if eqn.primitive.multiple else [found]


def after_iterations(
    iteration: Callable[[Sequence[Keys]], Sequence[Keys]], carry: Sequence[Keys], length: int | None
) -> Sequence[Keys]:
    """Interpret the iterations of a loop; `length` is the trip count if it is known.

    Keys move within the carry: after one iteration per key, and one more, nothing changes.
    """
    most = 2 + sum([keys.size for keys in carry if keys is not None])
    for i in range(most if length is None else min(most, length)):
        _here.is_again = i > 0
        try:
            carry = iteration(carry)
        finally:
            _here.is_again = False
    return carry


def run_body(what: str, jaxpr: Jaxpr, operands: Sequence[Keys]) -> list[Keys]:
    """Interpret the body of a loop for one iteration; return the keys of its results.

    Raises: KeyReuseError, which says so if only the repetition uses a key twice.
    """
    again, _here.is_again = _here.is_again, False
    try:
        return run(jaxpr, operands)
    except KeyReuseError as error:
        if not again or _AGAIN in str(error):
            raise
        asked, wrong, instead = str(error).split("\n")
        told = KeyReuseError(three_lines(asked, f"{what} {_AGAIN}: {wrong}", instead))
        told.reused = error.reused
        raise told from None
    finally:
        _here.is_again = again


class Rows:
    """Arrays of keys of which each iteration of a loop gets one row."""

    def __init__(self, stacks: Sequence[Keys]) -> None:
        self._stacks = stacks
        self._taken = 0

    def next(self) -> list[Keys]:
        """Return the rows of the next iteration."""
        i = self._taken
        self._taken += 1
        return [
            None if keys is None else keys[i : i + 1].reshape(keys.shape[1:])
            for keys in self._stacks
        ]

    def use_rest(self, eqn: Eqn) -> None:
        """Use the rows of skipped iterations, as the first iteration used its own."""
        found: list[Keys] = [None] * (len(eqn.invars) - len(self._stacks))
        for keys in self._stacks:
            if keys is None or not self._taken:
                found.append(None)
                continue
            rows = keys.reshape(len(keys), -1)
            was_used = np.array([bool(key.used_at) for key in rows[0]], bool)
            found.append(rows[self._taken :, was_used])
        use(eqn, found)


def after_one_of(branches: Sequence[Jaxpr], operands: Sequence[Keys]) -> list[Keys]:
    """Interpret programs of which one runs; return the keys of the results, whichever it is."""
    unused = [key for key in distinct(operands) if not key.used_at]
    used: dict[Key, str] = {}
    results = []
    for branch in branches:
        results.append(run(branch, operands))
        for key in unused:
            if key.used_at:
                used[key] = key.used_at
                key.used_at = ""
    for key, place in used.items():
        key.used_at = place
    return [_any_of(found) for found in zip(*results, strict=True)]


def _any_of(found: Sequence[Keys]) -> Keys:
    arrays: list[Any] = [keys for keys in found if keys is not None]
    if len(arrays) < len(found):
        return None
    first: np.ndarray = arrays[0]
    if all(np.array_equal(first, keys) for keys in arrays[1:]):
        return first
    made = np.empty(first.shape, object)
    for index in np.ndindex(first.shape):
        key = made[index] = Key()
        key.used_at = next((keys[index].used_at for keys in arrays if keys[index].used_at), "")
    return made
