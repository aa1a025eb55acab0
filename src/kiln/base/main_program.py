"""Another program as the main one of this process: what Python does for `python PROGRAM`."""

from __future__ import annotations

import builtins
import errno
import importlib.machinery
import io
import os
import runpy
import sys
import types
from collections.abc import Callable, Sequence
from types import TracebackType

from kiln.base.source import is_internal

_NOT_THE_PROGRAMS = ("<frozen ", runpy.__file__)
_INTERRUPTED = 130
_WRONG_USE = 2


def run_module(name: str, arguments: Sequence[str]) -> None:
    """Run a module as `python -m` would. Raises: whatever the module raises."""
    sys.argv = [name, *arguments]
    sys.path.insert(0, os.getcwd())
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def run_file(path: str, arguments: Sequence[str]) -> None:
    """Run a file, or a folder or archive with `__main__.py`, as Python would.

    Raises: whatever the program raises; SystemExit, as Python would, if there is no such file.
    """
    sys.argv = [path, *arguments]
    if not os.path.exists(path):
        why = f"[Errno {errno.ENOENT}] {os.strerror(errno.ENOENT)}"
        sys.stderr.write(f"{sys.executable}: can't open file {os.path.abspath(path)!r}: {why}\n")
        raise SystemExit(_WRONG_USE)
    if not os.path.isfile(path) or path.endswith((".zip", ".pyz", ".pyc")):
        runpy.run_path(path, run_name="__main__")
        return
    sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
    # The module stays after its end: functions that run at exit may look for it, to be pickled.
    main = types.ModuleType("__main__")
    loader = importlib.machinery.SourceFileLoader("__main__", path)
    vars(main).update(__file__=path, __builtins__=builtins, __loader__=loader, __spec__=None)
    sys.modules["__main__"] = main
    with io.open_code(path) as file:
        code = compile(file.read(), path, "exec")
    exec(code, vars(main))


def status_of(run: Callable[[], None]) -> int:
    """Run a program; print its error as Python would, and return its exit status."""
    try:
        run()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        sys.stderr.write(f"{end.code}\n")
        return 1
    except BaseException as error:  # noqa: BLE001, whatever a program raises is printed
        entry = of_program(error.__traceback__)
        sys.stdout.flush()
        sys.excepthook(type(error), error.with_traceback(entry), entry)
        return _INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
    return 0


def of_program(entry: TracebackType | None) -> TracebackType | None:
    """Return a traceback from the first frame of the program on."""
    while entry is not None:
        file = entry.tb_frame.f_code.co_filename
        if not is_internal(file) and not file.startswith(_NOT_THE_PROGRAMS):
            break
        entry = entry.tb_next
    return entry
