"""Source locations in user code, and tracebacks without kiln's frames."""

from __future__ import annotations

import functools
import os
import sys
import threading
import types
from collections.abc import Callable
from typing import Any, ParamSpec, Self, TypeVar

import numpy as np

from kiln import _runtime
from kiln.base.errors import UnfilteredStackTrace

P = ParamSpec("P")
R = TypeVar("R")

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# If a NumPy function gets a traced value, report the user's call, not a line of NumPy's. Python's
# import machinery reads attributes of modules as well.
_NOT_THE_USERS = (_ROOT, os.path.dirname(np.__file__) + os.sep, "<frozen importlib.")
_MARK = "__tracebackhide__"
_LEFT_OUT = (
    "For simplicity, kiln has left its own frames out of this traceback. "
    "Set KILN_FULL_TRACEBACK=1 to see them."
)
_files_of_others: set[str] = set()
"""Files of those folders that stack walks have met: they meet the same ones again and again."""


class Source:
    """A location in user code, stored as a code object and an offset until it is needed."""

    __slots__ = ("code", "offset", "scopes")

    def __init__(self, code: types.CodeType, offset: int, scopes: tuple[str, ...] = ()) -> None:
        self.code = code
        self.offset = offset
        self.scopes = scopes

    @property
    def file(self) -> str:
        """The file's path."""
        return self.code.co_filename

    @property
    def line(self) -> int:
        """The line number."""
        line = self.code.co_firstlineno
        for start, end, number in self.code.co_lines():
            if start <= self.offset < end and number is not None:
                line = number
        return line

    @property
    def function(self) -> str:
        """The enclosing function's name."""
        return self.code.co_name

    def __str__(self) -> str:
        return f"{shown_file(self.file)}:{self.line}"

    __repr__ = __str__


class _Here(threading.local):
    """The names of the scopes that this thread is in, and the line that it works for."""

    scopes: tuple[str, ...] = ()
    caller: Source | None = None


_here = _Here()


def current_scopes() -> tuple[str, ...]:
    """Return the names of the scopes around the line that runs, the outermost first."""
    return _here.scopes


class in_scopes(_runtime.Assigned):
    """Set the names of scopes of source locations, in a context."""

    def __new__(cls, scopes: tuple[str, ...]) -> Self:
        """Store the names."""
        return super().__new__(cls, _here, "scopes", scopes, None)


class in_scope(_runtime.Changed):
    """Add a name to the scopes of source locations, in a context."""

    def __new__(cls, name: str, result: Callable[[tuple[str, ...]], Any] | None = None) -> Self:
        """Store the name, and the function that computes the context's result from all names."""

        def change(outer: tuple[str, ...]) -> tuple[tuple[str, ...], Any]:
            scopes = (*outer, name)
            return scopes, result(scopes) if result else None

        return super().__new__(cls, _here, "scopes", change)


class working_for(_runtime.Assigned):
    """Set the line of another thread that this one works for, in a context."""

    def __new__(cls, caller: Source | None) -> Self:
        """Store the location."""
        return super().__new__(cls, _here, "caller", caller, None)


def is_internal(filename: str) -> bool:
    """Tell whether a file belongs to kiln."""
    return filename.startswith(_ROOT)


EXCLUDED: list[str] = []
"""Files or folders of libraries that tracebacks leave out like kiln's own."""


def is_left_out(frame: types.FrameType) -> bool:
    """Tell whether tracebacks leave a frame out."""
    file = frame.f_code.co_filename
    return is_internal(file) or file.startswith(tuple(EXCLUDED))


def is_users(code: types.CodeType) -> bool:
    """Tell whether code is neither kiln's nor NumPy's."""
    return not code.co_filename.startswith(_NOT_THE_USERS)


def current_source() -> Source | None:
    """Return the innermost frame outside kiln and NumPy, or that for which this thread works."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_filename not in _files_of_others:
            if not code.co_filename.startswith(_NOT_THE_USERS):
                if _here.caller is not None and code.co_filename == threading.__file__:
                    # Where the thread began.
                    return _here.caller
                return Source(code, frame.f_lasti, _here.scopes)
            _files_of_others.add(code.co_filename)
        frame = frame.f_back
    return None


def shown_file(file: str) -> str:
    """Return how users know a file: the cell of a notebook by its number, such as `In[3]`."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    # The compiler of cells gives them names of files that do not exist, and maps these to cells.
    naming: Any = getattr(getattr(shell, "compile", None), "format_code_name", None)
    named = naming(file) if naming is not None else None
    return named[1] if named is not None else file


