"""Errors that programs record while they run, and that are raised on request.

`set_error_if` records the first error in a reference, also from jitted functions and loops, without
interrupting the program. `raise_if_error` checks it. The functions of `kiln.numpy` record nans,
divisions by zero and indices out of bounds if `error_checking_behavior` enables it.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
import types
from collections.abc import Callable
from typing import Any, ParamSpec, Self, TypeVar

import numpy as np

from kiln.base.errors import JaxValueError, three_lines
from kiln.base.lazy import json, traceback
from kiln.base.named_tuples import NamedTuple
from kiln.base.options.config import options, override
from kiln.base.options.names import checked
from kiln.base.process.forks import new_lock
from kiln.base.source import api_boundary, current_source, is_users
from kiln.base.tree.nodes import register_dataclass
from kiln.control.custom_rules.vmap import custom_vmap
from kiln.control.references.refs import new_ref
from kiln.core.array_type import ArrayLike
from kiln.core.ref import Ref
from kiln.core.trace import aval_of, eval_context, in_force, state
from kiln.export.node_classes import register_pytree_node_serialization
from kiln.ops.elements.elementwise import add, bitwise_and, eq, ne, select, stop_gradient
from kiln.ops.reductions.reduction import reduce_or_p
from kiln.transforms.batching import BatchTrace
from kiln.transforms.jvp import JVPTrace

P = ParamSpec("P")
R = TypeVar("R")

__all__ = [
    "JaxValueError",
    "error_checking_behavior",
    "error_checking_context",
    "raise_if_error",
    "set_error_if",
    "unwrap_from_import",
    "wrap_for_export",
]

_NO_ERROR = np.uint32(np.iinfo(np.uint32).max)


class _Place(NamedTuple):
    """A line of user code: its code object and line number."""

    code: types.CodeType
    line: int


class _Note(NamedTuple):
    """The message of an error, and where it was recorded: lines, innermost first, or their text."""

    message: str
    places: tuple[_Place, ...] | str

    def error(self) -> JaxValueError:
        """Return the error, with the traceback of the line that recorded it."""
        if isinstance(self.places, str):
            return JaxValueError(
                f"{self.message}\nThe function was imported. Where it noted the error:\n"
                f"{self.places}"
            )
        tb = None
        for place in self.places:
            tb = types.TracebackType(tb, _frame_like(place.code), -1, place.line)
        return JaxValueError(self.message).with_traceback(tb)

    def carried(self) -> tuple[str, str]:
        """Return the message, and the lines as text."""
        if isinstance(self.places, str):
            return self.message, self.places
        lines = [
            traceback.FrameSummary(code.co_filename, line, code.co_name)
            for code, line in reversed(self.places)
        ]
        return self.message, "".join(traceback.format_list(lines)).rstrip("\n")


def _frame_like(code: types.CodeType) -> types.FrameType:
    """Return a frame whose code is `code`, without the references of the real frame."""
    own = _this_frame.__code__.replace(
        co_filename=code.co_filename, co_name=code.co_name, co_qualname=code.co_qualname
    )
    frame: types.FrameType = types.FunctionType(own, {"sys": sys})()
    return frame


def _this_frame() -> types.FrameType:
    return sys._getframe()


_UNKNOWN = _Note(
    "an unknown error: an imported function returned an invalid error number",
    "(unknown)",
)


class _Notes:
    """The errors that programs may record, by number. An equal error keeps its number."""

    def __init__(self) -> None:
        self.lock = new_lock()
        self.listed: list[_Note] = []
        self.numbers: dict[tuple[_Note, ...], int] = {}

    def first_number(self, notes: tuple[_Note, ...]) -> int:
        """Return the number of the first of some errors; the others are numbered consecutively."""
        with self.lock:
            found = self.numbers.setdefault(notes, len(self.listed))
            if found == len(self.listed):
                self.listed.extend(notes)
            return found


class _Errors:
    """A state of errors: the number of the first, in a reference, and the meaning of numbers."""

    def __init__(self, notes: _Notes) -> None:
        self.notes = notes
        self.ref: Ref | None = None

    def code(self) -> Ref:
        """Return the reference to the number of the first error."""
        if self.ref is None:
            with eval_context():
                self.ref = new_ref(_NO_ERROR)
        return self.ref

    def note(self, failed: Any, number: Any) -> None:
        """Record an error if it occurred, unless one has been recorded."""
        # Whether it occurred is the same for all examples of a `vmap`, and has no derivative.
        trace: Any = state.trace
        while isinstance(trace, (BatchTrace, JVPTrace)):
            trace = trace.parent
        with in_force(trace):
            ref = self.code()
            code = ref[...]
            ref[...] = select(bitwise_and(eq(code, _NO_ERROR), failed), number, code)


_all = _Errors(_Notes())
"""The errors of functions outside all contexts."""


def _current() -> _Errors:
    found: _Errors | None = options().error_state
    return _all if found is None else found


class error_checking_context(override):
    """Record errors separately from earlier ones, until the context ends.

    Needed if a computation runs on other devices than the one that recorded errors before.

    Example:
        >>> with error_check.error_checking_context():
        ...     error_check.set_error_if(jnp.array(True), "noted here")
        >>> error_check.raise_if_error()
    """

    def __new__(cls) -> Self:
        """Create a new state of errors."""
        return super().__new__(cls, error_state=_Errors(_all.notes))


@custom_vmap
def _any(pred: Any) -> Any:
    return reduce_or_p.bind(pred, axes=tuple(range(aval_of(pred).ndim)))


@_any.def_vmap
def _any_of_all(axis_size: Any, in_batched: Any, pred: Any) -> tuple[Any, bool]:
    return _any(pred), False


@api_boundary
def set_error_if(pred: ArrayLike, /, msg: str) -> None:
    """Record an error if any element of `pred` is true; the program continues.

    Only the first error is kept until `raise_if_error` raises it. Under `vmap`, one example
    suffices.

    Raises: TypeError unless `pred` is boolean.
    Example:
        >>> @kiln.jit
        ... def root(x):
        ...     error_check.set_error_if(x < 0, "x is negative")
        ...     return jnp.sqrt(x)
        >>> root(-1.0)
        Array(nan, dtype=float32, weak_type=True)
        >>> error_check.raise_if_error()
        Traceback (most recent call last):
        kiln.base.errors.JaxValueError: x is negative
    """
    dtype = aval_of(pred).dtype
    if dtype != np.bool_:
        raise TypeError(
            three_lines(
                f"set_error_if(..., {msg!r:.60}) at {current_source()}",
                f"the predicate has dtype {dtype}",
                "compare explicitly: set_error_if(x != 0, message)",
            )
        )
    errors = _current()
    number = errors.notes.first_number((_Note(msg, _places()),))
    errors.note(_any(stop_gradient(pred)), np.uint32(number))


def _places() -> tuple[_Place, ...]:
    found = []
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_users(frame.f_code):
            found.append(_Place(frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return tuple(found)


@api_boundary
def raise_if_error() -> None:
    """Raise the first error that was recorded since the last one was raised, if any.

    Raises: JaxValueError with the message and the traceback of the `set_error_if`; ValueError while
        a function is traced.
    """
    if state.trace is not state.root:
        raise ValueError(
            three_lines(
                f"raise_if_error at {current_source()}",
                "raise_if_error() should not be called within a traced context, such as within a "
                "jitted function: errors are known only after the program has run",
                "call it after the function",
            )
        )
    errors = _current()
    if errors.ref is None:
        return
    code = int(errors.ref[...])
    if code == _NO_ERROR:
        return
    errors.ref[...] = _NO_ERROR
    listed = errors.notes.listed
    raise (listed[code] if code < len(listed) else _UNKNOWN).error()


@dataclasses.dataclass(frozen=True)
class CarriedErrors:
    """The errors of an exported function: the number of the first, and the meaning of numbers."""

    error_code: Any
    error_list: tuple[tuple[str, str], ...]


def _metadata(stored: Any) -> tuple[tuple[tuple[str, str], ...]]:
    (pairs,) = stored
    return (tuple([(message, where) for message, where in pairs]),)


register_dataclass(CarriedErrors, ("error_code",), ("error_list",))
register_pytree_node_serialization(
    CarriedErrors,
    serialized_name="jax._src.error_check._ErrorClass",
    serialize_auxdata=lambda metadata: json.dumps(metadata, ensure_ascii=False).encode(),
    deserialize_auxdata=lambda stored: _metadata(json.loads(stored)),
)


def wrap_for_export(f: Callable[P, R]) -> Callable[P, tuple[R, CarriedErrors]]:
    """Return the function with the errors it records as a second result, for export.

    `unwrap_from_import` undoes it after the import.
    """

    @functools.wraps(f)
    def inner(*args: P.args, **kwargs: P.kwargs) -> tuple[R, CarriedErrors]:
        errors = _Errors(_Notes())
        errors.ref = new_ref(_NO_ERROR)
        with override(error_state=errors):
            out = f(*args, **kwargs)
        carried = tuple([note.carried() for note in errors.notes.listed])
        return out, CarriedErrors(errors.ref[...], carried)

    return inner


def unwrap_from_import(f: Callable[P, tuple[R, CarriedErrors]]) -> Callable[P, R]:
    """Undo `wrap_for_export` for an imported function, and record its errors here."""

    @functools.wraps(f)
    def inner(*args: P.args, **kwargs: P.kwargs) -> R:
        out, carried = f(*args, **kwargs)
        errors = _current()
        notes = tuple([_Note(message, where) for message, where in carried.error_list])
        first = np.uint32(errors.notes.first_number(notes))
        code = carried.error_code
        errors.note(ne(code, _NO_ERROR), add(code, first))
        return out

    return inner


class error_checking_behavior(override):
    """Set which errors the functions of `kiln.numpy` record, until the context ends.

    Each is "ignore" or "raise"; by default it is unchanged, or set by `all`. "raise" means that
    `raise_if_error` raises the error.

    Example:
        >>> with error_check.error_checking_behavior(nan="raise"):
        ...     _ = jnp.log(-1.0)
        >>> error_check.raise_if_error()
        Traceback (most recent call last):
        kiln.base.errors.JaxValueError: NaN encountered
    """

    def __new__(
        cls,
        *,
        all: str | None = None,
        nan: str | None = None,
        divide: str | None = None,
        oob: str | None = None,
    ) -> Self:
        """Set the behavior for each kind of error."""
        each = {"nan": nan, "divide": divide, "oob": oob}
        return super().__new__(
            cls,
            **{
                f"error_checking_behavior_{kind}": checked(
                    f"error_checking_behavior_{kind}", all if own is None else own
                )
                for kind, own in each.items()
                if not (own is None and all is None)
            },
        )
