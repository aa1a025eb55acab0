"""The debugger of breakpoints in programs: a prompt in a terminal, with the commands of JAX's."""

from __future__ import annotations

import cmd
import linecache
import pprint
import sys
import types
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import IO, Any

from kiln.base.errors import three_lines
from kiln.base.lazy import traceback
from kiln.base.records import Record

AROUND, LISTED = 2, 5
"""The number of lines shown around that of a frame: at each stop, and by `list`."""


class Frame(Record, eq=False):
    """A frame of Python as it was when a breakpoint was recorded."""

    filename: str
    lineno: int
    function: str
    first: int
    """The first line of its function."""
    last: int
    globals: dict[str, Any]
    locals: dict[str, Any]

    @classmethod
    def of(cls, frame: types.FrameType) -> Frame:
        """Return a frame, without its locals."""
        code = frame.f_code
        lines = [line for *_, line in code.co_lines() if line is not None]
        return cls(
            code.co_filename,
            frame.f_lineno,
            code.co_name,
            code.co_firstlineno,
            max([*lines, frame.f_lineno]),
            frame.f_globals,
            {},
        )

    def with_locals(self, values: dict[str, Any]) -> Frame:
        """Return the frame with values for its locals."""
        known = self.filename, self.lineno, self.function, self.first, self.last, self.globals
        return Frame(*known, values)

    def line(self, number: int) -> str:
        """Return a line of its file, "" if there is none."""
        return linecache.getline(self.filename, number, self.globals).rstrip("\n")


class Debugger(cmd.Cmd):
    """The prompt. Expressions are evaluated in a frame; `help` lists the commands.

    Prompts of several threads are serialized; `lock` is not held while an expression is evaluated,
    because it may run a program with a breakpoint on another thread.
    """

    prompt = "(jdb) "
    intro = "Entering jdb:"

    def __init__(
        self,
        frames: Sequence[Frame],
        lock: AbstractContextManager[Any],
        *,
        stdin: IO[str] | None = None,
        stdout: IO[str] | None = None,
        completekey: str = "tab",
    ) -> None:
        super().__init__(stdin=stdin, stdout=stdout, completekey=completekey)
        self.use_rawinput = stdin is None
        self.frames = frames
        self.lock: Any = lock
        self.at = 0

    def run(self) -> None:
        """Process commands until the program is to continue.

        Raises: RuntimeError without a terminal; SystemExit if the user quits.
        """
        if self.use_rawinput and not _is_terminal():
            place = self.frames[0] if self.frames else None
            where = f" at {place.filename}:{place.lineno}" if place else ""
            raise RuntimeError(
                three_lines(
                    f"debug.breakpoint(){where}",
                    "the debugger needs a terminal, and standard input is not a terminal",
                    "run it in a terminal, give stdin= and stdout=, or use debug.print or "
                    "debug.callback",
                )
            )
        with self.lock:
            while True:
                try:
                    self.cmdloop()
                    return
                except KeyboardInterrupt:
                    self._say("--KeyboardInterrupt--")
                    self.intro = None  # type: ignore[assignment]

    @property
    def frame(self) -> Frame:
        """The frame that expressions are evaluated in."""
        return self.frames[self.at]

    def _say(self, text: str) -> None:
        print(text, file=self.stdout)

    def _show(self, expression: str, form: Any) -> None:
        self.lock.release()
        try:
            frame = self.frame
            text = form(eval(expression, {**frame.globals, **frame.locals}))
        except Exception as error:  # noqa: BLE001, the user's own
            text = "*** " + traceback.format_exception_only(error)[-1].strip()
        finally:
            self.lock.acquire()
        self._say(text)

    def _source(self, around: int) -> None:
        frame = self.frame
        self._say(f"> {frame.filename}({frame.lineno})")
        low = max(frame.first, frame.lineno - around)
        for number in range(low, min(frame.last, frame.lineno + around) + 1):
            mark = "->  " if number == frame.lineno else "    "
            self._say(mark + frame.line(number))
        # A blank line ends them, as in JAX's debugger.
        self._say("")

    def emptyline(self) -> bool:
        """Do nothing for an empty line."""
        return False

    def default(self, line: str) -> None:
        """Evaluate an expression."""
        self._show(line, repr)

    def do_p(self, arg: str) -> None:
        """Evaluate an expression and print it: p EXPRESSION."""
        self._show(arg, repr)

    def do_pp(self, arg: str) -> None:
        """Evaluate an expression and pretty-print it: pp EXPRESSION."""
        self._show(arg, pprint.pformat)

    def do_up(self, arg: str) -> None:
        """Go to the frame that called this one: u(p)."""
        if self.at == len(self.frames) - 1:
            self._say("At topmost frame.")
        else:
            self.at += 1
        self._source(AROUND)

    def do_down(self, arg: str) -> None:
        """Go to the frame that this one called: d(own)."""
        if self.at == 0:
            self._say("At bottommost frame.")
        else:
            self.at -= 1
        self._source(AROUND)

    def do_list(self, arg: str) -> None:
        """Show the lines around that of the frame: l(ist)."""
        self._source(LISTED)

    def do_locals(self, arg: str) -> None:
        """Show the names and values of the frame: locals."""
        for name, value in self.frame.locals.items():
            self._show_value(name, value)

    def _show_value(self, name: str, value: Any) -> None:
        try:
            text = repr(value)
        except Exception as error:  # noqa: BLE001, a class of the user's
            text = f"<{type(value).__name__}, whose repr raises {type(error).__name__}>"
        self._say(f"{name} = {text}")

    def do_where(self, arg: str) -> None:
        """Show all frames, the innermost last: w(here), bt."""
        self._say("Traceback:")
        for frame in reversed(self.frames):
            self._say(f'  File "{frame.filename}", line {frame.lineno}')
            self._say(f"    {frame.line(frame.lineno).strip() or '<no source>'}")

    def do_continue(self, arg: str) -> bool:
        """Let the program go on: c(ont(inue))."""
        return True

    def do_quit(self, arg: str) -> bool:
        """End the program: q(uit), exit, end of input."""
        sys.exit(0)

    do_u = do_up
    do_d = do_down
    do_l = do_list
    do_w = do_bt = do_where
    do_c = do_cont = do_continue
    do_q = do_exit = do_EOF = do_quit


def _is_terminal() -> bool:
    try:
        return sys.stdin is not None and sys.stdin.isatty()
    except ValueError:
        # The stream is closed.
        return False
