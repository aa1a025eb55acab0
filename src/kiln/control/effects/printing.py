"""Printing and logging from programs: the format is checked when recorded, and applied later."""

from __future__ import annotations

import string
import sys
from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np

from kiln.base.errors import three_lines
from kiln.base.lazy import logging
from kiln.base.records import Record
from kiln.base.source import api_boundary, current_source
from kiln.base.tree import tree_map
from kiln.control.effects.callback import debug_callback, refuse_arguments
from kiln.core.ref import Ref
from kiln.core.trace import Tracer

LOGGER = "kiln.debug"
"""The logger of `debug.log`."""

INFO = 20


class Printer(Record):
    """Writes a formatted line, with the NumPy print options in force when it was recorded."""

    fmt: str
    options: tuple[tuple[str, Any], ...]
    """NumPy's print options."""
    place: tuple[str, int] | None = None
    """The file and line that a log record names."""

    @property
    def __name__(self) -> str:
        return f"print({self.fmt!r})"

    def __call__(self, /, *args: Any, **kwargs: Any) -> None:
        """Write to standard output, or to the log."""
        with np.printoptions(**dict(self.options)):
            line = self._line(args, kwargs)
        if self.place is None:
            sys.stdout.write(line + "\n")
            return
        logger = logging.getLogger(LOGGER)
        if logger.isEnabledFor(INFO):
            file, number = self.place
            logger.handle(logger.makeRecord(LOGGER, INFO, file, number, line, (), None))

    def _line(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        if args and all(name is None for _, name, _, _ in string.Formatter().parse(self.fmt)):
            # The format is unchecked: values are appended to it.
            return " ".join([self.fmt, *map(str, args)])
        return self.fmt.format(*args, **kwargs)


class _Checker(string.Formatter):
    """Fails where formatting would, without formatting; records unused arguments."""

    unused: Sequence[str] = ()
    kind = "positional"

    def format_field(self, value: Any, format_spec: str) -> str:
        return ""

    def convert_field(self, value: Any, conversion: str | None) -> Any:
        return value

    def check_unused_args(self, used_args: Any, args: Any, kwargs: Any) -> None:
        self.unused = [repr(i) for i in range(len(args)) if i not in used_args]
        if not self.unused:
            self.kind = "keyword"
            self.unused = [name for name in kwargs if name not in used_args]


def _check(fmt: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    checker = _Checker()
    try:
        checker.format(fmt, *args, **kwargs)
    except (IndexError, ValueError) as error:
        raise type(error)(
            three_lines(
                f"debug.print({fmt!r}, ...) at {current_source()}",
                f"the format does not fit {len(args)} arguments and the names {list(kwargs)}: "
                f"{error}",
                "give one argument for each {}, and double the braces of text: {{ }}",
            )
        ) from None
    if checker.unused:
        raise ValueError(
            three_lines(
                f"debug.print({fmt!r}, ...) at {current_source()}",
                f"Unused {checker.kind} arguments to debug.print: {', '.join(checker.unused)}. "
                'You may be passing an f-string (f"{x}"), which is text before the program runs.',
                'name them in the format string: debug.print("{} {x}", a, x=b)',
            )
        )


def _options() -> tuple[tuple[str, Any], ...]:
    options = dict(np.get_printoptions())
    # Formatters are a dict, which cannot be a parameter of a program; those in force at run time
    # are used.
    options.pop("formatter", None)
    return tuple(options.items())


def _content(x: Any) -> Any:
    """Return the content of a traced reference, and anything else unchanged."""
    if isinstance(x, Ref) and (x.variable is not None or isinstance(x.content, Tracer)):
        return x[...]
    return x


@overload
def debug_print(
    fmt: str,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    _use_logging: bool = False,
    **kwargs: Any,
) -> None: ...


@overload
def debug_print(
    *,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    _use_logging: bool = False,
) -> Callable[..., None]: ...


@api_boundary
def debug_print(
    fmt: str | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    _use_logging: bool = False,
    **kwargs: Any,
) -> Callable[..., None] | None:
    """Print values when the program runs: `debug.print("x = {}, y = {y}", x, y=y)`.

    `ordered` lines follow the program's order; a `partitioned` one is printed for each device, with
    its part of the arrays. Options may be given before: `debug.print(ordered=True)("{}", x)`.
    NumPy's print options are those in force where the call is recorded.

    Raises: TypeError, ValueError, IndexError or KeyError if the arguments do not match the format,
        unless `skip_format_check`.
    """

    def call(fmt: str, *args: Any, **kwargs: Any) -> None:
        source = current_source()
        if not isinstance(fmt, str):
            raise TypeError(
                three_lines(
                    f"debug.print at {source}",
                    f"the first argument must be a format string, got {type(fmt)}",
                    'write debug.print("{}", x)',
                )
            )
        if not skip_format_check:
            _check(fmt, args, kwargs)
        place = None
        if _use_logging:
            place = ("(unknown file)", 0) if source is None else (source.file, source.line)
        printer = Printer(fmt, _options(), place)
        args, kwargs = tree_map(_content, (args, kwargs))
        debug_callback(printer, *args, ordered=ordered, partitioned=partitioned, **kwargs)

    if fmt is None:
        refuse_arguments("debug.print", args, kwargs)
        return api_boundary(call)
    call(fmt, *args, **kwargs)
    return None


@api_boundary
def debug_log(fmt: str | None = None, *args: Any, **kwargs: Any) -> Callable[..., None] | None:
    """Log values when the program runs, at level INFO of the logger `kiln.debug`.

    It takes what `debug.print` takes. The record names the file and line of the call.

    Raises: the errors of `debug.print`.
    """
    if fmt is None:
        return debug_print(_use_logging=True, **kwargs)
    return debug_print(fmt, *args, _use_logging=True, **kwargs)
