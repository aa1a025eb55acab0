"""The line that a long compilation shows on a terminal."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import threading
import types
from typing import Any

import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import override
from kiln.core.engines.compile_steps import begin, step_of
from kiln.execution import progress as module
from kiln.execution.progress import ERASE_LINE, progress, written_out


class Screen(io.StringIO):
    """A terminal that tells when something is written to it."""

    is_terminal = True

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def isatty(self) -> bool:
        super().isatty()
        return self.is_terminal

    def write(self, text: str) -> int:
        found = super().write(text)
        self.written.set()
        return found

    def shows(self, text: str) -> bool:
        """Wait until a text has been written."""
        for _ in range(1000):
            self.written.clear()
            if text in self.getvalue():
                return True
            self.written.wait(0.01)
        return False


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    found = Screen()
    # Not sys.stderr itself, which pytest sets again before the test runs.
    monkeypatch.setattr(module, "sys", types.SimpleNamespace(stderr=found))
    monkeypatch.setattr(module, "AFTER_S", 0.01)
    monkeypatch.setattr(module, "EVERY_S", 0.01)
    return found


def watcher_is_gone() -> bool:
    watcher = module._watcher
    if watcher is not None:
        watcher.join(10)
    return module._watcher is None


def test_the_line_names_the_function_and_goes(screen: Screen) -> None:
    with progress("step"):
        assert screen.written.wait(10)
    assert screen.getvalue().startswith(f"{ERASE_LINE}kiln: compiling step: 0 s")
    assert screen.getvalue().endswith(ERASE_LINE)
    assert watcher_is_gone()


def test_several_at_once_share_the_line(screen: Screen) -> None:
    with progress("first"), progress("second"):
        assert screen.shows("kiln: compiling first and 1 more: ")
    assert watcher_is_gone()


def test_a_failure_ends_it(screen: Screen) -> None:
    with pytest.raises(KeyError), progress("step"):
        screen.written.wait(10)
        raise KeyError
    assert screen.getvalue().endswith(ERASE_LINE)
    assert watcher_is_gone()


def test_nothing_without_a_terminal(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    screen.is_terminal = False
    with progress("step"):
        assert module._watcher is None
    closed = Screen()
    closed.close()
    for stream in (None, closed):
        monkeypatch.setattr(module.sys, "stderr", stream)
        with progress("step"):
            assert module._watcher is None
    assert screen.getvalue() == ""


def test_short_compilations_show_nothing(screen: Screen, monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "AFTER_S", 60.0)
    for _ in range(20):
        with progress("step"):
            pass
    assert screen.getvalue() == ""
    assert watcher_is_gone()


def test_where_no_thread_can_be_started(screen: Screen, monkeypatch: Any) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with progress("step"):
            assert module._watcher is None
    assert not module._running
    with progress("step"):
        assert screen.written.wait(10)
    assert watcher_is_gone()


def test_the_child_of_a_fork_forgets_what_is_compiled(screen: Screen) -> None:
    with progress("step"):
        assert screen.written.wait(10)
        module._forget()
    assert not module._running


def unrolled(n: int) -> Any:
    def f(x: Any) -> Any:
        for _ in range(n):
            x = jnp.sin(x)  # The line.
        return x

    return f


def test_the_line_says_which_line_was_written_out(screen: Screen) -> None:
    jaxpr = kiln.make_jaxpr(unrolled(300))(1.0).jaxpr
    with progress("step", jaxpr, is_quick=True):
        begin("fuse")
        assert screen.shows("fuse")
    line = unrolled.__code__.co_firstlineno + 3
    expected = (
        f"kiln: compiling step: 0 s, 300 equations, fuse, test_progress.py:{line} ran 300 times: "
        "use lax.fori_loop, lax.scan or vmap"
    )
    assert expected in screen.getvalue()
    assert step_of(threading.get_ident()) == ""
    assert watcher_is_gone()


def test_what_no_loop_has_written_is_not_called_one() -> None:
    few = kiln.make_jaxpr(unrolled(module.FEWEST_TIMES - 1))(1.0).jaxpr
    assert written_out(few) is None
    assert written_out(kiln.make_jaxpr(lambda: ())().jaxpr) is None
    found = written_out(kiln.make_jaxpr(unrolled(module.FEWEST_TIMES))(1.0).jaxpr)
    assert found is not None
    assert found[1] == module.FEWEST_TIMES


def test_no_thread_for_short_programs_and_where_it_is_off(screen: Screen) -> None:
    short = kiln.make_jaxpr(unrolled(5))(1.0).jaxpr
    with progress("step", short, is_quick=True):
        assert module._watcher is None
    with override(progress=False), progress("step"):
        assert module._watcher is None
    with progress("step", short):
        assert module._watcher is not None
    assert watcher_is_gone()


def test_a_line_is_cut_at_the_width_of_the_terminal(screen: Screen, monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "_columns", lambda: 20)
    with progress("step"):
        assert screen.written.wait(10)
    assert screen.getvalue().startswith(f"{ERASE_LINE}kiln: compiling ste\r")


PROGRAM = """
import time
import kiln
from kiln.core import engine
from kiln.execution import progress
progress.AFTER_S, progress.EVERY_S = 0.1, 0.05
reference = engine.engine("reference")
compile = reference.compiler.compile
def slow(program):
    time.sleep(0.5)
    return compile(program)
reference.compiler.compile = slow
with kiln.base.options.config.override(engine="reference"):
    print(kiln.jit(lambda x: x + 1)(1.0))
"""


def test_on_a_real_terminal_and_in_a_pipe() -> None:
    main, other = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE,
        stderr=other,
        timeout=60,
        check=True,
    )
    os.close(other)
    shown = os.read(main, 65536).decode()
    os.close(main)
    assert "kiln: compiling <lambda>: 0 s" in shown
    assert shown.endswith(ERASE_LINE)
    quiet, other = pty.openpty()
    subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "KILN_PROGRESS": "0"},
        stdout=subprocess.PIPE,
        stderr=other,
        timeout=60,
        check=True,
    )
    os.set_blocking(quiet, False)
    os.close(other)
    with pytest.raises(OSError, match="Input/output error"):
        os.read(quiet, 1)
    os.close(quiet)
    piped = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, timeout=60, check=True
    )
    assert piped.stderr == b""
    assert piped.stdout == done.stdout
