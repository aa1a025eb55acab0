"""A program for subprocesses: Ctrl-C at random moments in many kinds of waits.

`python -m tests.interrupted KINDS COUNT [SEED]` prints what went wrong, and `fine` at its end.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.core.trace import state

LASTING_S = 3.0
LATEST_S = 1.0
SCALAR = kiln.ShapeDtypeStruct((), "float32")
MATRIX = kiln.ShapeDtypeStruct((64, 64), "float32")
X = np.full((300, 300), 0.01, np.float32)
steps = [10, 1000]
over = threading.Event()


def _hold(x: Any) -> Any:
    over.wait(LASTING_S)
    return x


@kiln.jit
def turn(x: Any, n: Any) -> Any:
    """Take a moment, on XLA's threads."""
    return lax.fori_loop(0, n, lambda i, c: jnp.sin(c @ c), x)


@kiln.jit
def held(x: Any) -> Any:
    """Return what is given, but late."""
    return kiln.pure_callback(_hold, MATRIX, x[:64, :64])


@kiln.jit
def small(x: Any, n: Any) -> Any:
    """Take long, inside the call."""
    return lax.fori_loop(0, n, lambda i, c: jnp.sin(c) * 1.5 + i, x)


def _repeated(step: Callable[[Any], Any]) -> Callable[[], Any]:
    """Return a call that runs one kernel, shared by threads, over and over for a few seconds."""
    run = kiln.jit(lambda x, n: lax.fori_loop(0, n, lambda i, c: step(c), x))
    x = np.random.default_rng(0).random((256, 512), np.float32) * 0.01
    lasting: list[int] = []

    def call() -> Any:
        if not lasting:
            run(x, 4).block_until_ready()
            start = time.monotonic()
            run(x, 4).block_until_ready()
            lasting.append(int(4 * LASTING_S / (time.monotonic() - start)) + 1)
            return None
        return run(x, lasting[0])

    return call


def _convolved(c: Any) -> Any:
    images = c.reshape(2, 16, 64, 64)
    return lax.conv(images, jnp.full((16, 16, 3, 3), 0.001), (1, 1), "SAME").reshape(c.shape)


def _convolved_by_lines(c: Any) -> Any:
    dimensions = ("NHWC", "HWIO", "NHWC")
    images, kernel = c.reshape(2, 64, 64, 16), jnp.full((3, 3, 16, 16), 0.001)
    made = lax.conv_general_dilated(images, kernel, (1, 1), "SAME", dimension_numbers=dimensions)
    return made.reshape(c.shape)


def _layers(c: Any) -> Any:
    # What follows each of these products runs on its blocks.
    hidden = jnp.maximum(c @ jnp.full((512, 2048), 0.001), 0)
    scores = kiln.nn.softmax(hidden @ jnp.full((2048, 1100), 0.001), axis=-1)
    return scores @ jnp.full((1100, 512), 0.001)


def _solved(c: Any) -> Any:
    square = c[:, :256] + 9 * jnp.eye(256)
    return jnp.linalg.solve(square, c) * 0.01


def _nap(x: Any) -> Any:
    time.sleep(0.01)
    return x


@kiln.jit
def scan_of_callbacks(x: Any) -> Any:
    """Call Python within the call."""

    def step(c: Any, _: Any) -> Any:
        kiln.debug.callback(_nap, c)
        return kiln.pure_callback(_nap, SCALAR, c), None

    return lax.scan(step, x, None, length=100)[0]


@kiln.jit
def callbacks_elsewhere(x: Any) -> Any:
    """Call Python on XLA's threads."""
    return lax.fori_loop(0, 100, lambda i, c: kiln.pure_callback(_nap, MATRIX, c @ c), x[:64, :64])


def _pending() -> Any:
    # A program over an array that is still computed runs on XLA's threads.
    return held(turn(X, steps[0]))


def _number() -> Any:
    return held_number(turn(X, steps[0]))


@kiln.jit
def held_number(x: Any) -> Any:
    """Return a number, but late."""
    return held(x)[0, 0]


def _compiled() -> Any:
    constant = random.random()

    def fun(x: Any) -> Any:
        for i in range(60):
            x = jnp.sort(jnp.sin(x) @ jnp.cos(x) * (i + constant), axis=i % 2)
        return x

    return kiln.jit(fun)(X)


def _printed() -> None:
    @kiln.jit
    def fun(x: Any) -> Any:
        kiln.debug.callback(_hold, x[0, 0])
        return x

    fun(turn(X, steps[0]))
    kiln.effects_barrier()


def _many_calls() -> Any:
    y = X
    for _ in range(40):
        y = turn(y, steps[0] * 8)
    return y.block_until_ready()


