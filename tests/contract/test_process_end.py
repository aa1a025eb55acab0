"""Section 13.2: interpreter shutdown succeeds in any state: status 0, no signal, no hang."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.contract.marks import contract

HEAD = """
import enum, threading, time, sys, os, signal
import numpy as np
import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.experimental import io_callback
x = np.ones((300, 300), np.float32)
turn = kiln.jit(lambda x, n: lax.fori_loop(0, n, lambda i, c: jnp.sin(c @ c), x))
started = []
def slow(v):
    started.append(v)
    time.sleep(0.05)
    sys.stdout.write("called\\n")
    sys.stdout.flush()
def callbacks(n, **options):
    def step(i, c):
        io_callback(slow, None, i, **options)
        return c
    return kiln.jit(lambda x: lax.fori_loop(0, n, step, x))
def daemons(work):
    def run():
        while True:
            work()
    for _ in range(3):
        threading.Thread(target=run, daemon=True).start()
    time.sleep(0.3)
"""

PROGRAMS = {
    "work": "turn(x, 1); y = turn(x, 10**9)",
    "daemons that call": "daemons(lambda: np.asarray(turn(x, 2)))",
    "daemons that wait": "daemons(lambda: turn(x, 500).block_until_ready())",
    "daemons that wait for long": "turn(x, 1); y = turn(x, 10**9); daemons(lambda: np.asarray(y))",
    "daemons that apply at once": "z = jnp.asarray(x); daemons(lambda: np.asarray(jnp.sin(z) + z))",
    "daemons that compile": "daemons(lambda: kiln.jit(lambda x: x * time.time())(x))",
    "daemons that put": "daemons(lambda: kiln.device_put(np.ones(10**5)).block_until_ready())",
    "daemons with callbacks": "daemons(lambda: float(callbacks(3)(1.0)))",
    "an interrupted wait": """
turn(x, 1)
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    float(turn(x, 10**9)[0, 0])
except KeyboardInterrupt:
    pass
""",
    "a thread that is joined": "threading.Thread(target=lambda: turn(x, 300).tolist()).start()",
}


def start(program: str, *, first: bool = False) -> subprocess.Popen[str]:
    """Run a program after `HEAD`, or before it."""
    return subprocess.Popen(
        [sys.executable, "-c", program + HEAD if first else HEAD + program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # What ends by itself in the native engine: tests/unit/_runtime/native/test_native_end.py.
        env={**os.environ, "KILN_ENGINE": "xla"},
    )


def ended(process: subprocess.Popen[str], status: int = 0) -> str:
    out, errors = process.communicate(timeout=60)
    assert process.returncode == status, errors
    if status == 0:
        assert "Error" not in errors
        assert "terminate" not in errors
    return out


@contract("13.2")
@pytest.mark.parametrize(
    "names",
    [list(PROGRAMS)[:5], pytest.param(list(PROGRAMS)[5:], marks=pytest.mark.full)],
    ids=["a", "b"],
)
def test_the_interpreter_ends_while_something_is_under_way(names: list[str]) -> None:
    processes = {name: start(PROGRAMS[name]) for name in names}
    for process in processes.values():
        ended(process)


LOADING = """
def slow(frame, event, arg):
    # jaxlib makes its enumerations while it loads.
    by = frame.f_back.f_code.co_filename if frame.f_back else ""
    if frame.f_code.co_filename == enum.__file__ and "importlib" in by and not loading.is_set():
        loading.set()
        time.sleep(0.3)
class Late:
    def __del__(self, sleep=time.sleep):
        sleep(0.6)
loading = threading.Event()
threading.setprofile(slow)
sys.late = Late()
threading.Thread(target=lambda: turn(x, 1), daemon=True).start()
assert loading.wait(30)
"""


@contract("13.2")
def test_the_interpreter_ends_while_a_daemon_thread_loads_an_engine() -> None:
    """A thread that is ended within a library written in C++ ends the process."""
    ended(start(LOADING))


@contract("13.2")
def test_the_interpreter_ends_while_a_daemon_thread_is_inside_for_long() -> None:
    """Longer than the end waits for it: the thread stays where it is."""
    ended(start("from kiln.base import signals\nsignals.PATIENCE_S = 0.0" + LOADING))


LAST = """
import atexit
def late():
    print(float(kiln.jit(lambda x: x + 1)(1.0)))
    turn(x, 20000)
    print(turn(x, 20000).shape)
atexit.register(late)
"""


@contract("13.2")
def test_exit_functions_that_run_after_those_of_kiln_may_compile_and_run() -> None:
    """What was registered before kiln was imported runs last."""
    out = ended(start(LAST, first=True))
    assert out == "2.0\n(300, 300)\n"


@contract("13.2")
def test_callbacks_under_way_are_waited_for() -> None:
    """Of programs on XLA's threads too, ordered or not."""
    processes = [
        start(f"f = callbacks(10, ordered={ordered}); f(turn(x, 100))") for ordered in (False, True)
    ]
    for process in processes:
        assert ended(process) == "called\n" * 10


@contract("13.2")
def test_ctrl_c_ends_a_program_with_callbacks_soon() -> None:
    """The traceback is Python's, and so is the status: it ends by the signal."""
    process = start("f = callbacks(10**6); f(turn(x, 100)).tolist()")
    assert process.stdout is not None
    while process.stdout.readline() not in ("called\n", ""):
        pass
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert ended(process, -signal.SIGINT) is not None
    assert time.monotonic() - begin < 20
