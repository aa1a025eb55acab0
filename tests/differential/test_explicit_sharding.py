"""Types that say how arrays are sharded: kiln's are jax's, and so are values and refusals.

In an expression `put(x, 'x', None)` is an array sharded by P('x', None) over a mesh of 4 by 2
devices with the Explicit axes 'x' and 'y'; `xy`, `x_`, `_y`, `yx`, `__` are 8 by 8 arrays sharded
so. An answer has the values of the results, and the texts of their types. `inside(f)(x)` gives the
types that `f` sees while it is traced.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

import kiln
from tests.differential.expressions import lines, names
from tests.differential.oracle import Case, Topic

PROGRAMS: dict[str, str] = {
    "elementwise": """
        jnp.sin(xy)
        xy + xy
        xy + 1
        xy * jnp.float32(2)
        xy + __
        x_ + _y
        x_ + xy
        xy + yx
        xy + x_[:1]
        put(f(8, 1), 'x', None) + put(f(1, 8), None, 'y')
        put(f(8, 1), 'x', None) + put(f(1, 8), None, 'x')
        jnp.where(xy > 0, xy, 0.0)
        jnp.where(xy > 0, xy, xy * 2)
        jnp.clip(xy, -1.0, 1.0)
        xy.astype('int32')
        jnp.maximum(xy, 0)
        xy == xy
        -x_
        jax.nn.relu(xy)
        jax.nn.softmax(x_)
        jax.nn.gelu(xy)
        put(f(8), ('x', 'y')) * 2
        jnp.exp(put(f(8, 8), None, ('y', 'x')))
    """,
    "shapes": """
        xy.T
        jnp.transpose(put(f(4, 2, 8), 'x', 'y', None), (2, 0, 1))
        jnp.swapaxes(xy, 0, 1)
        x_[:, None]
        xy[..., None]
        jnp.expand_dims(xy, 1)
        jnp.squeeze(put(f(8, 1), 'x', None), 1)
        jnp.broadcast_to(x_, (3, 8, 8))
        jnp.broadcast_to(put(f(8), 'x'), (8, 8))
        lax.broadcast_in_dim(put(f(8), 'x'), (8, 3), (0,))
        jnp.reshape(xy, (8, 8, 1))
        jnp.reshape(xy, (1, 8, 8))
        jnp.reshape(put(f(8, 1, 4), 'x', None, 'y'), (8, 4))
        jnp.reshape(x_, (64,))
        jnp.reshape(_y, (64,))
        jnp.reshape(xy, (64,))
        jnp.reshape(put(f(8), 'x'), (4, 2))
        jnp.reshape(put(f(8), 'x'), (2, 4))
        jnp.reshape(put(f(16), ('x', 'y')), (8, 2))
        jnp.reshape(put(f(16), ('x', 'y')), (4, 4))
        jnp.reshape(put(f(16, 3), 'x', None), (4, 4, 3))
        jnp.reshape(_y, (4, 16))
        jnp.reshape(__, (4, 16))
        jnp.reshape(xy, (4, 16), out_sharding=P('x', 'y'))
        jnp.ravel(xy, out_sharding=P('x'))
        jnp.flip(xy, 0)
        lax.rev(xy, (1,))
        jnp.tile(x_, (1, 2))
        jnp.zeros((8, 4))
        jnp.zeros((8, 4), out_sharding=P('x', 'y'))
        jnp.arange(8, out_sharding=P('x'))
        jnp.zeros_like(xy)
        jnp.ones_like(xy)
        lax.full_like(xy, 3.0)
    """,
    "reductions": """
        xy.sum()
        xy.sum(0)
        xy.sum(1)
        xy.sum(1, keepdims=True)
        xy.mean(0)
        xy.max(1)
        xy.min()
        jnp.prod(x_, 1)
        jnp.any(xy > 0, 0)
        jnp.argmax(xy, 1)
        jnp.argmin(x_, 1)
        jnp.var(xy, 1)
        jnp.linalg.norm(xy)
        jax.nn.logsumexp(xy, 1)
        lax.reduce_sum(xy, (0,), out_sharding=P('x'))
        jnp.cumsum(x_, 1)
        jnp.cumsum(x_, 0)
        jnp.sort(x_, 1)
        jnp.sort(x_, 0)
        lax.top_k(x_, 2)
        lax.top_k(_y, 2)
        lax.reduce_precision(xy, 5, 10)
    """,
    "products": """
        jnp.dot(x_, __)
        jnp.dot(x_, _y)
        jnp.dot(xy, __)
        jnp.dot(__, _y)
        jnp.dot(_y, x_)
        jnp.dot(_y, put(f(8, 8), 'y', None))
        jnp.dot(_y, put(f(8, 8), 'y', None), out_sharding=P(None, None))
        jnp.dot(_y, put(f(8, 8), 'y', None), out_sharding=P('x', 'y'))
        jnp.dot(x_, put(f(8, 8), None, 'x'))
        x_ @ _y
        jnp.matmul(xy, yx, out_sharding=P('x', None))
        jnp.einsum('ij,jk->ik', x_, _y)
        jnp.einsum('ij,jk->ki', x_, _y)
        jnp.einsum('ij,ij->i', xy, xy, out_sharding=P('x'))
        jnp.einsum('bij,bjk->bik', put(f(4, 2, 3), 'x', None, None), put(f(4, 3, 2), 'x', None, 'y'))
        jnp.einsum('bij,bjk->bik', put(f(4, 2, 3), 'x', None, None), f(4, 3, 2))
        lax.dot_general(x_, _y, (((1,), (0,)), ((), ())))
        lax.dot_general(xy, xy, (((1,), (1,)), ((), ())), out_sharding=P('x', None))
        jnp.tensordot(x_, _y, 1)
        jnp.outer(put(f(8), 'x'), put(f(8), 'y'))
        lax.linalg.triangular_solve(put(jnp.eye(3) + jnp.zeros((8, 3, 3)), 'x'), put(f(8, 3, 2), 'x'), left_side=True)
    """,
    "joining and slicing": """
        jnp.concatenate([xy, xy])
        jnp.concatenate([x_, x_], 1)
        jnp.concatenate([x_, __], 1)
        jnp.stack([xy, xy])
        jnp.pad(x_, ((0, 0), (1, 1)))
        jnp.pad(x_, ((0, 4), (0, 0)))
        jnp.pad(x_, ((0, 1), (0, 0)))
        x_[:, :3]
        x_[:3]
        x_[:, 2]
        lax.slice(xy, (0, 0), (4, 8))
        lax.dynamic_slice(x_, (0, 1), (8, 3))
        lax.dynamic_slice_in_dim(x_, 0, 2, 0)
        lax.dynamic_update_slice(xy, xy, (0, 0))
        lax.dynamic_update_slice(x_, put(f(8, 2), 'x', None), (0, 3))
        lax.dynamic_update_slice(x_, f(8, 2), (0, 3))
        jnp.split(xy, 2, 1)
        x_[:, jnp.array([0, 2])]
        x_[jnp.array([0, 2])]
        x_.at[jnp.array([0, 2])].get(out_sharding=P(None, None))
        xy.at[jnp.array([0, 2])].get(out_sharding=P(None, 'y'))
        jnp.take_along_axis(x_, put(jnp.zeros((8, 2), 'int32'), 'x', None), 1)
    """,
    "shardings": """
        jax.reshard(xy, P('y', None))
        jax.reshard(xy, P())
        jax.reshard(__, P('x'))
        jax.reshard(xy, P(None, ('x', 'y')))
        jax.device_put(xy, P('y'))
        lax.with_sharding_constraint(xy, P('x', 'y'))
        lax.with_sharding_constraint(xy, P('x'))
        jax.sharding.auto_axes(lambda a, b: a + b, out_sharding=P('x', None))(xy, yx)
        jax.sharding.auto_axes(lambda a, b: a @ b)(xy, xy, out_sharding=P('x', None))
        jax.sharding.auto_axes(lambda a, b: a @ b)(xy, xy)
        jax.reshard(f(6), P('x'))
    """,
    "transformations": """
        jax.grad(lambda a: jnp.sin(a).sum())(xy)
        jax.grad(lambda a: (a ** 2).sum())(x_)
        jax.grad(lambda a: (a.T * 2).sum())(xy)
        jax.grad(lambda a: a.sum(0).max())(xy)
        jax.grad(lambda w: jnp.sin(x_ @ w).sum())(__)
        jax.grad(lambda w: jnp.sin(x_ @ w).sum())(_y)
        jax.grad(lambda a: jnp.sin(a @ _y).sum())(x_)
        jax.grad(lambda a: jnp.dot(a, a.T, out_sharding=P('x', None)).sum())(xy)
        jax.grad(lambda a: jnp.reshape(a, (8, 2, 4)).sum())(x_)
        jax.grad(lambda a: (jax.reshard(a, P('y')) ** 2).sum())(xy)
        jax.grad(lambda a: jnp.concatenate([a, a * 2], 1).sum())(x_)
        jax.grad(lambda a: a[:, :3].sum())(x_)
        jax.grad(lambda a: a.at[jnp.array([0, 2])].get(out_sharding=P()).sum())(xy)
        jax.grad(lambda a: jnp.broadcast_to(a, (3, 8)).sum())(put(f(8), 'x'))
        jax.grad(lambda b: (xy + b).sum())(f(8))
        jax.grad(lambda b: (xy + b).sum())(put(f(8), 'y'))
        jax.value_and_grad(lambda a: jnp.mean(jax.nn.relu(a)))(xy)
        jax.jvp(lambda a: jnp.sin(a) @ _y, (x_,), (x_,))
        jax.vjp(lambda a: jnp.sin(a), xy)[1](xy)
        jax.vmap(lambda r: jnp.sin(r))(xy)
        jax.vmap(lambda r: r.sum())(xy)
        jax.vmap(lambda r: r @ _y)(x_)
        jax.vmap(lambda r, s: r + s, (0, None))(xy, put(f(8), 'y'))
        jax.vmap(lambda r: jnp.sin(r), 1, 1)(xy)
        jax.vmap(lambda r, s: r + s)(x_, __)
        jax.vmap(jax.jit(lambda r: r * 2))(xy)
        jax.vmap(jax.grad(lambda r: (r ** 2).sum()))(xy)
        lax.scan(lambda c, a: (c + a, a * 2), put(f(8), 'y'), _y)
        lax.scan(lambda c, a: (c + a, a), f(8), x_)
        lax.scan(lambda c, a: (c + a, a), jnp.zeros(8), _y)
        lax.fori_loop(0, 3, lambda i, c: jnp.sin(c), xy)
        lax.while_loop(lambda c: c.sum() < 100.0, lambda c: c + 1.0, jnp.abs(xy))
        lax.cond(True, lambda a: a + 1, lambda a: a * 2, xy)
        lax.cond(True, lambda a: a + 1, lambda a: jax.reshard(a, P()), xy)
        jax.grad(lambda a: lax.scan(lambda c, b: (jnp.sin(c) + b, None), put(f(8), 'y'), a)[0].sum())(_y)
        jax.grad(lambda a: lax.cond(True, jnp.sin, jnp.cos, a).sum())(xy)
        jax.grad(jax.checkpoint(lambda a: jnp.sin(jnp.sin(a)).sum()))(xy)
        jax.grad(jax.jit(lambda a: jnp.sin(a).sum()))(xy)
        jax.jit(jax.hessian(lambda a: (a ** 3).sum()))(put(f(4), 'x'))
    """,
}
INSIDE = """
    inside(lambda a: [jnp.sin(a), a.T, a.sum(0), a[None]])(xy)
    inside(lambda a: [a, jax.reshard(a, P())])(xy)
    inside(lambda a: [jax.vmap(lambda r: jnp.sin(r))(a)])(xy)
    inside(lambda a: [jnp.dot(a, a.T, out_sharding=P('x'))])(xy)
    inside(lambda a: [jax.grad(lambda b: (b ** 2).sum())(a)])(xy)
    inside(lambda a: [jax.eval_shape(lambda b: b.T, a)])(xy)
    inside(lambda a: [a * 2])(put(f(8), ('x', 'y')))
