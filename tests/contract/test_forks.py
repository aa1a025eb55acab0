"""Section 13.2: a forked child works where no XLA is needed, and says so where it is; no hang."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.contract.marks import contract
from tests.emulated.marks import forks_beside_threads

pytestmark = forks_beside_threads

HEAD = """
import os, sys, threading, time, warnings, signal
import numpy as np
import kiln
import kiln.numpy as jnp

def wait(pid, seconds=20):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    return "hangs"

def forked(work):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except BaseException as error:
            import traceback
            traceback.print_exc(file=sys.stdout)
            os._exit(1)
    return wait(pid)

def refused(call):
    try:
        call()
    except kiln.errors.JaxRuntimeError as error:
        text = str(error)
        assert text.count("\\n") == 2 and "fork" in text and "spawn" in text, text
        assert "KILN_ENGINE=reference" in text
    else:
        raise AssertionError("not refused")
"""

STARTED = """
class OnXla:
    def __init__(self, fun):
        self.fun = kiln.jit(fun)
    def __call__(self, *args):
        with kiln.base.options.config.override(engine="xla"):
            return self.fun(*args)
    def compile(self, *args):
        with kiln.base.options.config.override(engine="xla"):
            return self.fun.lower(*args).compile()
f = OnXla(lambda x: jnp.sin(x) + 1)
loop = OnXla(lambda x, n: kiln.lax.fori_loop(0, n, lambda i, c: jnp.sin(c @ c), x))
x = jnp.ones((300, 300))
kept = f(x)
loop(x, 1).block_until_ready()
pending = loop(x, 10**9)

def child():
    # What needs no XLA.
    for _ in range(3):
        assert float((x + 1)[0, 0]) == 2.0
        np.testing.assert_allclose(jnp.cos(x), np.cos(np.ones((300, 300))), 1e-6)
    assert float(np.asarray(kept)[0, 0]) > 1.8
    for name in ("reference", "native"):
        with kiln.base.options.config.override(engine=name):
            assert float(kiln.jit(lambda x: x * 3)(2.0)) == 6.0
            assert float(kiln.grad(lambda x: x**3)(2.0)) == 12.0
    # What does.
    refused(lambda: f(x))
    refused(lambda: f(2.0))
    refused(lambda: OnXla(lambda x: x - 5)(2.0))
    refused(lambda: f.compile(jnp.ones(7)))
    refused(lambda: np.asarray(pending))
    refused(lambda: pending + 1)
    refused(pending.block_until_ready)
    refused(lambda: kiln.device_put(np.ones(3), kiln.devices()[0]) + f(x))
    kiln.effects_barrier()
    repr(kept), kept.sharding, kiln.devices(), kiln.clear_caches()
    import gc
    gc.collect()
"""

LOCKS = """
# Threads that hold locks most of the time.
def busy():
    while True:
        try:
            kiln.jit(lambda x: jnp.tanh(x) * time.time())(x)
        except Exception:
            return
for _ in range(3):
    threading.Thread(target=busy, daemon=True).start()
time.sleep(0.3)
"""


def run(program: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", HEAD + program, *arguments],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


FORKS = STARTED + LOCKS + "print([forked(child) for _ in range(int(sys.argv[1]))])"


@contract("13.2")
def test_children_work_or_say_what_to_use() -> None:
    """While other threads of the parent hold kiln's locks."""
    assert run(FORKS, "3") == f"{[0] * 3}\n"


@contract("13.2")
@pytest.mark.full
def test_fifty_children() -> None:
    assert run(FORKS, "50") == f"{[0] * 50}\n"


OTHERS = (
    STARTED
    + """
import multiprocessing, concurrent.futures
# One warning in the parent, which names the line.
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    pid = os.fork()
    if pid == 0:
        # An ordinary shutdown of the interpreter, not os._exit.
        sys.exit(3)
    assert wait(pid) == 3
(caught,) = [w for w in caught if w.category is RuntimeWarning]
assert "os.fork()" in str(caught.message) and caught.filename == "<string>", caught

warnings.simplefilter("ignore")
context = multiprocessing.get_context("fork")

def eager(n):
    return float(jnp.sum(jnp.arange(n) + 1))

def compiled(n):
    try:
        return float(f(n))
    except kiln.errors.JaxRuntimeError as error:
        return str(error).splitlines()[1]

with context.Pool(2) as pool:
    assert pool.map(eager, range(1, 5)) == [1.0, 3.0, 6.0, 10.0]
    assert all("stayed in the parent" in text for text in pool.map(compiled, range(2)))
with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
    assert list(pool.map(eager, range(1, 5))) == [1.0, 3.0, 6.0, 10.0]
    assert "stayed in the parent" in pool.submit(compiled, 1).result(60)
# The parent goes on.
assert abs(float(f(0.0)) - 1.0) < 1e-6
print("fine")
"""
)

NATIVE = (
    LOCKS
    + """
x = np.ones((1000, 300), np.float32)
known = kiln.jit(lambda x: jnp.sin(x).sum() + 1)
known(x)
def child():
    assert abs(float(known(x)) - 252442.3) < 9
    assert abs(float(kiln.jit(lambda x: jnp.cos(x).sum())(x)) - 162090.7) < 9
print([forked(child) for _ in range(int(sys.argv[1]))])
"""
)


@contract("13.2")
def test_children_compile_and_run_natively() -> None:
    """While other threads of the parent compile."""
    assert run(NATIVE, "5") == f"{[0] * 5}\n"


@contract("13.2")
@pytest.mark.full
def test_a_hundred_children_compile_and_run_natively() -> None:
    assert run(NATIVE, "100") == f"{[0] * 100}\n"


BEFORE = """
# XLA has not been used yet: children use their own.
with warnings.catch_warnings():
    warnings.simplefilter("error")
    jnp.ones(3) + 1
    kiln.jit(lambda x: x + 1).eval_shape(1.0)
    pids = [os.fork() for _ in range(1)]
    if pids == [0]:
        try:
            assert float(kiln.jit(lambda x: jnp.sin(x) + 1)(0.0)) == 1.0
            sys.exit(0)
        except AssertionError:
            os._exit(1)
    assert wait(pids[0]) == 0
print("fine")
"""


@contract("13.2")
def test_pools_exits_and_the_warning() -> None:
    assert run(OTHERS) == "fine\n"


@contract("13.2")
def test_a_child_forked_before_xla_is_used_has_its_own() -> None:
    assert run(BEFORE) == "fine\n"


OTHER_CLIENTS = """
from kiln.engines.xla.runtime.client import _fingerprint_alone
with kiln.base.options.config.override(engine="xla"):
    kiln.jit(lambda x: x @ x)(np.ones((8, 8), np.float32)).block_until_ready()
_fingerprint_alone(2)
warnings.simplefilter("ignore")
pid = os.fork()
if not pid:
    sys.exit(5)
print(wait(pid))
"""


@contract("13.2")
def test_a_child_frees_no_client_of_its_parent() -> None:
    """One that is freed waits for its threads, which only the parent has."""
    assert run(OTHER_CLIENTS) == "5\n"
