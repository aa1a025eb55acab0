"""The programs whose texts are kept: small, and each about one thing."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

import kiln
import kiln.numpy as jnp
from kiln import lax, random
from kiln.extend.core import Primitive
from kiln.interpreters import ad, batching, mlir


@dataclasses.dataclass(frozen=True)
class Program:
    """A function, arguments for it, and whether it has a gradient in its first one.

    `axes` are names of axes of the arguments, if there are loops for all their sizes.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    gradient: bool = True
    axes: Any = None


PROGRAMS: dict[str, Program] = {}


def program(*args: Any, gradient: bool = True, axes: Any = None) -> Callable[[Any], Any]:
    """Return the decorator that registers a program under its function's name."""

    def register(function: Any) -> Any:
        PROGRAMS[function.__name__] = Program(function, args, gradient, axes)
        return function

    return register


def ones(*shape: int, dtype: Any = np.float32) -> Any:
    """Return an array of ones."""
    return jnp.ones(shape, dtype)


@program(ones(3))
def selu(x):
    return 1.05 * jnp.where(x > 0, x, 1.67 * jnp.exp(x) - 1.67)


@program(ones(2, 3), ones(3, 4), ones(4))
def dense(x, w, b):
    return jnp.tanh(x @ w + b)


@program(ones(4), ones(4, dtype=np.int32))
def normalized(x, labels):
    x = x - jnp.max(x)
    return jnp.sum((jnp.log(jnp.sum(jnp.exp(x))) - x) * (labels == 1))


@program(ones(4, 8), axes=({0: "rows", 1: "columns"},))
def softmax(x):
    e = jnp.exp(x - jnp.max(x, 1, keepdims=True))
    return e / jnp.sum(e, 1, keepdims=True)


@program(ones(5, 3), np.array([0, 4, 4]))
def lookup(table, indices):
    return table[indices].sum(axis=0)


@program(ones(5), ones(2))
def update(x, y):
    return x.at[1:3].set(y).at[0].add(2.0)


@program(ones(3), ones(4, 3))
def recurrence(h, xs):
    def step(h, x):
        h = jnp.sin(h) * x
        return h, h.sum()

    return lax.scan(step, h, xs)[1]


@program(ones(3), np.float32(1))
def branches(x, p):
    return lax.cond(p > 0, lambda x: jnp.sin(x), lambda x: 2 * x, x)


@program(np.int32(30), gradient=False)
def collatz(n):
    def step(state):
        n, count = state
        return jnp.where(n % 2 == 0, n // 2, 3 * n + 1), count + 1

    return lax.while_loop(lambda s: s[0] != 1, step, (n, 0))[1]


@program(ones(2, 2))
def nested_jit(x):
    @kiln.jit
    def double(x):
        return x + x

    return double(double(x)) * double(x)


@program(ones(3), ones(3))
def rematerialized(x, y):
    @kiln.checkpoint
    def block(x, y):
        return jnp.sin(jnp.cos(x) * y)

    return block(block(x, y), y)


@program(ones(3))
def own_derivative(x):
    @kiln.custom_vjp
    def clip(x):
        return x

    clip.defvjp(lambda x: (x, None), lambda kept, ct: (jnp.clip(ct, -1.0, 1.0),))
    return clip(x) ** 2


@program(ones(3))
def own_primitive(x):
    # `wave` is a primitive as a library defines one: below, after these programs.
    return WAVE.bind(x, rate=2.0) * x


@program(ones(1, 6, 2), ones(3, 2, 4))
def convolution(x, kernel):
    return lax.conv_general_dilated(
        x, kernel, (2,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")
    )


@program(ones(4, 4), gradient=False)
def ranked(x):
    values, order = lax.top_k(x, 2)
    return jnp.sort(values, axis=0), order


@program(ones(4))
def running_total(x):
    # What `total` holds is carried by the loop, in what goes to the compiler.
    total, sums = kiln.new_ref(0 * x[0]), kiln.new_ref(jnp.zeros(4))

    def step(i, _):
        total[...] += x[i] ** 2
        sums[i] = total[...]

    lax.fori_loop(0, 4, step, None)
    return sums[...]


@program(np.uint32([0, 7]), gradient=False)
def draw(key):
    return random.uniform(key, (2,))


@program(ones(512, 16), ones(16, 512), ones(512), ones(512, 512))
def layers(x, w, b, v):
    return kiln.nn.softmax(jnp.maximum(x @ w + b, 0) @ v, axis=-1)


def _wave(x, *, rate):
    return jnp.sin(rate * x)


def _wave_jvp(primals, tangents, *, rate):
    (x,), (t,) = primals, tangents
    return WAVE.bind(x, rate=rate), t * rate * jnp.cos(rate * x)


WAVE = Primitive("wave")
WAVE.def_impl(_wave)
WAVE.def_abstract_eval(lambda x, *, rate: x)
ad.primitive_jvps[WAVE] = _wave_jvp
batching.defvectorized(WAVE)
mlir.register_lowering(WAVE, mlir.lower_fun(_wave, multiple_results=False))