"""


@functools.cache
def _mesh(lib: Any) -> Any:
    return lib.make_mesh((4, 2), ("x", "y"), axis_types=(lib.sharding.AxisType.Explicit,) * 2)


def _text(x: Any, lib: Any) -> np.ndarray:
    # What eval_shape returns has a dtype and a sharding.
    text = str(lib.typeof(x)) if hasattr(x, "aval") else f"{x.dtype} {x.sharding.spec}"
    return np.frombuffer(text.encode(), np.uint8)


def _names(lib: Any) -> dict[str, Any]:
    spec = lib.sharding.PartitionSpec
    known = names(lib)

    def put(x: Any, *entries: Any) -> Any:
        return lib.device_put(x, spec(*entries))

    def inside(fun: Any) -> Any:
        def asked(*args: Any) -> Any:
            seen: list[np.ndarray] = []
            lib.jit(lambda *xs: seen.extend(_text(x, lib) for x in fun(*xs)))(*args)
            return seen

        return asked

    whole = known["f"](8, 8)
    specs = {"xy": ("x", "y"), "x_": ("x",), "_y": (None, "y"), "yx": ("y", "x"), "__": ()}
    arrays = {name: put(whole, *entries) for name, entries in specs.items()}
    return known | arrays | {"P": spec, "put": put, "inside": inside, "mesh": _mesh(lib)}


def _case(group: str, text: str, is_jitted: bool) -> Case:
    def run(lib: Any) -> Any:
        with lib.disable_jit(False), lib.set_mesh(_mesh(lib)):
            found = _names(lib)
            program = eval(f"lambda: {text}", found)
            leaves = lib.tree.leaves(lib.jit(program)() if is_jitted else program())
            texts = [_text(x, lib) for x in leaves if hasattr(x, "aval")]
            return [*(np.asarray(x) for x in leaves), *texts]

    return Case(group, text, run, 1e-4)


def _cases() -> Iterable[Case]:
    for group, text in PROGRAMS.items():
        for line in lines(text):
            yield _case(group, line, False)
            yield _case(f"{group}, jitted", line, True)
    for line in lines(INSIDE):
        yield _case("inside", line, False)


TOPIC = Topic("explicit_sharding", _cases())
LONG = {"transformations"}
"""Those whose programs take seconds to compile; the same ones under jit take half the time."""


@pytest.mark.parametrize(
    "group",
    [pytest.param(g, marks=pytest.mark.full if g in LONG else ()) for g in TOPIC.groups],
)
def test_as_jax(group: str) -> None:
    TOPIC.check(group, kiln)
