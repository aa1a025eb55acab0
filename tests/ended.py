"""A program for subprocesses: processes end while daemon threads are in every place of kiln.

`python -m tests.ended KINDS COUNT [SEED]` starts COUNT processes for each kind, prints what those
said and returned that did not end well, and `fine` at its end. Each process starts threads, lets
them work for a random moment, and ends as any program does. They are not forks of one process: of
these none died where four of ten of the others did.
"""

from __future__ import annotations

import collections
import functools
import itertools
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import kiln
import kiln.numpy as jnp
from kiln import lax
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


def _beside(_: Any, x: Any) -> Any:
    return x + 1


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
    "dying": lambda: lambda: kiln.jit(functools.partial(_beside, Dying()))(X),
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


def run(kinds: str, lasting: float) -> None:
    """Start threads that work forever, and return when all have for a moment."""
    works = [KINDS[kind]() for kind in kinds.split("+")]
    started = threading.Semaphore(0)

    def repeat(work: Callable[[], Any]) -> None:
        work()
        started.release()
        while True:
            work()

    threads = works * -(-THREADS // len(works))
    for work in threads:
        threading.Thread(target=repeat, args=(work,), daemon=True).start()
    for _ in threads:
        started.acquire()
    time.sleep(lasting)


def ended(kinds: str, lasting: float) -> str:
    """Start a process that ends while its threads work; return what is wrong with its end."""
    command = [sys.executable, "-m", "tests.ended", "run", kinds, str(lasting)]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=PATIENCE_S)
    except subprocess.TimeoutExpired as error:
        return f"{kinds}: it does not end, and says {(error.stderr or b'')[-2000:].decode()}"
    if done.returncode or done.stderr:
        return f"{kinds}: status {done.returncode} {done.stderr[-2000:].decode()}"
    return ""


def main(kinds: str, count: str, seed: str = "0") -> None:
    """End each kind so many times; several joined by `+` are in one process."""
    generator = random.Random(int(seed))
    are_fine = True
    for kind in KINDS if kinds == "all" else kinds.split(","):
        start = time.monotonic()
        found = [ended(kind, generator.uniform(0, LONGEST_S)) for _ in range(int(count))]
        for text, times in collections.Counter(found).items():
            if text:
                are_fine = False
                print(f"{times} of {count}: {text}", flush=True)
        print(f"# {kind}: {time.monotonic() - start:.1f} s", file=sys.stderr, flush=True)
    print("fine" if are_fine else "not fine")


if __name__ == "__main__":
    if sys.argv[1] == "run":
        run(sys.argv[2], float(sys.argv[3]))
    else:
        main(*sys.argv[1:])
