"""Section 13.7: debug.breakpoint: what its prompt shows, in which programs, and in a terminal."""

from __future__ import annotations

import io
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from tests.contract.marks import contract

OUTER = "a global"


@pytest.fixture(params=["", "xla"])
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run programs on each engine."""
    before = kiln.config.read("engine")
    kiln.config.update("engine", request.param)
    yield request.param
    kiln.config.update("engine", before)


def answers(commands: Sequence[str], make: Callable[..., Any], *args: Any) -> list[str]:
    """Return what the prompt answers to commands, in a program made for its input and output."""
    written = io.StringIO()
    given = io.StringIO("".join(f"{command}\n" for command in commands))
    make(stdin=given, stdout=written)(*args)
    kiln.effects_barrier()
    text = written.getvalue()
    return [part for each in text.split("Entering jdb:\n") for part in each.split("(jdb) ") if part]


def sine(**options: Any) -> Callable[[Any], Any]:
    @kiln.jit
    def fun(x: Any) -> Any:
        y = {"sine": jnp.sin(x), "list": [1, "text"]}
        kiln.debug.breakpoint(**options)
        return y["sine"]

    return fun


def called(**options: Any) -> Callable[[Any], Any]:
    inner = sine(**options)

    @kiln.jit
    def fun(x: Any) -> Any:
        doubled = x * 2
        return inner(doubled)

    return fun


@contract("13.7")
def test_expressions_are_evaluated_in_the_frames(engine: str) -> None:
    commands = ["p x", "x + 1", "pp y", "OUTER", "unknown", "up", "p doubled", "down", "down", "c"]
    found = answers(commands, called, 1.0)
    assert found[:5] == [
        "Array(2., dtype=float32)\n",
        "Array(3., dtype=float32)\n",
        "{'list': [1, 'text'], 'sine': Array(0.9092974, dtype=float32)}\n",
        "'a global'\n",
        "*** NameError: name 'unknown' is not defined\n",
    ]
    assert found[5].startswith(f"> {__file__}(")
    assert "->          return inner(doubled)\n" in found[5]
    assert found[6] == "Array(2., dtype=float32)\n"
    assert found[8].startswith("At bottommost frame.\n")


@contract("13.7")
def test_lines_frames_and_locals_are_listed() -> None:
    listed, where, names = answers(["l", "w", "locals", "c"], called, 1.0)
    assert "->          kiln.debug.breakpoint(**options)\n" in listed
    assert where.splitlines()[0] == "Traceback:"
    assert where.splitlines()[-1].strip() == "kiln.debug.breakpoint(**options)"
    assert "return inner(doubled)" in where
    assert "kiln/api" not in where
    assert "x = Array(2., dtype=float32)\n" in names
    (few,) = answers(["bt", "cont"], lambda **options: called(num_frames=1, **options), 1.0)
    assert few.count("File") == 1
    (all_of_them,) = answers(
        ["bt", "cont"], lambda **options: called(filter_frames=False, **options), 1.0
    )
    assert "kiln" + os.sep + "jit" in all_of_them


@contract("13.7")
def test_it_stops_under_transformations_and_in_loops(engine: str) -> None:
    two = np.arange(2, dtype=np.float32)
    for make, x in (
        (lambda **options: kiln.vmap(sine(**options)), two),
        (lambda **options: kiln.jit(kiln.vmap(kiln.grad(sine(**options)))), two),
    ):
        assert answers(["p x", "c"] * 2, make, x) == [f"Array({n}., dtype=float32)\n" for n in "01"]

    def looped(**options: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            kiln.debug.breakpoint(ordered=True, **options)
            return c + x, c

        return kiln.jit(lambda xs: lax.scan(step, 0.0, xs))

    assert answers(["float(x)", "c"] * 2, looped, two) == ["0.0\n", "1.0\n"]
    assert answers(["p x", "c"], lambda **o: kiln.checkpoint(sine(**o)), 1.0)


@contract("13.7")
def test_a_token_says_when(engine: str) -> None:
    def with_token(**options: Any) -> Any:
        def fun(x: Any) -> Any:
            y = jnp.cos(x)
            y = kiln.debug.breakpoint(token=y, **options)
            return y * 2

        return kiln.jit(fun)

    assert answers(["p y", "c"], with_token, 0.0) == ["Array(1., dtype=float32)\n"]
    unused = lambda **options: kiln.jit(lambda x: (kiln.debug.breakpoint(token=x, **options), x)[1])
    assert answers(["c"], unused, 0.0) == []
    with pytest.raises(ValueError, match="mutually exclusive"):
        kiln.debug.breakpoint(token=1.0, ordered=True)
    with pytest.raises(ValueError, match="no such debugger"):
        kiln.debug.breakpoint(backend="web")


@contract("13.7")
def test_expressions_may_run_programs_with_breakpoints(engine: str) -> None:
    inner = io.StringIO("p x\nc\n")
    shown = io.StringIO()

    def make(**options: Any) -> Any:
        @kiln.jit
        def fun(x: Any) -> Any:
            again = sine(stdin=inner, stdout=shown)
            kiln.debug.breakpoint(**options)
            return x @ x if again else x

        return fun

    x = np.ones((300, 300), np.float32)
    assert answers(["float(again(3.0)) < 1", "c"], make, x) == ["True\n"]
    assert "(jdb) Array(3., dtype=float32)" in shown.getvalue()


@contract("13.7")
def test_fresh_functions_show_their_own_callers() -> None:
    def make(number: int) -> Callable[..., Any]:
        def fun(**options: Any) -> Any:
            typed, shown = options["stdin"], options["stdout"]

            def caller(x: Any) -> Any:
                here = number
                inner = kiln.jit(lambda x: (kiln.debug.breakpoint(stdin=typed, stdout=shown), x)[1])
                return inner(x) if here else None

            return caller

        return fun

    for number in (1, 2):
        assert answers(["u", "p here", "c"], make(number), 1.0)[1] == f"{number}\n"


@contract("13.7")
def test_what_has_no_value_is_named() -> None:
    kept: list[Any] = []
    kiln.jit(lambda x: kept.append(x))(1.0)

    class Odd:
        def __repr__(self) -> str:
            raise OSError("no text")

    def make(**options: Any) -> Any:
        @kiln.jit
        def fun(x: Any) -> Any:
            leaked, odd = list(kept), Odd()
            kiln.debug.breakpoint(**options)
            return x if leaked and odd else None

        return fun

    leaked, names, odd = answers(["p leaked", "locals", "p odd", "c"], make, 1.0)
    assert "without a value here" in leaked
    assert "odd = <Odd, whose repr raises OSError>" in names
    assert odd == "*** OSError: no text\n"


@contract("13.7")
def test_quit_ends_the_program(engine: str) -> None:
    for command in ("q", "exit", ""):
        with pytest.raises(SystemExit):
            answers([command] if command else [], sine, 1.0)
    assert float(kiln.jit(jnp.sin)(0.0)) == 0.0


@contract("13.7")
def test_without_a_terminal_it_says_so(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in (io.StringIO("c\n"), None):
        monkeypatch.setattr(sys, "stdin", stream)
        with pytest.raises(
            kiln.errors.JaxRuntimeError, match="standard input is not a terminal"
        ) as caught:
            sine()(1.0), kiln.effects_barrier()
        assert len(str(caught.value.__cause__).splitlines()) == 3


PROGRAM = """
import kiln
import kiln.numpy as jnp