WAITS: dict[str, Callable[[], Any]] = {
    "block_until_ready": lambda: _pending().block_until_ready(),
    "kiln.block_until_ready": lambda: kiln.block_until_ready({"a": [_pending()]}),
    "float": lambda: float(_number()),
    "bool": lambda: bool(_number()),
    "int": lambda: int(_number()),
    "tolist": lambda: _pending().tolist(),
    "repr": lambda: repr(_pending()),
    "str": lambda: str(_number()),
    "asarray": lambda: np.asarray(_pending()),
    "array": lambda: np.array(_pending(), np.float64),
    "memoryview": lambda: memoryview(_pending()),
    "ufunc": lambda: np.sin(_pending()),
    "device_get": lambda: kiln.device_get([_pending()]),
    "add": lambda: _pending() + 1,
    "compare": lambda: _pending() > 0,
    "eager": lambda: np.asarray(jnp.cos(_pending())),
    "index": lambda: np.asarray(_pending()[0, 0]),
    "numpy function": lambda: np.asarray(jnp.linalg.norm(_pending())),
    "barrier": _printed,
    "small": lambda: small(1.0, steps[1]),
    "many calls": _many_calls,
    "compile": _compiled,
    "products": _repeated(lambda c: jnp.sin(c @ (c.T @ c)) * 0.01),
    "layers": _repeated(_layers),
    "sort": _repeated(lambda c: jnp.sin(jnp.sort(c.ravel()) * 1e3).reshape(c.shape)),
    "fft": _repeated(lambda c: jnp.fft.irfft2(jnp.fft.rfft2(c)).astype(c.dtype)),
    "convolution": _repeated(_convolved),
    "convolution of channels": _repeated(_convolved_by_lines),
    "solve": _repeated(_solved),
    "transpose": _repeated(lambda c: c.T.reshape(c.shape)),
    "callbacks": lambda: scan_of_callbacks(1.0),
    "callbacks elsewhere": lambda: float(callbacks_elsewhere(X)[0, 0]),
}
KERNELS = {
    "products",
    "layers",
    "sort",
    "fft",
    "convolution",
    "convolution of channels",
    "solve",
    "transpose",
}


def interrupted(name: str, wait: Callable[[], Any], delay: float) -> str:
    """Interrupt a wait; return what is wrong, or nothing."""
    sent = [0.0]

    def strike() -> None:
        time.sleep(delay)
        sent[0] = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=strike)
    handler = signal.getsignal(signal.SIGINT)
    over.clear()
    try:
        with kiln.enable_x64(False), kiln.default_matmul_precision("float32"):
            thread.start()
            wait()
            ended = time.monotonic()
            thread.join()
            # It may have been lost, or strike now.
            time.sleep(1.0)
        return f"{name}: lost, sent at {sent[0]:.2f}, the wait ended at {ended:.2f}"
    except KeyboardInterrupt:
        late = time.monotonic() - sent[0]
    except BaseException as error:  # noqa: BLE001, reported
        return f"{name}: {error!r}"
    over.set()
    thread.join()
    if late > LATEST_S:
        return f"{name}: {late:.2f} s late"
    if kiln.config.jax_default_matmul_precision is not None:
        return f"{name}: the option is still there"
    if signal.getsignal(signal.SIGINT) is not handler:
        return f"{name}: another handler"
    if state.trace is not state.root or state.overrides is not None:
        return f"{name}: a trace is still in force"
    if float(kiln.jit(lambda x: x + 1)(1.0)) != 2.0 or float(jnp.sin(jnp.float32(0))) != 0.0:
        return f"{name}: wrong afterwards"
    return ""


def main(kinds: str, count: str, seed: str = "0") -> None:
    """Interrupt each kind so many times."""
    generator = random.Random(int(seed))
    for place, wait, lasting in [
        (0, lambda: turn(X, steps[0]).block_until_ready(), 0.1),
        (1, lambda: float(small(1.0, steps[1])), LASTING_S),
    ]:
        wait()
        seconds = 0.0
        while seconds < 0.05:
            steps[place] *= 2
            start = time.monotonic()
            wait()
            seconds = time.monotonic() - start
        steps[place] = int(steps[place] * lasting / seconds) + 1
    over.set()
    _number(), _pending(), _printed()
    names = list(WAITS) if kinds == "all" else kinds.split(",")
    for name in set(names) & KERNELS:
        WAITS[name]()
    for name in names:
        for _ in range(int(count)):
            wrong = interrupted(name, WAITS[name], generator.uniform(0.02, 0.3))
            if wrong:
                print(wrong, flush=True)
            kiln.effects_barrier()
    print("fine")


if __name__ == "__main__":
    main(*sys.argv[1:])
