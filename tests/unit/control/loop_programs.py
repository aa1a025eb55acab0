"""Programs with control flow, written twice at once: by primitives, and by Python's statements.

A program is `program(c, x)` where `c` is `Structured` (scan, cond, while_loop, jit are equations)
or `Plain` (they are Python loops, ifs and calls). Both go through the same transformations, so
plain Python is what the rules of the primitives are compared with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import kiln
import kiln.numpy as jnp
from kiln import lax

Program = Callable[[Any, Any], Any]


def take(x: Any, i: int, axis: int = 0) -> Any:
    """Return one slice of an array."""
    return lax.index_in_dim(jnp.asarray(x), i, axis, keepdims=False)


def stack(xs: Any, axis: int = 0) -> Any:
    """Join arrays along a new axis."""
    return lax.concatenate([lax.expand_dims(jnp.asarray(x), (axis,)) for x in xs], axis)


class Structured:
    """Control flow as equations."""

    jit = staticmethod(kiln.jit)
    vmap = staticmethod(kiln.vmap)
    scan = staticmethod(lax.scan)
    cond = staticmethod(lax.cond)
    switch = staticmethod(lax.switch)
    while_loop = staticmethod(lax.while_loop)
    fori_loop = staticmethod(lax.fori_loop)
    map = staticmethod(lax.map)
    associative_scan = staticmethod(lax.associative_scan)
    checkpoint = staticmethod(kiln.checkpoint)


class Plain:
    """Control flow as Python runs it; vmap is a loop over examples."""

    @staticmethod
    def jit(fun: Any) -> Any:
        return fun

    checkpoint = jit

    @staticmethod
    def vmap(fun: Any, in_axes: Any = 0, out_axes: int = 0) -> Any:
        def mapped(*args: Any) -> Any:
            axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
            pairs = list(zip(args, axes, strict=True))
            n = next(x.shape[a] for x, a in pairs if a is not None)
            rows = [fun(*[x if a is None else take(x, i, a) for x, a in pairs]) for i in range(n)]
            return kiln.tree.map(lambda *ys: stack(ys, out_axes), *rows)

        return mapped

    @staticmethod
    def scan(
        f: Any, init: Any, xs: Any = None, length: Any = None, reverse: bool = False, **_: Any
    ) -> Any:
        count = length if length is not None else kiln.tree.leaves(xs)[0].shape[0]
        carry, ys = init, [None] * count
        for i in reversed(range(count)) if reverse else range(count):
            carry, ys[i] = f(carry, kiln.tree.map(lambda x, i=i: take(x, i), xs))
        return carry, kiln.tree.map(lambda *y: stack(y), *ys)

    @staticmethod
    def cond(pred: Any, true_fun: Any, false_fun: Any, *operands: Any) -> Any:
        return (true_fun if bool(pred) else false_fun)(*operands)

    @staticmethod
    def switch(index: Any, branches: Any, *operands: Any) -> Any:
        return branches[min(max(int(index), 0), len(branches) - 1)](*operands)

    @staticmethod
    def while_loop(cond_fun: Any, body_fun: Any, val: Any) -> Any:
        while bool(cond_fun(val)):
            val = body_fun(val)
        return val

    @staticmethod
    def fori_loop(lower: Any, upper: Any, body_fun: Any, val: Any, **_: Any) -> Any:
        for i in range(int(lower), int(upper)):
            val = body_fun(i, val)
        return val

    @staticmethod
    def map(f: Any, xs: Any, batch_size: Any = None) -> Any:
        return Plain.scan(lambda _, x: ((), f(x)), (), xs)[1]

    @staticmethod
    def associative_scan(fn: Any, elems: Any, reverse: bool = False) -> Any:
        rows = [take(elems, i) for i in range(elems.shape[0])]
        out = [rows[-1 if reverse else 0]]
        for row in rows[-2::-1] if reverse else rows[1:]:
            out.append(fn(out[-1], row))
        return stack(out[::-1] if reverse else out)


def scan_carry(c: Any, x: Any) -> Any:
    """A recurrent network: weights closed over, the state carried, outputs stacked."""
    w = jnp.array([[0.3, -0.2, 0.1], [0.5, 0.4, -0.6], [-0.1, 0.2, 0.7]])

    def step(h: Any, t: Any) -> Any:
        h = jnp.tanh(w @ h + t * x)
        return h, h * t

    h, ys = c.scan(step, x, jnp.array([0.5, -1.0, 0.25, 2.0]))
    return h + ys.sum(0)


def scan_weights(c: Any, x: Any) -> Any:
    """Weights that depend on x, given as constants and as a carry that never changes."""
    w = jnp.outer(jnp.sin(x), x)

    def step(carry: Any, t: Any) -> Any:
        v, h = carry["v"], carry["h"]
        return {"v": v, "h": jnp.tanh(w @ h + v * t)}, (h, None)

    last, (hs, _) = c.scan(step, {"v": jnp.cos(x), "h": x}, x)
    return last["h"] * take(hs, 1) + last["v"]


def scan_reverse(c: Any, x: Any) -> Any:
    """Backwards, with integers and booleans in the carry, unrolled unevenly."""

    def step(carry: Any, row: Any) -> Any:
        i, even, s = carry
        s = jnp.where(even, s * row, s + jnp.cos(row) * i)
        return (i + 1, ~even, s), (s, i)

    (i, _, s), (ys, n) = c.scan(
        step, (jnp.int32(1), jnp.array(True), take(x, 0)), x, reverse=True, unroll=2
    )
    return ys * n + s * i


def scan_length(c: Any, x: Any) -> Any:
    """No xs; a body that uses its carry twice, and results nobody uses."""

    def step(carry: Any, _: Any) -> Any:
        a, b, unused = carry
        return (b, jnp.sin(a) * b, unused * a), (a, b * 2.0)

    (a, _, _), (_, ys) = c.scan(step, (x, x * x, x), None, length=3)
    return a + take(ys, 0)


def scan_in_scan(c: Any, x: Any) -> Any:
    """Each step runs a loop that closes over the outer carry and slice."""

    def outer(h: Any, t: Any) -> Any:
        def inner(g: Any, s: Any) -> Any:
            return jnp.sin(g * s + h * t), g * h.sum()

        g, ys = c.scan(inner, h, x)
        return g, ys.sum(0) * t

    h, ys = c.scan(outer, x, jnp.array([0.5, 1.5]))
    return h + ys.sum(0)


def cond_value(c: Any, x: Any) -> Any:
    """A predicate that depends on x, branches that close over it and need other residuals."""
    y = x * x
    return c.cond(
        x.sum() > 0,
        lambda z: jnp.sin(z) * y + jnp.exp(-z),
        lambda z: jnp.where(jnp.isnan(jnp.sqrt(z - 10.0)), y * z, 0.0) * z,
        x + 1.0,
    )


def cond_safe(c: Any, x: Any) -> Any:
    """The branch not taken would give nan, and a nan as derivative."""
    s = x.sum()
    return c.cond(s > 0, lambda z: jnp.sqrt(z) * x, lambda z: x * 2.0, s)


def cond_constant(c: Any, x: Any) -> Any:
    """A known predicate; one branch ignores its operand, the other returns it."""
    a = c.cond(True, lambda z: (z, jnp.ones(3)), lambda z: (jnp.zeros(3), z * 2.0), x)
    b = c.cond(False, lambda: jnp.sin(x), lambda: jnp.cos(x))
    return a[0] * a[1] * b


def switch_index(c: Any, x: Any) -> Any:
    """Three branches, an index out of range, pytrees."""
    index = jnp.floor(take(x, 0) * 2.0).astype("int32")
    branches = [
        lambda d: {"a": d["a"] * 2.0, "b": jnp.sin(d["b"])},
        lambda d: {"a": d["b"], "b": d["a"] * d["b"]},
        lambda d: {"a": d["a"] ** 2, "b": x},
    ]
    out = c.switch(index, branches, {"a": x, "b": jnp.cos(x)})
    return out["a"] + out["b"]


def cond_in_scan(c: Any, x: Any) -> Any:
    """A choice at every step, by the step and by the value."""

    def step(h: Any, t: Any) -> Any:
        h = c.cond(t > 0, lambda a: jnp.sin(a) * t, lambda a: a + x, h)
        return h, c.cond(h.sum() > 0.5, lambda: h * h, lambda: jnp.cos(h))

    h, ys = c.scan(step, x, jnp.array([1.0, -1.0, 2.0]))
    return h * ys.sum(0)


def scan_in_cond(c: Any, x: Any) -> Any:
    """Loops of different lengths in the branches."""

    def looped(n: int) -> Any:
        return lambda z: c.scan(lambda h, _: (jnp.sin(h) * x, h), z, None, length=n)[0]

    return c.cond(take(x, 1) > 0, looped(2), looped(3), x * 0.5)


def fori_known(c: Any, x: Any) -> Any:
    """A known number of steps, a counter that is used."""
    return c.fori_loop(2, 5, lambda i, v: jnp.sin(v) + x / i, x)


def mapped(c: Any, x: Any) -> Any:
    """`map`, one by one and two at a time."""
    a = c.map(lambda t: jnp.sin(t) * x, x)
    return a.sum(0) + c.map(lambda t: t * t * x.sum(), x, batch_size=2)


def prefixes(c: Any, x: Any) -> Any:
    """`associative_scan` of products."""
    y = lax.concatenate([x, jnp.sin(x), x * 0.5], 0)
    a = c.associative_scan(lambda p, q: p * q, y)
    b = c.associative_scan(jnp.maximum, y, reverse=True)
    return lax.slice_in_dim(a, 0, 3) + lax.slice_in_dim(b, -3, None)


def call_in_scan(c: Any, x: Any) -> Any:
    """A jitted step, called twice, that closes over x."""

    @c.jit
    def step(h: Any, t: Any) -> Any:
        return jnp.tanh(h * x) * t, h

    def twice(h: Any, t: Any) -> Any:
        h, y = step(h, t)
        h, z = step(h, t + 1.0)
        return h, (y, z * t)

    h, (ys, zs) = c.scan(twice, x, x)
    return h + (ys * zs).sum(0)


def scan_in_call(c: Any, x: Any) -> Any:
    """A jitted function with a loop and a choice inside, used twice."""

    @c.jit
    def looped(a: Any, b: Any) -> Any:
        h, _ = c.scan(lambda h, t: (h * jnp.cos(t) + b, None), a, b)
        return c.cond(h.sum() > 1.0, lambda: h * b, lambda: h - a)

    return looped(x, x * 2.0) + looped(jnp.sin(x), x)


def checkpoints(c: Any, x: Any) -> Any:
    """Steps that are recomputed, in a loop that is recomputed."""

    @c.checkpoint
    def step(h: Any, t: Any) -> Any:
        h = c.cond(h.sum() > 0, lambda a: jnp.sin(a * x) * t, lambda a: a * a, h)
        return jnp.tanh(h), h * t

    @c.checkpoint
    def looped(h: Any, ts: Any) -> Any:
        def body(carry: Any, t: Any) -> Any:
            n, h = carry
            h, y = step(h, t * n)
            return (n + 1, h), y

        (_, h), ys = c.scan(body, (jnp.int32(1), h), ts)
        return h + ys.sum(0)

    return looped(x, jnp.array([0.5, -1.5])) * x


@kiln.custom_jvp
def cube(x: Any, w: Any) -> Any:
    """Return x³w, with a derivative written by hand."""
    return x * x * x * w


@cube.defjvp
def _cube_jvp(primals: Any, tangents: Any) -> Any:
    (x, w), (dx, dw) = primals, tangents
    return cube(x, w), 3.0 * x * x * w * dx + x * x * x * dw


@kiln.custom_vjp
def tangled(x: Any, w: Any) -> Any:
    """Return sin(x)w, with a derivative written by hand."""
    return jnp.sin(x) * w


tangled.defvjp(
    lambda x, w: (tangled(x, w), (jnp.cos(x), jnp.sin(x), w)),
    lambda kept, ct: (ct * kept[0] * kept[2], ct * kept[1]),
)


def custom_jvp_in_scan(c: Any, x: Any) -> Any:
    """A rule by hand at every step and in a branch."""

    def step(h: Any, t: Any) -> Any:
        h = cube(jnp.tanh(h), x * t)
        return h, c.cond(t > 0, lambda: cube(h, x), lambda: h)

    h, ys = c.scan(step, x, jnp.array([0.5, -1.5, 1.0]))
    return h + ys.sum(0)


def custom_vjp_in_scan(c: Any, x: Any) -> Any:
    """A backward rule by hand at every step and in a branch."""

    def step(h: Any, t: Any) -> Any:
        h = tangled(h, x * t)
        return h, c.cond(t > 0, lambda: tangled(h, x), lambda: h)

    h, ys = c.scan(step, x, jnp.array([0.5, -1.5, 1.0]))
    return h + ys.sum(0)


def while_value(c: Any, x: Any) -> Any:
    """A number of steps that depends on x."""
    _, y = c.while_loop(
        lambda s: s[0] < 6.0,
        lambda s: (s[0] + 1.0 + jnp.abs(s[1]).sum(), jnp.sin(s[1]) * 1.5 + x),
        (take(x, 0), x),
    )
    return y


def while_in_scan(c: Any, x: Any) -> Any:
    """A loop of unknown length at every step."""

    def step(h: Any, t: Any) -> Any:
        i, h = c.while_loop(
            lambda s: (s[0] < 4) & (jnp.abs(s[1]).sum() < 5.0),
            lambda s: (s[0] + 1, s[1] * 1.7 + x * t),
            (jnp.int32(0), h),
        )
        return h, h * i

    h, ys = c.scan(step, x, jnp.array([0.5, -0.5]))
    return h + ys.sum(0)


def scan_in_while(c: Any, x: Any) -> Any:
    """A loop of known length inside one of unknown length."""

    def body(s: Any) -> Any:
        i, v = s
        v, _ = c.scan(lambda h, t: (jnp.sin(h) * t + h, None), v, x)
        return i + 1, c.cond(take(v, 0) > 0, lambda: v * 0.5, lambda: v)

    return c.while_loop(lambda s: s[0] + take(s[1], 0) < 3.0, body, (jnp.int32(0), x))[1]


def fori_unknown(c: Any, x: Any) -> Any:
    """Bounds that are traced under jit and vmap."""
    n = jnp.floor(jnp.abs(take(x, 0)) * 3.0).astype("int32")
    return c.fori_loop(0, n, lambda i, v: v * jnp.cos(v) + x, x)


def while_constant(c: Any, x: Any) -> Any:
    """A counter decides; the derivative flows beside it, though not around the loop."""
    n, y = c.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1]), (jnp.int32(0), x))
    return jnp.sin(y) * n


REVERSIBLE: dict[str, Program] = {
    f.__name__: f
    for f in (
        scan_carry,
        scan_weights,
        scan_reverse,
        scan_length,
        scan_in_scan,
        cond_value,
        cond_safe,
        cond_constant,
        switch_index,
        cond_in_scan,
        scan_in_cond,
        fori_known,
        mapped,
        prefixes,
        call_in_scan,
        scan_in_call,
        while_constant,
        checkpoints,
        custom_jvp_in_scan,
    )
}
# A function with a backward rule alone has no forward derivative, so none of second order.
FIRST_ORDER: dict[str, Program] = {"custom_vjp_in_scan": custom_vjp_in_scan}
FORWARD_ONLY: dict[str, Program] = {
    f.__name__: f for f in (while_value, while_in_scan, scan_in_while, fori_unknown)
}