@kiln.jit
def fun(x):
    y = jnp.sin(x @ x).sum()
    kiln.debug.breakpoint()
    return y * 2

print("result", fun(jnp.zeros((300, 300))))
"""


class Terminal:
    """A process in a terminal of its own."""

    def __init__(self, program: str, **environment: str) -> None:
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**os.environ, "TERM": "dumb", **environment},
            start_new_session=True,
        )
        os.close(slave)
        self.text = ""

    def until(self, wanted: str) -> str:
        """Return what is written until a text appears."""
        start, end = len(self.text), time.monotonic() + 60
        while wanted not in self.text[start:]:
            assert time.monotonic() < end, self.text
            if not select.select([self._master], [], [], 1)[0]:
                continue
            try:
                self.text += os.read(self._master, 4096).decode()
            except OSError as error:  # The process has ended.
                raise AssertionError(self.text) from error
        return self.text[start:]

    def type(self, text: str) -> None:
        """Type a line."""
        os.write(self._master, text.encode() + b"\n")

    def close(self) -> int:
        """Wait for the end and return the status."""
        status = self.process.wait(60)
        os.close(self._master)
        return status


@contract("13.7")
@pytest.mark.parametrize("chosen", ["", "xla"])
def test_it_asks_in_a_terminal(chosen: str) -> None:
    terminal = Terminal(PROGRAM, KILN_ENGINE=chosen)
    terminal.until("(jdb) ")
    terminal.type("p y + 1")
    assert "Array(1., dtype=float32)" in terminal.until("(jdb) ")
    terminal.type("p x.shape")
    assert "(300, 300)" in terminal.until("(jdb) ")
    terminal.type("c")
    terminal.until("result 0.0")
    assert terminal.close() == 0


@contract("13.7")
def test_the_program_may_be_ended_in_a_terminal() -> None:
    terminal = Terminal(PROGRAM)
    terminal.until("(jdb) ")
    terminal.type("q")
    assert terminal.close() == 0
    assert "result" not in terminal.text
