"""Programs with references, given a library: jax, or kiln in its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.differential.program_groups import registry

PROGRAMS, program = registry()


def both(jax: Any, function: Any, *args: Any) -> list[Any]:
    """Return the leaves of the results of a function, eager and jitted."""
    return jax.tree.leaves([function(*args), jax.jit(function)(*args)])


def x(jax: Any) -> Any:
    """Return [0, 1, 2]."""
    return jax.numpy.arange(3.0)


def rows(jax: Any) -> Any:
    """Return [[0, 1, 2], [3, 4, 5]]."""
    return jax.numpy.arange(6.0).reshape(2, 3)


INDICES: dict[str, Any] = {
    "integer": 1,
    "negative": -1,
    "pair": (0, 2),
    "column": (slice(None), 1),
    "last_columns": (slice(None), slice(-2, None)),
    "every_second": (slice(None), slice(None, None, 2)),
    "beyond": (slice(0, 9), 1),
    "ellipsis": (..., 2),
    "all": ...,
    "nothing": (),
    "array": np.array([1, 0, 1]),
    "array_beyond": np.array([0, 7]),
    "array_negative": np.array([-1, -2]),
    "array_and_integer": (np.array([0, 1]), 2),
    "array_and_slice": (np.array([0, 1]), slice(1, None)),
    "two_arrays": (np.array([0, 1]), np.array([2, 2])),
}


def _register_indices() -> None:
    for name, index in INDICES.items():

        def access(jax: Any, index: Any = index) -> Any:
            def run(start: Any) -> Any:
                ref = jax.new_ref(start)
                part = ref[index]
                ref[index] = part * 2 + 1
                first = ref[...] + 0
                jax.ref.addupdate(ref, index, part)
                second = ref[...] + 0
                return [part, first, second, jax.ref.swap(ref, index, -part), jax.freeze(ref)]

            return both(jax, run, rows(jax))

        access.__name__ = name
        PROGRAMS.setdefault("index", []).append(access)


_register_indices()


@program("traced_index")
def within_and_beyond(jax):
    def run(start, i):
        ref = jax.new_ref(start)
        got = ref[i]
        ref[i] = got + 10
        jax.ref.addupdate(ref, i, got)
        before = jax.ref.swap(ref, (i, slice(1, None)), got[1:])
        return [got, before, ref[...]]

    return [y for i in (0, 1, -1, -2, 7, -7) for y in jax.jit(run)(rows(jax), np.int32(i))]


@program("traced_index")
def arrays_beyond(jax):
    def run(start, i):
        ref = jax.new_ref(start)
        got = ref[i]
        ref[i] = got + 10
        jax.ref.addupdate(ref, i, got)
        return [got, ref[...]]

    return jax.jit(run)(rows(jax), np.array([1, 5, -7, -1]))


@program("jit")
def argument(jax):
    ref = jax.new_ref(x(jax))

    @jax.jit
    def step(ref, y):
        ref[...] += y
        return ref[0] * 2

    return [step(ref, 1.0), step(ref, 2.0), ref[...]]


@program("jit")
def closed_over(jax):
    ref, other = jax.new_ref(x(jax)), jax.new_ref(x(jax))

    @jax.jit
    def step(y):
        ref[1] += y * other[2]

    step(1.0), step(2.0)
    return [ref[...], other[...]]


@program("jit")
def nested(jax):
    ref = jax.new_ref(x(jax))

    @jax.jit
    def inner(ref, i):
        ref[i] = ref[i] + 1
        return ref[i]

    @jax.jit
    def outer(ref):
        local = jax.new_ref(ref[...])
        return [inner(ref, 0), inner(local, 1), local[...]]

    return [*outer(ref), *outer(ref), ref[...]]


@program("jit")
def two_of_one_start(jax):
    start = x(jax)
    a, b = jax.new_ref(start), jax.new_ref(start)

    @jax.jit
    def step(a, b):
        a[0] += 5.0
        b[...] = a[...] * 2

    step(a, b), step(a, b)
    kept = a[...]
    step(a, b)
    return [start, a[...], b[...], kept]


@program("loops")
def fori(jax):
    def run(start):
        ref = jax.new_ref(start)

        def body(i, total):
            ref[i] += total
            return total + ref[i]

        return [jax.lax.fori_loop(0, 3, body, 1.0), ref[...]]

    return both(jax, run, x(jax))


@program("loops")
def fori_of_unknown_length(jax):
    def run(start, n):
        ref = jax.new_ref(start)

        def body(i, total):
            ref[i] += total
            return total + ref[i]

        return [jax.lax.fori_loop(0, n, body, 1.0), ref[...]]

    return jax.jit(run)(x(jax), np.int32(2))


@program("loops")
def scan(jax):
    def run(start):
        ref = jax.new_ref(start)

        def body(carry, y):
            ref[0] += y
            return carry * 2, ref[0]

        return [*jax.lax.scan(body, jax.numpy.float32(1), start), ref[...]]

    return both(jax, run, x(jax))


@program("loops")
def scan_over_references(jax):
    ref = jax.new_ref(rows(jax))

    def body(carry, row):
        row[0] += carry
        return carry + row[1], row[2]

    out = jax.lax.scan(body, jax.numpy.float32(1), ref)
    return [*out, ref[...]]


@program("loops")
def while_loop(jax):
    def run(start):
        ref = jax.new_ref(start)

        def body(i):
            ref[i] = 9.0
            return i + 1

        return [jax.lax.while_loop(lambda i: i < 2, body, np.int32(0)), ref[...]]

    return both(jax, run, x(jax))


@program("loops")
def nest(jax):
    def run(start):
        ref = jax.new_ref(start)

        def inner(j, c):
            ref[j] += c
            return c + 1

        def outer(i, c):
            c = jax.lax.fori_loop(0, 2, inner, c)
            jax.lax.cond(i > 0, lambda: ref.addupdate(10.0, 2), lambda: None)
            return c

        return [jax.lax.fori_loop(0, 3, outer, jax.numpy.float32(0)), ref[...]]

    return both(jax, run, x(jax))


@program("loops")
def mapped_by_map(jax):
    ref = jax.new_ref(x(jax))

    def add(y):
        ref[0] += y
        return ref[0]

    return [jax.lax.map(add, x(jax)), ref[...]]


@program("branches")
def cond(jax):
    def run(flag, start):
        ref = jax.new_ref(start)

        def yes():
            ref[0] = 5.0

        def no():
            ref[1] = 7.0

        jax.lax.cond(flag, yes, no)
        return ref[...]

    return [y for flag in (True, False) for y in both(jax, run, flag, x(jax))]


@program("branches")
def switch_of_operands(jax):
    def run(i, start):
        ref = jax.new_ref(start)
        got = jax.lax.switch(
            i, [lambda r: r[0], lambda r: jax.ref.swap(r, 1, 8.0), lambda r: 3.0], ref
        )
        return [got, ref[...]]

    return [y for i in range(3) for y in jax.jit(run)(np.int32(i), x(jax))]


def _scaled(jax):
    def loss(v):
        ref = jax.new_ref(v)
        ref[0] = v[1] * v[2]
        ref[1] += jax.numpy.sin(v[0])

        def body(i, c):
            ref[i] = ref[i] * c
            return c + ref[i]

        c = jax.lax.fori_loop(0, 3, body, 1.0)
        return c + jax.numpy.sum(ref[...] ** 2)

    return loss


@program("derivatives")
def grad_of_a_local_reference(jax):
    loss = _scaled(jax)
    return [
        jax.grad(loss)(x(jax)),
        jax.jit(jax.grad(loss))(x(jax)),
        jax.grad(jax.jit(loss))(x(jax)),
        *jax.jvp(loss, (x(jax),), (x(jax) + 1,)),
        jax.grad(jax.checkpoint(loss))(x(jax)),
    ]


@program("derivatives")
def counted_while_differentiating(jax):
    seen = jax.new_ref(jax.numpy.float32(0))

    def loss(v, seen):
        seen[...] += jax.lax.stop_gradient(jax.numpy.sum(v))
        return jax.numpy.sum(v**2)

    found = [
        jax.grad(loss)(x(jax), seen),
        jax.grad(jax.jit(loss))(x(jax), seen),
        jax.jit(jax.grad(loss))(x(jax), seen),
    ]
    return [*found, seen[...]]


@program("derivatives")
def cotangents_kept(jax):
    @jax.custom_vjp
    def stash(kept, v):
        return v

    def backward(kept, ct):
        kept[...] = ct
        return None, ct

    stash.defvjp(lambda kept, v: (v, kept), backward)
    kept = jax.new_ref(jax.numpy.zeros(3))

    def loss(v, kept):
        return jax.numpy.sum(jax.numpy.sin(stash(kept, v * 2)))

    found = [jax.grad(loss)(x(jax), kept), kept[...] + 0]
    kept[...] = jax.numpy.zeros(3)
    return [*found, jax.jit(jax.grad(loss))(x(jax), kept), kept[...]]


@program("vmap")
def of_a_local_reference(jax):
    def run(v):
        ref = jax.new_ref(jax.numpy.zeros(3))
        ref[...] = v
        ref[0] += 1.0

        def body(i, c):
            ref[i] = ref[i] * c
            return c + ref[i]

        return [jax.lax.fori_loop(0, 3, body, 1.0), ref[...]]

    return jax.tree.leaves([jax.vmap(run)(rows(jax)), jax.vmap(jax.jit(run))(rows(jax))])


@program("vmap")
def of_an_argument(jax):
    ref = jax.new_ref(rows(jax))

    def run(ref, v):
        ref[0] += v[1]
        return ref[2]

    return [
        jax.vmap(run)(ref, rows(jax)),
        jax.vmap(jax.jit(run))(ref, rows(jax)),
        jax.jit(jax.vmap(run))(ref, rows(jax)),
        ref[...],
    ]


@program("vmap")
def reading_what_is_outside(jax):
    ref = jax.new_ref(x(jax))
    return [jax.vmap(lambda v: ref[...] + v)(rows(jax)), jax.vmap(lambda i: ref[i])(np.arange(2))]


def _broken(group: str, name: str, run: Callable[[Any], Any]) -> None:
    def program(jax: Any) -> Any:
        run(jax)

    program.__name__ = name
    PROGRAMS.setdefault(group, []).append(program)


def _set(index: Any, value: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda jax: jax.new_ref(rows(jax)).__setitem__(index, value(jax))


for _name, _run in {
    "of_another_shape": _set(..., lambda jax: 1.0),
    "of_a_row_by_a_number": _set(0, lambda jax: 1.0),
    "of_another_dtype": _set(0, lambda jax: np.ones(3, np.int32)),
    "of_another_float": _set(0, lambda jax: np.ones(3, np.float16)),
    "by_a_reference": _set(..., lambda jax: jax.new_ref(rows(jax))),
    "out_of_bounds": _set(5, lambda jax: np.ones(3, np.float32)),
}.items():
    _broken("refused_write", _name, _run)

for _name, _run in {
    "returned": lambda jax: jax.jit(lambda r: r)(jax.new_ref(x(jax))),
    "made_and_returned": lambda jax: jax.jit(jax.new_ref)(x(jax)),
    "returned_by_scan": lambda jax: jax.lax.scan(
        lambda c, _: (c, jax.new_ref(c)), 0.0, None, length=2
    ),
    "carried": lambda jax: jax.lax.scan(lambda r, _: (r, None), jax.new_ref(x(jax)), None, 2),
    "returned_by_a_branch": lambda jax: jax.lax.cond(
        True, lambda: jax.new_ref(1.0), lambda: jax.new_ref(1.0)
    ),
    "given_twice": lambda jax: (lambda r: jax.jit(lambda a, b: a[...])(r, r))(jax.new_ref(x(jax))),
    "given_and_closed_over": lambda jax: (lambda r: jax.jit(lambda a: a[...] + r[...])(r))(
        jax.new_ref(x(jax))
    ),
    "used_as_an_array": lambda jax: jax.numpy.sin(jax.new_ref(x(jax))),
    "added": lambda jax: jax.numpy.add(jax.new_ref(x(jax)), 1),
    "of_a_list": lambda jax: jax.new_ref([1.0, 2.0]),
    "read_of_an_array": lambda jax: jax.ref.get(x(jax), 0),
    "reversed": lambda jax: jax.new_ref(x(jax))[::-1],
    "too_many_indices": lambda jax: jax.new_ref(x(jax))[0, 0],
}.items():
    _broken("refused", _name, _run)


@program("refused")
def leaked(jax):
    kept = []

    def keep(v):
        kept.append(jax.new_ref(v))
        return v

    jax.jit(keep)(x(jax))
    return kept[0][...]
