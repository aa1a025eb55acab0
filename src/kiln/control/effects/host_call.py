"""Calls of Python functions from compiled programs, as every engine makes them.

An engine lends operands only for the duration of the call and does not check results, so operands
are copied and results are checked. Only a description of an exception is kept: neither the frames
of the call nor the values it refers to may stay alive until the failure surfaces.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from kiln.base.errors import CheckifyError, JaxRuntimeError, three_lines
from kiln.base.lazy import traceback
from kiln.base.records import Record
from kiln.core import trace

TEXT = 1 << 14
"""How many characters of a failure's text are kept: the first and the last ones."""

_SMALL = (bool, int, float, complex, type(None))

_NARROW = {
    np.dtype(np.float64): np.dtype(np.float32),
    np.dtype(np.int64): np.dtype(np.int32),
    np.dtype(np.uint64): np.dtype(np.uint32),
    np.dtype(np.complex128): np.dtype(np.complex64),
}


def _as_declared(position: int, value: Any, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return the result of a host function as an array of the declared type.

    Raises: RuntimeError if it has another shape or dtype; 64-bit values become 32-bit ones.
    """
    out = np.asarray(value)
    if out.shape != shape:
        raise RuntimeError(
            three_lines(
                f"Incorrect output shape for return value #{position}: "
                f"Expected: {shape}, Actual: {out.shape}",
                "a callback must return arrays of the declared shapes",
                "change the result types given with the callback, or the function",
            )
        )
    if out.dtype != dtype and _NARROW.get(out.dtype) != dtype:
        raise RuntimeError(
            three_lines(
                f"Incorrect output dtype for return value #{position}: "
                f"Expected: {dtype}, Actual: {out.dtype}",
                "a callback must return arrays of the declared dtypes",
                f"return value.astype({dtype})",
            )
        )
    return np.ascontiguousarray(out, dtype=dtype).reshape(shape)


def as_declared(
    values: Sequence[Any], types: Sequence[tuple[tuple[int, ...], np.dtype]]
) -> list[np.ndarray]:
    """Return the results of a host function as arrays of the declared shapes and dtypes.

    Raises: RuntimeError if there are more or fewer, or a type differs.
    """
    if len(values) != len(types):
        raise RuntimeError(
            three_lines(
                f"a callback returned {len(values)} values",
                f"{len(types)} were declared",
                "return one value for each declared result",
            )
        )
    return [
        _as_declared(i, x, shape, dtype)
        for i, (x, (shape, dtype)) in enumerate(zip(values, types, strict=True))
    ]


def called(
    fun: Callable[..., Any],
    operands: Sequence[Any],
    types: Sequence[tuple[tuple[int, ...], np.dtype]],
) -> list[np.ndarray]:
    """Call a host function on copies of the operands, outside of all transformations.

    Raises: the exception of the function; RuntimeError if results are not of the declared types.
    """
    arrays = [np.array(x) for x in operands]
    # A program may run on its caller's thread, which may be tracing.
    with trace.in_force(trace.state.root):
        returned = fun(*arrays)
    return as_declared(list(returned) if returned is not None else [], types)


def _is_small(value: Any) -> bool:
    if isinstance(value, (str, bytes)):
        return len(value) <= TEXT
    return type(value) in _SMALL or (type(value) is tuple and all(map(_is_small, value)))


def _shortened(text: str) -> str:
    return text if len(text) <= TEXT else f"{text[: TEXT // 2]}\n...\n{text[-TEXT // 2 :]}"


class Failure(Record):
    """The failure of a callback: an exception's class and text, but no object it refers to."""

    kind: type[BaseException]
    args: tuple[Any, ...]
    attributes: dict[str, Any]
    text: str
    """The text with the traceback."""

    def error(self) -> BaseException:
        """Return an exception with the class and text of the one that was raised."""
        try:
            made = self.kind.__new__(self.kind, *self.args)
            if not isinstance(made, OSError):
                made.args = self.args
            made.__dict__.update(self.attributes)
        except Exception:  # noqa: BLE001, a class of the user's
            return RuntimeError(f"{self.kind.__name__}: {self.args}")
        return made


def described(error: BaseException) -> Failure:
    """Return the description of an exception."""
    inner = error.__traceback__.tb_next if error.__traceback__ else None
    try:
        message = str(error)
        text = "".join(traceback.format_exception(type(error), error, inner)).rstrip()
    except Exception as other:  # noqa: BLE001, a class of the user's
        message = text = f"{type(error).__name__}, whose text cannot be had: {type(other).__name__}"
    # An OSError has file names beside its arguments.
    args: Any = error.__reduce__()[1] if isinstance(error, OSError) else error.args
    if not all(map(_is_small, args)):
        args = (_shortened(message),)
    attributes = {k: v for k, v in vars(error).items() if _is_small(v)}
    return Failure(type(error), args, attributes, _shortened(text))


def raise_failure(failure: Failure, doing: str) -> NoReturn:
    """Raise the exception of a callback as the cause of an error.

    SystemExit and similar exceptions, and the errors of checks, are raised unchanged.
    """
    error = failure.error()
    if isinstance(error, RecursionError) and "\n" not in str(error):
        error = RecursionError(
            three_lines(
                f"{doing}: a host callback failed",
                f"callbacks run programs that call them again: {error}",
                "end the recursion, or write it as a loop (lax.while_loop)",
            )
        )
    if isinstance(error, (RecursionError, CheckifyError)) or not isinstance(error, Exception):
        raise error from None
    raise JaxRuntimeError(f"{doing}: a host callback failed\n{failure.text}") from error
