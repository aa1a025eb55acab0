"""Random programs of arrays with a named axis, well typed for every size of it.

A step takes values of some kinds and adds one: a `row` has the shape (n,), a `table` (n, 3), a
`part` some length that follows from sizes, and a `scalar` no axes. Decisions by numbers are made
on arguments only, so that rounding decides nothing.
"""

from __future__ import annotations

import linecache
import random
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import kiln
import kiln.numpy as jnp
from kiln import lax

ALONG = """
    jnp.tanh({0})|0.5 * {0} + 0.25|jnp.exp(-{0} * {0})|{0} - jnp.mean({0})|kiln.nn.softmax({0})
    0.1 * jnp.cumsum({0})|jnp.cumprod(jnp.cos({0}))|lax.cummax({0})|jnp.sort({0})|{0}[::-1]
    jnp.roll({0}, 1)|{0} / {0}.shape[0]|{0} * 0.1 * {0}.shape[0]|{0} + {0}.size % 3
    jnp.concatenate([{0}[1:], {0}[:1]])|jnp.take({0}, jnp.arange({0}.shape[0])[::-1])
    jnp.zeros_like({0}).at[jnp.arange({0}.shape[0]) // 2].add({0})|{0}.at[:2].set(0.5)
    {0}.at[1:].multiply(0.5)|0.01 * jnp.arange({0}.shape[0]) + {0}|jnp.full({0}.shape, 0.5) * {0}
    lax.scan(lambda c, a: (0.5 * c + a, c - a), 0.0, {0})[1]|jnp.flip({0}).reshape({0}.shape)
    lax.scan(lambda c, a: (0.5 * c + a, c - a), 0.0, {0}, reverse=True, unroll=2)[1]
    lax.fori_loop(0, 3, lambda i, c: 0.5 * c + 0.1 * i, {0})|lax.map(jnp.sin, {0})
    lax.fori_loop(0, {0}.shape[0], lambda i, c: c.at[i].multiply(0.5), {0})
    lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, jnp.sin(s[1])), (0, {0}))[1]
    lax.while_loop(lambda s: s[0] < {0}.shape[0], lambda s: (s[0] + 1, s[1] * 0.9), (0, {0}))[1]
    kiln.grad(lambda a: jnp.sum(jnp.sin(a) * a))({0})|kiln.vmap(lambda a: jnp.tanh(a) + 1)({0})
    kiln.grad(lambda a: jnp.sum(0.1 * jnp.cumsum(a) ** 2) / a.shape[0])({0})
    kiln.grad(lambda a: lax.scan(lambda c, b: (jnp.sin(c) + b, None), 0.0, a)[0])({0})
    kiln.grad(lambda a: jnp.sum(jnp.sort(a) * jnp.arange(a.shape[0])) * 0.1)({0})
    kiln.jvp(lambda a: jnp.tanh(a) * a.shape[0], ({0},), (jnp.ones({0}.shape),))[1]
    kiln.jit(lambda a: a - 0.1 * a.size)({0})|kiln.checkpoint(jnp.sin)({0})
    lax.cond(jnp.sum(x) > 0.27, jnp.sin, jnp.cos, {0})|lax.associative_scan(jnp.add, jnp.tanh({0}))
    jnp.broadcast_to(jnp.sum({0}), {0}.shape)|jnp.where(jnp.arange({0}.size) < 2, {0}, 0.5)
    lax.dynamic_update_slice({0}, jnp.zeros({0}[:1].shape), (0,))|jnp.stack([{0}, {0}]).sum(0)
    jnp.ravel({0})|{0}.reshape(-1)|jnp.repeat({0}, 2)[::2]|jnp.pad({0}, 1)[1:-1]|jnp.abs({0})
    lax.dynamic_slice_in_dim(jnp.pad({0}, 1), 1, {0}.shape[0])|jnp.moveaxis({0}[:, None], 0, 1)[0]
"""
PARTS = """
    {0}[1:]|{0}[:-1]|{0}[::2]|{0}[1::3]|{0}[-3:]|{0}[:-2]|{0}[2:5]|{0}[: {0}.shape[0] // 2]
    {0}[{0}.shape[0] // 2 :]|{0}[{0}.shape[0] % 3 :]|jnp.concatenate([{0}, {0}])|jnp.repeat({0}, 2)
    jnp.pad({0}, (1, 2))|jnp.concatenate([{0}, jnp.ones(2)])|jnp.diff({0})|jnp.tile({0}, 2)
    jnp.concatenate([{0}[1:], {0}[2:]])|lax.pad({0}, 0.5, [(0, 1, 1)])|{0}[5:]
    jnp.ravel({0}[:, None] * jnp.arange(3.0))|jnp.append({0}, 0.5)|jnp.repeat({0}, {0}.shape[0] % 1)
"""
NUMBERS = """
    jnp.sum({0})|jnp.mean({0})|jnp.std({0})|jnp.var({0}, ddof=1)|jnp.prod(jnp.tanh({0}))|{0}[0]
    jnp.max({0})|jnp.min({0})|jnp.ptp({0})|jnp.linalg.norm({0})|0.1 * {0}.size|{0}[-1]
    jnp.max({0}, initial=-2.0)|jnp.sum({0}) / {0}.shape[0]|jnp.median({0})|jnp.dot({0}, {0}) * 0.1
    0.1 * jnp.argmax(x[1:])|jnp.nanmax({0})|kiln.nn.logsumexp({0})|0.1 * jnp.sum(x > 0.27)
    jnp.any(z > 0.27) * 0.5|jnp.average({0})|jnp.trace(jnp.outer({0}, {0})) * 0.1|{0}[2]
    lax.fori_loop(0, {0}.shape[0], lambda i, c: 0.5 * c + {0}[i], 0.0)|jnp.tanh({0}.sum()) + 1
    lax.reduce_max({0}, (0,)) * 0 + 1|jnp.vdot({0}, {0}[::-1]) * 0.1|jnp.quantile({0}, 0.5)
"""
TEXTS: dict[tuple[tuple[str, ...], str], str] = {
    (("row",), "row"): ALONG
    + """
        {0} + jnp.linspace(0.0, 1.0, n)|{0}[jnp.argsort(x)]|x[:n] + {0}
        jnp.pad({0}, (0, {0}.shape[0] // 2))[:n]
        kiln.grad(lambda a: jnp.sum(a[1:] * a[:-1]) + jnp.mean(a))({0})
    """,
    (("part",), "part"): ALONG + "|" + PARTS,
    (("row",), "part"): PARTS,
    (("part",), "scalar"): NUMBERS,
    (("row",), "scalar"): NUMBERS,
    (("row", "row"), "row"): """
        {0} + {1}|{0} * jnp.tanh({1})|jnp.maximum({0}, {1})|jnp.where(x > 0.27, {0}, {1})
        jnp.take_along_axis({0}, jnp.argsort(x), 0)|jnp.stack([{0}, {1}]).max(0)
        jnp.outer({0}, {1}).sum(0) * 0.1|kiln.vmap(lambda a, b: a - b)({0}, {1})
        lax.scan(lambda c, ab: (c * 0.5 + ab[0], ab[1] + c), 0.0, ({0}, {1}))[1]
    """,
    (("row", "scalar"), "row"): "{0} * jnp.tanh({1})|{0} + {1}|jnp.minimum({0}, {1})",
    (("part", "part"), "scalar"): """
        0.1 * jnp.sum({0}[:, None] * {1}[None])|jnp.mean(jnp.concatenate([{0}, {1}]))
        jnp.max(jnp.concatenate([{0}, {1}]))|jnp.sum(jnp.tanh({0})) - jnp.sum({1})
    """,
    (("scalar", "scalar"), "scalar"): "{0} + {1}|{0} * jnp.tanh({1})|jnp.maximum({0}, {1})",
    (("row",), "table"): """
        {0}[:, None] * jnp.arange(3.0)|jnp.stack([{0}, {0}, 0.5 * {0}], axis=1)
        jnp.broadcast_to({0}[:, None], (n, 3))|jnp.outer({0}, jnp.ones(3))|jnp.tile({0}[:, None], 3)
        y * {0}[:, None]|jnp.reshape(jnp.repeat({0}, 3), (n, 3))|kiln.jacfwd(jnp.sin)(y[:, 0])[:, :1] + y
    """,
    (("table",), "table"): """
        jnp.tanh({0})|0.1 * jnp.cumsum({0}, axis=0)|jnp.sort({0}, axis=0)|{0} - {0}.mean(0)|{0}[::-1]
        {0} @ (0.5 * jnp.ones((3, 3)))|kiln.vmap(jnp.sort)({0})|jnp.reshape(jnp.ravel({0}), (-1, 3))
        lax.scan(lambda c, r: (jnp.tanh(c + r), c), jnp.zeros(3), {0})[1]|{0}.T.reshape(3, -1).T
        {0}.at[:, 1].set(0.5)|jnp.roll({0}, 1, axis=0)|jnp.concatenate([{0}[:, 1:], {0}[:, :1]], 1)
        kiln.grad(lambda a: jnp.sum(jnp.tanh(a @ a.T)) / a.shape[0])({0})|kiln.nn.softmax({0}, axis=0)
        kiln.vmap(lambda c: 0.1 * jnp.cumsum(c), in_axes=1, out_axes=1)({0})|jnp.where(y > 0.27, {0}, 1)
    """,
    (("table",), "row"): """
        {0}.sum(1)|{0}.max(1)|{0}[:, 1]|{0} @ jnp.array([0.5, -0.25, 1.0])|{0}.var(1)|{0}.mean(axis=1)
        0.1 * jnp.argmax(y, axis=1)|kiln.vmap(lambda r: r.sum())({0})|jnp.linalg.norm({0}, axis=1)
        0.1 * ({0} @ {0}.T).sum(0)|jnp.einsum('ni,ni->n', {0}, {0})|jnp.median({0}, axis=1)
        {0}[jnp.arange(n), jnp.argmax(y, 1)]|jnp.cumsum({0}, axis=1)[:, -1]
    """,
    (
        ("table",),
        "part",
    ): "jnp.ravel({0})|{0}[1:, 0]|{0}.T.ravel()|{0}[::2].sum(1)|{0}[1:].max(axis=1)",
    (
        ("table",),
        "scalar",
    ): "{0}.sum()|{0}.max()|jnp.mean({0})|{0}[1:].max(0)[0]|{0}.sum(0)[1]|{0}[0, 0]",
}
STEPS = [
    (takes, text.strip(), gives)
    for (takes, gives), texts in TEXTS.items()
    for text in texts.replace("\n", "|").split("|")
    if text.strip()
]


