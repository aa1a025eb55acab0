"""From a new function to one that can be called: traced, lowered and compiled.

Functions and constants are new in every sample, so that no cache answers. A network is timed up to
the result of its first call; gradients of scans, once compiled, beside the scans themselves.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy

from benchmarks.harness import Case, Library, Sampler, once, repeated
from benchmarks.programs import PROGRAMS, operand

LAYERS, WIDTH, BATCH = 4, 64, 32
STATE, STEPS = 30, 100
LONG = 2000
SALT = 3.0
"""The constants of samples lie above those of `trace_compile`, which has the same programs."""

Prepared = tuple[Callable[..., Any], tuple[Any, ...]]


def selu(lib: Library, salt: float) -> Prepared:
    """Return the tutorial's function and its operand."""

    def function(x: Any, alpha: float = 1.67, lmbda: float = 1.05) -> Any:
        return lmbda * lib.np.where(x > 0, x, alpha * salt * lib.np.exp(x) - alpha)

    return function, (lib.np.arange(5.0),)


def _program(kind: str, equations: int) -> Callable[[Library, float], Prepared]:
    return lambda lib, salt: (PROGRAMS[kind](lib.np, equations, salt), (operand(lib.np),))


def network(lib: Library, salt: float) -> Prepared:
    """Return the loss of a network, and its operands."""
    jnp = lib.np

    def loss(weights: Any, biases: Any, x: Any) -> Any:
        for w, b in zip(weights, biases, strict=True):
            x = jnp.maximum(x @ w + b, 0) * salt
        return jnp.sum(x * x)

    draw = numpy.random.default_rng(0).standard_normal
    weights = [jnp.asarray(draw((WIDTH, WIDTH), numpy.float32)) for _ in range(LAYERS)]
    biases = [jnp.asarray(draw(WIDTH, numpy.float32)) for _ in range(LAYERS)]
    return loss, (weights, biases, jnp.asarray(draw((BATCH, WIDTH), numpy.float32)))


def gradient(lib: Library, salt: float) -> Prepared:
    """Return the gradient of that loss, and its operands."""
    loss, operands = network(lib, salt)
    return lib.root.grad(loss), operands


def _compiled(lib: Library, make: Callable[[Library, float], Prepared]) -> Sampler:
    salts = itertools.count(1)
    return once(
        lambda: make(lib, SALT + next(salts) / 8192),
        lambda made: lib.root.jit(made[0]).trace(*made[1]).lower().compile(),
    )


def _called(lib: Library, make: Callable[[Library, float], Prepared]) -> Sampler:
    salts = itertools.count(1)
    return once(
        lambda: make(lib, SALT + next(salts) / 8192),
        lambda made: lib.root.block_until_ready(lib.root.jit(made[0])(*made[1])),
    )


def _scan(lib: Library) -> tuple[Callable[[Any], Any], Any]:
    """Return a scan whose carry has many scalar leaves, and its operand."""

    def step(state: Any, x: Any) -> Any:
        return [lib.np.tanh(0.5 * s + x * (i + 1)) for i, s in enumerate(state)], None

    def total(start: Any) -> Any:
        last, _ = lib.root.lax.scan(step, start, lib.np.linspace(0.0, 1.0, STEPS))
        return sum(last)

    return total, [lib.np.float32(0.1 * i) for i in range(STATE)]


def _run(lib: Library, change: Callable[[Any], Any]) -> Sampler:
    total, start = _scan(lib)
    function = lib.root.jit(change(total))
    lib.root.block_until_ready(function(start))
    return repeated(lambda: function(start), lib.root.block_until_ready)


def cases(libraries: Sequence[Library]) -> Iterator[Case]:
    """Yield the cases."""
    rows: dict[str, tuple[Any, Any, int]] = {
        "compile selu": (_compiled, selu, 15),
        "compile chain of 100": (_compiled, _program("chain", 100), 9),
        "compile mixed 100": (_compiled, _program("mixed", 100), 7),
        f"compile chain of {LONG}": (_compiled, _program("chain", LONG), 2),
        f"compile mixed {LONG}": (_compiled, _program("mixed", LONG), 2),
        f"first call, {LAYERS} layers": (_called, network, 9),
        f"first call, gradient of {LAYERS} layers": (_called, gradient, 7),
    }
    for name, (sampler, make, rounds) in rows.items():
        yield Case(name, {lib.name: sampler(lib, make) for lib in libraries}, rounds=rounds)
    for name, change in (
        (f"scan of {STATE} scalars", lambda lib: lambda f: f),
        (f"gradient of a scan of {STATE} scalars", lambda lib: lib.root.grad),
    ):
        yield Case(name, {lib.name: _run(lib, change(lib)) for lib in libraries}, rounds=10)