def place_of(source: Source | None) -> str:
    """Return `FILE:LINE in FUNCTION` of a location, as far as it is known."""
    return f"{source} in {source.function}" if source else "an unknown line"


def definition_of(fun: Any) -> str:
    """Return `NAME at FILE:LINE` for a callable, as far as it is known."""
    while isinstance(fun, functools.partial):
        fun = fun.func
    inner = getattr(fun, "__wrapped__", fun)
    code = getattr(inner, "__code__", None)
    if code is None:
        code = getattr(vars(type(inner)).get("__call__"), "__code__", None)
    name = name_of(fun)
    return f"{name} at {shown_file(code.co_filename)}:{code.co_firstlineno}" if code else name


def name_of(fun: Any) -> str:
    """Return the name that a program gets from its function."""
    while isinstance(fun, functools.partial):
        fun = fun.func
    name = getattr(fun, "__name__", None) or type(fun).__name__
    return str(name)


def filtered(tb: types.TracebackType | None) -> types.TracebackType | None:
    """Return the traceback without the frames of kiln and of excluded files."""
    kept = []
    while tb is not None:
        if not is_left_out(tb.tb_frame):
            kept.append(tb)
        tb = tb.tb_next
    result: types.TracebackType | None = None
    for entry in reversed(kept):
        result = types.TracebackType(result, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return result


def _goes_through_another(frame: types.FrameType | None, code: types.CodeType) -> bool:
    """Tell whether a frame with this code is among the callers."""
    while frame is not None:
        if frame.f_code is code:
            return True
        frame = frame.f_back
    return False


def _marked(tb: types.TracebackType | None, boundary: types.CodeType) -> None:
    """Mark the frames to leave out, for traceback printers that respect the mark."""
    while tb is not None:
        frame = tb.tb_frame
        # A boundary marks its own frame: its locals refer to the error, which would be a cycle.
        if is_left_out(frame) and frame.f_code is not boundary:
            frame.f_locals[_MARK] = True
        tb = tb.tb_next


def _with_cause(error: Exception) -> None:
    """Make an error's whole traceback its cause, and the former cause the cause of that."""
    whole = UnfilteredStackTrace(
        f"{type(error).__name__}: {error}\n\n"
        "The traceback above has all frames. The one below is without those of kiln."
    )
    whole.__traceback__ = error.__traceback__
    whole.__cause__ = error.__cause__
    whole.__context__ = error.__context__
    whole.__suppress_context__ = error.__suppress_context__
    error.__cause__ = whole


def leave_out(error: Exception) -> None:
    """Hide kiln's frames from an error that leaves the caller, as `traceback_filtering` says."""
    boundary = sys._getframe(1)
    options = _runtime.options()
    how = "off" if options.full_traceback else options.traceback_filtering
    if how == "off":
        return
    if how == "tracebackhide":
        _marked(error.__traceback__, boundary.f_code)
        return
    if how == "remove_frames":
        if _goes_through_another(boundary.f_back, boundary.f_code):
            return
        if type(error.__cause__) is not UnfilteredStackTrace:
            _with_cause(error)
    elif how == "quiet_remove_frames" and _LEFT_OUT not in getattr(error, "__notes__", ()):
        error.add_note(_LEFT_OUT)
    error.__traceback__ = filtered(error.__traceback__)


def api_boundary(fun: Callable[P, R]) -> Callable[P, R]:
    """Hide kiln's frames from exceptions that leave `fun`, as `traceback_filtering` says."""

    @functools.wraps(fun)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return fun(*args, **kwargs)
        except Exception as error:
            __tracebackhide__ = True
            leave_out(error)
            raise

    return wrapper


def unwrapped(fun: Any) -> Any:
    """Return a function itself: those of a decorator share the wrapper's code."""
    while hasattr(fun, "__wrapped__"):
        fun = fun.__wrapped__
    return fun