class SizedProgram(NamedTuple):
    """The source of a function of `x`: f32[n], `y`: f32[n, 3] and `z`: f32[m]."""

    source: str

    @property
    def function(self) -> Callable[..., Any]:
        """A new function of that source."""
        space: dict[str, Any] = {"kiln": kiln, "jnp": jnp, "lax": lax}
        name = f"<sized {zlib.crc32(self.source.encode()):08x}>"
        linecache.cache[name] = (len(self.source), None, self.source.splitlines(True), name)
        exec(compile(self.source, name, "exec"), space)
        return space["program"]  # type: ignore[no-any-return]


def drawn(seed: int, steps: int = 5) -> SizedProgram:
    """Return the program of a seed."""
    draw = random.Random(seed)
    values = {"row": ["x"], "table": ["y"], "part": ["z"], "scalar": []}
    lines = ["def program(x, y, z):", "    n = x.shape[0]"]
    made = []
    for i in range(draw.randint(2, steps)):
        takes, text, gives = draw.choice([s for s in STEPS if all(values[kind] for kind in s[0])])
        # The last ones more often.
        chosen = [draw.choice(values[kind][-2:]) for kind in takes]
        lines.append(f"    v{i} = {text.format(*chosen)}")
        values[gives].append(f"v{i}")
        made.append(f"v{i}")
    return SizedProgram("\n".join([*lines, f"    return ({', '.join(made)},)", ""]))


def operands(size: int, other: int) -> list[np.ndarray]:
    """Return arguments of two sizes, with values that differ from each other."""
    rng = np.random.default_rng([size, other])
    shapes = ((size,), (size, 3), (other,))
    return [rng.uniform(-2, 2, shape).astype(np.float32) for shape in shapes]
