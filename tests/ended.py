"""A program for subprocesses: processes end while daemon threads are in every place of kiln.

`python -m tests.ended KINDS COUNT [SEED]` forks COUNT processes for each kind, prints what those
said and returned that did not end well, and `fine` at its end. Each process starts threads, lets
them work for a random moment, and ends as any program does.
"""

from __future__ import annotations

import itertools
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.config import options
from kiln.experimental import io_callback

THREADS = 4
LONGEST_S = 0.03
PATIENCE_S = 60
SCALAR = kiln.ShapeDtypeStruct((), np.float32)
X = np.full((64, 64), 0.01, np.float32)
WIDE = np.full((600_000,), 0.01, np.float32)
lock = threading.Lock()
numbers = itertools.count()


def _nap(x: Any) -> Any:
    time.sleep(random.choice((0.001, 0.01)))
    return x


def _busy(x: Any) -> Any:
    return np.float32(sum(range(300)))


def _alone(x: Any) -> Any:
    with lock:
        time.sleep(0.0002)
    return x


class Node:
    """A node of trees whose methods take a moment."""

    def __init__(self, x: Any) -> None:
        self.x = x


def _flatten(node: Node) -> Any:
    time.sleep(0.0001)
    return (node.x,), None


kiln.tree_util.register_pytree_node(Node, _flatten, lambda _, xs: Node(*xs))


class Static:
    """A static argument whose comparisons take a moment."""

    def __hash__(self) -> int:
        time.sleep(0.0001)
        return 3

    def __eq__(self, other: object) -> bool:
        time.sleep(0.0001)
        return isinstance(other, Static)


class Dying:
    """An object that dies slowly."""

    def __del__(self) -> None:
        time.sleep(0.0001)


def _calls(fun: Callable[..., Any], *args: Any) -> Callable[[], Any]:
    run = kiln.jit(fun)
    return lambda: run(*args)


def _traced() -> None:
    def fun(x: Any) -> Any:
        for i in range(20):
            x = jnp.sin(x) * i
        return x

    kiln.make_jaxpr(kiln.grad(lambda x: fun(x).sum()))(X)


def _compiled() -> None:
    constant = next(numbers) + random.random()
    kiln.jit(lambda x: jnp.sort(jnp.sin(x * constant) @ x, axis=0))(X)


def _cleared() -> None:
    run = kiln.jit(lambda x: jnp.sin(x) + 1)
    np.asarray(run(X))
    kiln.clear_caches()


def _printed(x: Any) -> Any:
    kiln.debug.print("x {}", x)
    return x + 1


def _in_loop(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: lax.fori_loop(0, 5, lambda i, c: call(c), x)


def _pure(fun: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda x: kiln.pure_callback(fun, SCALAR, x)


def _effect(*, ordered: bool) -> Callable[[Any], Any]:
    return lambda x: io_callback(_nap, SCALAR, x, ordered=ordered)


KINDS: dict[str, Callable[[], Callable[[], Any]]] = {
    "calls": lambda: _calls(lambda x: jnp.sin(x) + 1, X),
    "trees": lambda: _calls(lambda tree: tree.x + 1, Node(X)),
    "loops": lambda: _calls(
        lambda x: lax.fori_loop(0, 100_000, lambda i, c: jnp.sin(c), x), jnp.float32(1)
    ),
    "parallel": lambda: _calls(lambda x: jnp.sin(x) * jnp.cos(x), WIDE),
    "products": lambda: _calls(lambda x: x @ x @ x, np.ones((400, 400), np.float32)),
    "pure_callback": lambda: _calls(_pure(_nap), jnp.float32(1)),
    "busy callback": lambda: _calls(_in_loop(_pure(_busy)), jnp.float32(1)),
    "locked callback": lambda: _calls(_in_loop(_pure(_alone)), jnp.float32(1)),
    "io_callback": lambda: _calls(_in_loop(_effect(ordered=False)), jnp.float32(1)),
    "ordered": lambda: _calls(_in_loop(_effect(ordered=True)), jnp.float32(1)),
    "debug.print": lambda: _calls(_in_loop(_printed), jnp.float32(1)),
    "eager": lambda: lambda: np.asarray(jnp.sin(jnp.asarray(X)) + 1),
    "eager wide": lambda: lambda: jnp.sin(jnp.asarray(WIDE)) + 1,
    "tracing": lambda: _traced,
    "compiling": lambda: _compiled,
    "clearing": lambda: _cleared,
    "putting": lambda: lambda: kiln.device_put(np.ones(10**5, np.float32)).block_until_ready(),
    "waiting": lambda: lambda: _waited(),
    "callbacks in callbacks": lambda: _calls(_pure(_again), jnp.float32(1)),
    "gradients": lambda: lambda: kiln.grad(lambda x: jnp.sin(x).sum())(X),
    "static": lambda: _static,
    "dying": lambda: lambda: kiln.jit(lambda x, d=Dying(): x + 1)(X),
    "lowering": lambda: _lowered,
}


def _waited() -> None:
    turn = kiln.jit(lambda x: lax.fori_loop(0, 200, lambda i, c: jnp.sin(c @ c), x))
    turn(X).block_until_ready()


_inner = kiln.jit(lambda x: x * 2)


def _again(x: Any) -> Any:
    return np.asarray(_inner(x) + jnp.sin(x))


_of_static = kiln.jit(lambda x, s: x + 1, static_argnums=1)


def _static() -> None:
    _of_static(X, Static())


def _lowered() -> None:
    constant = random.random()
    kiln.jit(lambda x: x * constant).lower(X).as_text()


def run(kind: str, lasting: float) -> None:
    """Start threads that work for ever, and return when they have for a moment."""
    work = KINDS[kind]()
    started = threading.Semaphore(0)

    def repeat() -> None:
        work()
        started.release()
        while True:
            work()

    for _ in range(THREADS):
        threading.Thread(target=repeat, daemon=True).start()
    for _ in range(THREADS):
        started.acquire()
    time.sleep(lasting)


def waited(child: int) -> str:
    """Wait for a process; return what is wrong with its end."""
    end = time.monotonic() + PATIENCE_S
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            return f"status {code}" if code else ""
        if time.monotonic() > end:
            os.kill(child, 9)
            os.waitpid(child, 0)
            return "it does not end"
        time.sleep(0.002)


def main(kinds: str, count: str, seed: str = "0") -> None:
    """End each kind so many times."""
    generator = random.Random(int(seed))
    failed = 0
    for kind in KINDS if kinds == "all" else kinds.split(","):
        wrong: dict[str, int] = {}
        start = time.monotonic()
        if options().engine != "xla":
            # Processes are forked with all that the first call loads. XLA's threads would be lost.
            KINDS[kind]()()
        for _ in range(int(count)):
            lasting = generator.uniform(0, LONGEST_S)
            with tempfile.TemporaryFile() as said:
                sys.stdout.flush()
                child = os.fork()
                if not child:
                    os.dup2(said.fileno(), 2)
                    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
                    run(kind, lasting)
                    sys.exit()
                found = waited(child)
                said.seek(0)
                text = said.read().decode(errors="replace")
            if found or text:
                text = f"{kind}: {found} {text[-2000:]}"
                wrong[text] = wrong.get(text, 0) + 1
        for text, times in wrong.items():
            print(f"{times} of {count}: {text}", flush=True)
        failed += len(wrong)
        print(f"# {kind}: {time.monotonic() - start:.1f} s", file=sys.stderr, flush=True)
    print("fine" if not failed else "not fine")


if __name__ == "__main__":
    main(*sys.argv[1:])
