"""shard_map over eight devices gives jax's numbers, derivatives and kinds of errors.

In an expression `sm(f, in_specs, out_specs, ...)` maps f over a mesh of 4 by 2 devices with the
axes 'x' and 'y', `un` does so with check_vma=False, and `m` is an 8 by 8 array.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import pytest

import kiln
from tests.differential.expressions import lines, names
from tests.differential.oracle import Case, Topic

VALUES: dict[str, str] = {
    "sums and extremes": """
        sm(lambda v: lax.psum(v, 'x'), P('x'), P())(m)
        sm(lambda v: lax.psum(v, ('x', 'y')), P('x', 'y'), P())(m)
        sm(lambda v: lax.psum(v, 'x'), P(), P())(m)
        sm(lambda v: lax.psum(lax.psum(v, 'x'), 'x'), P('x'), P())(m)
        sm(lambda v: lax.psum(v, 'y'), P('x', 'y'), P('x'))(m)
        sm(lambda v: lax.psum(v > 0, 'x'), P('x'), P())(m)
        sm(lambda v: lax.psum(i(4), 'x') + v[0, 0], P(), P())(m)
        sm(lambda v: v * lax.psum(1, 'x') + lax.psum(2.5, 'y'), P('x'), P('x'))(m)
        sm(lambda v: lax.psum({'a': v, 'b': [v[0], 2]}, 'x')['b'][0], P('x'), P())(m)
        sm(lambda v: lax.pmean(v, 'x'), P('x'), P())(m)
        sm(lambda v: lax.pmean(v, ('y', 'x')), P('x', 'y'), P())(m)
        sm(lambda v: lax.pmean(i(4), 'x') + v[0, 0], P(), P())(m)
        sm(lambda v: lax.pmax(v, 'x'), P('x'), P())(m)
        sm(lambda v: lax.pmax(v, ('x', 'y')), P('x', 'y'), P())(m)
        sm(lambda v: lax.pmin(v, 'y'), P('x', 'y'), P('x'))(m)
        sm(lambda v: lax.pmin(v, 'x'), P(), P())(m)
        un(lambda v: lax.psum(v, 'x'), P('x'), P())(m)
        un(lambda v: lax.psum(v, ('x', 'y')), P('x'), P())(m)
        un(lambda v: lax.pmean(v, 'x'), P(), P())(m)
        un(lambda v: lax.pmax(v, 'x') - lax.pmin(v, 'x'), P('x'), P())(m)
    """,
    "gathers": """
        sm(lambda v: lax.all_gather(v, 'x'), P('x'), P('x'))(m)
        sm(lambda v: lax.all_gather(v, 'x', tiled=True), P('x'), P('x'))(m)
        sm(lambda v: lax.all_gather(v, 'x', axis=1), P('x'), P('x'))(m)
        sm(lambda v: lax.all_gather(v, 'x', axis=1, tiled=True), P('x'), P('x'))(m)
        sm(lambda v: lax.all_gather(v, 'x', axis=-1), P('x'), P('x'))(m)
        sm(lambda v: lax.all_gather(v, ('x', 'y')), P('x', 'y'), P(('x', 'y')))(m)
        sm(lambda v: lax.all_gather(v, ('y', 'x'), tiled=True), P('x', 'y'), P(('x', 'y')))(m)
        sm(lambda v: lax.all_gather(v, 'x'), P(), P('x'))(m)
        sm(lambda v: lax.all_gather(v, 'x'), P('x'), P())(m)
        un(lambda v: lax.all_gather(v, 'x'), P('x'), P())(m)
        un(lambda v: lax.all_gather(v, 'x', tiled=True), P('x'), P())(m)
        un(lambda v: lax.all_gather(v, ('x', 'y'), tiled=True), P(('x', 'y')), P())(m)
        sm(lambda v: lax.psum_scatter(v, 'x', tiled=True), P(None, 'x'), P('x'))(m)
        sm(lambda v: lax.psum_scatter(v[:4], 'x'), P('y'), P(('x', 'y')))(m)
        sm(lambda v: lax.psum_scatter(v, 'x', scatter_dimension=1, tiled=True), P('x'), P(None, 'x'))(m)
        sm(lambda v: lax.psum_scatter(v, 'x', tiled=True), P(), P('x'))(m)
        sm(lambda v: lax.psum_scatter(v, ('x', 'y'), tiled=True), P(), P(('x', 'y')))(m)
        sm(lambda v: lax.psum_scatter(v, ('y', 'x')), P(), P(('x', 'y')))(m)
        un(lambda v: lax.psum_scatter(v, 'y', tiled=True), P('x'), P(('x', 'y')))(m)
        sm(lambda v: lax.psum_scatter(v[:3], 'x', tiled=True), P(), P('x'))(m)
        sm(lambda v: lax.psum_scatter(v, 'x'), P(), P('x'))(m)
    """,
    "exchange": """
        sm(lambda v: lax.all_to_all(v, 'x', 1, 0, tiled=True), P('x'), P(None, 'x'))(m)
        sm(lambda v: lax.all_to_all(v, 'x', 0, 1, tiled=True), P(None, 'x'), P('x'))(m)
        sm(lambda v: lax.all_to_all(v[:, :4], 'x', 1, 0), P('x'), P('x'))(m)
        sm(lambda v: lax.all_to_all(v[:, :4], 'x', 1, 1), P('x'), P('x'))(m)
        sm(lambda v: lax.all_to_all(v, 'y', 0, 1), P('x'), P('x', 'y'))(m)
        sm(lambda v: lax.all_to_all(v, ('x', 'y'), 1, 0, tiled=True), P(('x', 'y')), P(None, ('x', 'y')))(m)
        sm(lambda v: lax.all_to_all(v, ('y', 'x'), 0, 0, tiled=True), P(), P(('x', 'y')))(m)
        un(lambda v: lax.all_to_all(v, 'x', 1, 0, tiled=True), P('x'), P(None, 'x'))(m)
        sm(lambda v: lax.all_to_all(v[:, :3], 'x', 1, 0, tiled=True), P('x'), P(None, 'x'))(m)
        sm(lambda v: lax.all_to_all(v, 'x', 1, 0), P('x'), P(None, 'x'))(m)
        sm(lambda v: lax.ppermute(v, 'x', [(0, 1), (1, 2), (2, 3), (3, 0)]), P('x'), P('x'))(m)
        sm(lambda v: lax.ppermute(v, 'x', [(0, 2), (3, 1)]), P('x'), P('x'))(m)
        sm(lambda v: lax.ppermute(v, 'y', [(1, 0)]), P('x', 'y'), P('x', 'y'))(m)
        sm(lambda v: lax.ppermute(v, 'x', []), P('x'), P('x'))(m)
        sm(lambda v: lax.ppermute(v, 'x', [(0, 1)]), P(), P('x'))(m)
        sm(lambda v: lax.ppermute(v, ('x', 'y'), [(k, (k + 3) % 8) for k in range(8)]), P(('x', 'y')), P(('x', 'y')))(m)
        sm(lambda v: lax.ppermute(v, ('y', 'x'), [(0, 5), (6, 1)]), P('x', 'y'), P('x', 'y'))(m)
        sm(lambda v: lax.ppermute(v, 'x', [(0, 1), (0, 2)]), P('x'), P('x'))(m)
        sm(lambda v: lax.pshuffle(v, 'x', [3, 1, 0, 2]), P('x'), P('x'))(m)
        sm(lambda v: lax.pshuffle(v, 'x', [0, 0, 1, 2]), P('x'), P('x'))(m)
        sm(lambda v: lax.pswapaxes(v, 'x', 0), P(None, 'x'), P(None, 'x'))(m[:4])
    """,
    "places": """
        sm(lambda v: v + lax.axis_index('x'), P('x'), P('x'))(m)
        sm(lambda v: v + lax.axis_index('x'), P(), P('x'))(m)
        sm(lambda v: v + lax.axis_index(('x', 'y')), P(), P('x', 'y'))(m)
        sm(lambda v: v + lax.axis_index(('y', 'x')), P(), P('x', 'y'))(m)
        sm(lambda: lax.axis_index('y')[None], (), P('y'))()
        sm(lambda v: v * lax.axis_size('x') + lax.axis_size(('x', 'y')), P(), P())(m)
        sm(lambda v: v + lax.axis_index('x'), P(), P())(m)
        un(lambda v: v + lax.axis_index('x'), P(), P('x'))(m)
    """,
    "specs": """
        sm(lambda v: v * 2, P('x', 'y'), P('x', 'y'))(m)
        sm(lambda v: v * 2, P(None, 'x'), P(None, 'x'))(m)
        sm(lambda v: v * 2, P('y', 'x'), P('x', 'y'))(m)
        sm(lambda v: v * 2, P(('x', 'y')), P(('x', 'y')))(m)
        sm(lambda v: v * 2, P(('y', 'x')), P(('y', 'x')))(m)
        sm(lambda v: v * 2, P(('y', 'x')), P(('x', 'y')))(m)
        sm(lambda v: v * 2, P(None, ('x', 'y')), P(('x', 'y'), None))(m)
        sm(lambda v: v * 2, P('x'), P(None, 'y'))(m)
        sm(lambda v: v, P(), P())(m)
        sm(lambda v: v, P(), P('x'))(m)
        sm(lambda v: v.sum(), P(), P())(m)
        sm(lambda v: v.sum(keepdims=True), P('x', 'y'), P('x', 'y'))(m)
        sm(lambda v: np.float32(3), P('x'), P())(m)
        sm(lambda v: 3, P('x'), P())(m)
        sm(lambda a, b: a * b, (P('x'), P()), P('x'))(m, 2.0)
        sm(lambda a, b: a * b, (P('x'), None), P('x'))(m, 2.0)
        sm(lambda a, b: a + b, P('x'), P('x'))(m, m)
        sm(lambda v: v, None, P())(m)
        sm(lambda d: d['a'] + d['b'], P('x'), P('x'))({'a': m, 'b': m})
        sm(lambda d: d['a'] + d['b'], ({'a': P('x'), 'b': P()},), P('x'))({'a': m, 'b': f(8)})
        sm(lambda d, e: d['a'] + e, ({'a': P('x')}, P()), P('x'))({'a': m}, f(8))
        sm(lambda v: (v, [v.sum()[None]]), P('x'), P('x'))(m)
        sm(lambda v: {'s': lax.psum(v, 'x'), 'v': v}, P('x'), {'s': P(), 'v': P('x')})(m)
        sm(lambda v: None, P('x'), P())(m)
        sm(lambda v: lax.psum(v, 'x'), P('x'), P(), axis_names={'x'})(m)
        sm(lambda v: v + lax.axis_index('x'), P('x'), P('x'), axis_names={'x'})(m)
        sm(lambda v: v * 2, P('x'), P('x'))(m).addressable_shards[0].data
        sm(lambda v: v * 2, P('x', 'y'), P('x', 'y'))(m).addressable_shards[5].data
        sm(lambda v: v + jnp.arange(8.0), P('x'), P('x'))(m)
        (lambda w: sm(lambda v: v @ w, P('x'), P('x'))(m))(f(8, 2))
        un(lambda v: v, P('x'), P())(m)
        un(lambda v: v * 2, P('x', 'y'), P('x'))(m)
    """,
    "wrong ones": """
        jax.shard_map(lambda v: v, mesh=mesh, out_specs=P())(m)
        sm(lambda v: v, P('z'), P())(m)
        sm(lambda v: v, P(), P('z'))(m)
        sm(lambda v: v, P('x', 'y', None), P())(m)
        sm(lambda v: v.sum(), P('x'), P('x'))(m)
        sm(lambda v: v, P('x'), P())(m)
        sm(lambda v: v, P('x', 'y'), P('x'))(m)
        sm(lambda v: v, P('x'), P('x'))(m[:6])
        sm(lambda v: v, P(('x', 'y')), P('x'))(m[:4])
        sm(lambda v: v, (P('x'), P('y')), P('x'))(m)
        sm(lambda v: v, P('x'), (P('x'), P('y')))(m)
        sm(lambda v: v, 'x', P('x'))(m)
        sm(lambda v: v, P('x'), 'x')(m)
        sm(lambda v: v, 3, P('x'))(m)
        sm(lambda v: v, P('x'), P('x'), axis_names={'z'})(m)
        sm(lambda v: v, P('x'), P('y'), axis_names={'x'})(m)
        sm(lambda v: lax.axis_index('z'), P('x'), P('x'))(m)
        sm(lambda v: 'a', P('x'), P())(m)
        sm(lambda v: v, P('x'), P('x'))('a')
        sm(lambda v: float(v[0, 0]), P('x'), P())(m)
        sm(3, P('x'), P())(m)
        jax.shard_map(lambda v: v, mesh=3, in_specs=P(), out_specs=P())(m)
        jax.shard_map(lambda v: v, in_specs=P(), out_specs=P())(m)
    """,
    "casts": """
        sm(lambda v: lax.pcast(v, 'x', to='varying'), P(), P('x'))(m)
        sm(lambda v: lax.pcast(v, ('x', 'y'), to='varying'), P(), P('x', 'y'))(m)
        sm(lambda v: lax.pcast({'a': v, 'b': v}, 'x', to='varying'), P(), P('x'))(m)
        sm(lambda v: lax.pcast(v, 'y', to='varying'), P('x'), P('x', 'y'))(m)
        sm(lambda v: lax.pcast(v, 'x', to='varying'), P(), P())(m)
        sm(lambda v: lax.pcast(v, 'x', to='varying'), P('x'), P('x'))(m)
        sm(lambda v: lax.pcast(v, 'x', to='invariant'), P('x'), P())(m)
        sm(lambda v: lax.pcast(v, 'x', to='other'), P('x'), P())(m)
        un(lambda v: lax.pcast(v, 'x', to='varying'), P(), P('x'))(m)
        jax.vmap(lambda v: lax.pcast(v, 'i', to='varying'), axis_name='i')(m)
        lax.pcast(m, 'x', to='varying')
    """,
    "loops and branches": """
        sm(lambda v: lax.scan(lambda c, a: (c + a, c * a), v[0], v), P('x'), P('x'))(m)
        sm(lambda v: lax.scan(lambda c, a: (c + lax.psum(a, 'x'), a), v[0], v)[0][None], P('x'), P('x'))(m)
        sm(lambda w, v: lax.scan(lambda c, _: (c + lax.pmean(v, 'x').sum(), None), w, None, 3)[0], (P(), P('x')), P())(f(8), m)
        sm(lambda v: lax.fori_loop(0, 3, lambda i, c: lax.ppermute(c, 'x', [(0, 1), (1, 0)]) + c, v), P('x'), P('x'))(m)
        sm(lambda v: lax.fori_loop(0, 4, lambda i, c: c * 2 + i, v), P(), P())(m)
        sm(lambda v: lax.while_loop(lambda c: lax.psum(c.sum(), ('x', 'y')) < 900, lambda c: c * 2 + 1, v), P('x', 'y'), P('x', 'y'))(abs(m))
        sm(lambda v: lax.while_loop(lambda c: c.sum() < 100, lambda c: c + 1, v), P('x'), P('x'))(m)
        sm(lambda v: lax.cond(v[0, 0] > 0, jnp.sin, jnp.cos, v), P('x'), P('x'))(m)
        sm(lambda v: lax.cond(lax.axis_index('x') > 1, lambda u: u * 2, lambda u: -u, v), P('x'), P('x'))(m)
        sm(lambda v: lax.cond(lax.psum(v.sum(), 'x') > 0, lambda u: lax.pmax(u, 'x'), lambda u: lax.pmin(u, 'x'), v), P('x'), P())(m)
        sm(lambda v: lax.switch(lax.axis_index('y'), [jnp.sin, jnp.cos], lax.pcast(v, 'y', to='varying')), P('x'), P('x', 'y'))(m)
        sm(lambda v: lax.map(lambda a: a * 2, v), P('x'), P('x'))(m)
        sm(lambda v: lax.scan(lambda c, a: (c + a, None), lax.pcast(jnp.zeros(8), 'x', to='varying'), v)[0], P('x'), P('x'))(m)
        sm(lambda v: jax.jit(lambda u: lax.psum(u, 'x') + u)(v), P('x'), P('x'))(m)
        sm(lambda v: (jax.jit(jnp.sin)(v[0]) + jax.jit(jnp.sin)(lax.psum(v[0], 'x')))[None], P('x'), P('x'))(m)
        sm(lambda v: jax.checkpoint(lambda u: lax.psum(jnp.sin(u), 'x'))(v), P('x'), P())(m)
    """,
    "jit and vmap outside": """
        jax.jit(sm(lambda v: lax.psum(v, 'x') + v, P('x'), P('x')))(m)
        jax.jit(lambda u: sm(lambda v: lax.psum(v, 'x'), P('x'), P())(u * 2).sum())(m)
        jax.vmap(sm(lambda v: lax.psum(v, 'x'), P('x'), P()))(f(3, 8, 2))
        jax.vmap(sm(lambda v: v * lax.axis_index('x'), P('x'), P('x')), in_axes=1, out_axes=2)(f(8, 3, 2))
        jax.vmap(sm(lambda w, v: v @ w, (P(), P('x')), P('x')), in_axes=(0, None))(f(3, 8), m)
        jax.vmap(sm(lambda v: lax.psum(v, 'x'), P('x'), P()), axis_name='i')(f(3, 8, 2))
        sm(lambda v: jax.vmap(lambda r: lax.psum(r, 'x') + r)(v), P('x'), P('x'))(m)
        sm(lambda v: jax.vmap(lambda w, r: w * r, (None, 0))(f(8), v), P('x'), P('x'))(m)
    """,
}
DERIVATIVES: dict[str, str] = {
    "derivatives from outside": """
        jax.grad(lambda u: sm(lambda v: lax.psum(jnp.sum(v ** 2), 'x'), P('x'), P())(u))(m)
        jax.grad(lambda u: jnp.sum(sm(lambda v: v * lax.psum(v, 'x'), P('x'), P('x'))(u) ** 2))(m)
        jax.grad(lambda w: sm(lambda w, v: lax.psum(jnp.sum(jnp.sin(v @ w)), 'x'), (P(), P('x')), P())(w, m))(f(8))
        jax.grad(lambda w: jnp.sum(sm(lambda w, v: jnp.sin(v @ w), (P(), P('x')), P('x'))(w, m)))(f(8))
        jax.grad(lambda w: jnp.sum(sm(lambda w: jnp.sin(w), P(), P())(w)))(f(8))
        jax.grad(lambda w: jnp.sum(sm(lambda w: jnp.sin(w), P(), P('x'))(w)))(f(8))
        jax.grad(lambda u: jnp.sum(sm(lambda v: lax.all_gather(v, 'x', tiled=True) ** 2, P('x'), P('x'))(u)))(m)
        jax.grad(lambda u: jnp.sum(sm(lambda v: lax.psum_scatter(v ** 2, 'x', tiled=True), P(), P('x'))(u) ** 2))(m)
        jax.grad(lambda u: jnp.sum(sm(lambda v: lax.all_to_all(v ** 2, 'x', 1, 0, tiled=True), P('x'), P(None, 'x'))(u) ** 2))(m)
        jax.grad(lambda u: jnp.sum(sm(lambda v: lax.ppermute(v ** 2, 'x', [(0, 1), (2, 0)]), P('x'), P('x'))(u) ** 2))(m)
        jax.grad(lambda u: jnp.sum(sm(lambda v: lax.pmean(v, 'x') * v, P('x', 'y'), P('x', 'y'))(u) ** 2))(m)
        jax.grad(lambda u: jnp.sum(un(lambda v: v * lax.psum(v, 'x'), P('x'), P('x'))(u) ** 2))(m)
        jax.grad(lambda w: un(lambda w, v: lax.psum(jnp.sum(jnp.sin(v @ w)), 'x'), (P(), P('x')), P())(w, m))(f(8))
        jax.jit(jax.grad(lambda w: sm(lambda w, v: lax.pmean(jnp.sum(jnp.sin(v @ w)), ('x', 'y')), (P(), P('x', 'y')), P())(w, m)))(f(4))
        jax.value_and_grad(lambda w: sm(lambda w, v: lax.pmean(jnp.sum(jnp.sin(v @ w)), 'x'), (P(), P('x')), P())(w, m))(f(8))
        jax.jvp(sm(lambda v: v * lax.psum(v, 'x'), P('x'), P('x')), (m,), (m + 1,))
        jax.vjp(sm(lambda v: v * lax.psum(v, 'x'), P('x'), P('x')), m)[1](m + 1)
        jax.linearize(sm(lambda v: jnp.sin(v), P('x'), P('x')), m)[1](m)
        jax.hessian(lambda w: sm(lambda w, v: lax.psum(jnp.sum(jnp.sin(v @ w)), 'x'), (P(), P('x')), P())(w, m))(f(8))
        jax.vmap(jax.grad(lambda w: sm(lambda w, v: lax.psum(jnp.sum(jnp.sin(v @ w)), 'x'), (P(), P('x')), P())(w, m)))(f(3, 8))
        jax.grad(lambda w: sm(lambda w, v: lax.psum(lax.scan(lambda c, a: (jnp.sin(c * w + a), None), v[0], v)[0].sum(), 'x'), (P(), P('x')), P())(w, m))(f(8))
        jax.grad(lambda w: sm(lambda w, v: lax.scan(lambda c, _: (c + lax.pmean(jnp.sin(v * c).sum(), 'x'), None), w, None, 3)[0].sum(), (P(), P('x')), P())(w, m))(f(8))
        jax.grad(lambda w: sm(jax.checkpoint(lambda w, v: lax.psum(jnp.sum(jnp.sin(v @ w)), 'x')), (P(), P('x')), P())(w, m))(f(8))
        jax.grad(lambda w: jnp.sum(sm(lambda v: jnp.sin(v @ w), P('x'), P('x'))(m)))(f(8))
    """,
    "derivatives inside": """
        sm(lambda w, v: jax.grad(lambda w: jnp.sum(v @ w))(w), (P(), P('x')), P())(f(8), m)
        sm(lambda w, v: jax.grad(lambda w: jnp.sum(jnp.sin(v @ w)))(w), (P(), P('x')), P())(f(8), m)
        sm(lambda w, v: jax.grad(lambda w: lax.pmean(jnp.sum(jnp.sin(v @ w)), 'x'))(w), (P(), P('x')), P())(f(8), m)
        sm(lambda w, v: jax.grad(lambda w: jnp.sum(v @ w))(lax.pcast(w, 'x', to='varying'))[None], (P(), P('x')), P('x'))(f(8), m)
        sm(lambda w, v: jax.grad(lambda w: jnp.sum(jnp.sin(v @ w)))(w), (P(), P('x', 'y')), P())(f(4), m)
        sm(lambda w, v: jax.grad(lambda w: jnp.sum(jnp.sin(v @ w)))(w), (P('y'), P('x', 'y')), P('y'))(f(8), m)
        sm(lambda v: jax.grad(lambda u: lax.psum(jnp.sum(u ** 2), 'x'))(v), P('x'), P('x'))(m)
        sm(lambda v: jax.grad(lambda u: jnp.sum(u ** 2))(v), P('x'), P('x'))(m)
        sm(lambda v: jax.grad(lambda u: jnp.sum(lax.psum(u, 'x') * u))(v), P('x'), P('x'))(m)
        sm(lambda v: jax.grad(lambda u: jnp.sum(lax.all_gather(u, 'x') ** 2))(v), P('x'), P('x'))(m)
        sm(lambda v: jax.grad(lambda u: jnp.sum(lax.ppermute(u, 'x', [(0, 1)]) * v))(v), P('x'), P('x'))(m)
        sm(lambda v: jax.grad(lambda u: jnp.sum(u * lax.axis_index('x')))(v), P(), P())(m)
        sm(lambda w, v: jax.value_and_grad(lambda w: lax.pmean(jnp.mean((v @ w) ** 2), 'x'))(w), (P(), P('x')), P())(f(8), m)
        sm(lambda w, v: jax.jvp(lambda w: v @ w, (w,), (w,))[1], (P(), P('x')), P('x'))(f(8), m)
        sm(lambda w, v: jax.vjp(lambda w: v @ w, w)[1](v @ w)[0], (P(), P('x')), P())(f(8), m)
        sm(lambda w, v: jax.grad(lambda w: lax.scan(lambda c, a: (jnp.sin(c * w + a), None), v[0], v)[0].sum())(w), (P(), P('x')), P())(f(8), m)
        sm(lambda w, v: jax.grad(lambda w: lax.scan(lambda c, a: (c * w, jnp.sum(c * a)), w, v)[1].sum())(w), (P(), P('x')), P())(f(8), m)
        sm(lambda w, v: jax.grad(lambda w: jnp.sum(lax.cond(v[0, 0] > 0, jnp.sin, jnp.cos, lax.pcast(w, 'x', to='varying'))))(w), (P(), P('x')), P())(f(8), m)
        sm(lambda w, v: jax.grad(lambda w: jnp.sum(lax.cond(w[0] > 0, lambda w: v @ w, lambda w: v @ jnp.sin(w), w)))(w), (P(), P('x')), P())(f(8), m)
        sm(lambda w, v: jax.grad(lambda w: jnp.sum(jax.jit(lambda w, v: jnp.sin(v @ w))(w, v)))(w), (P(), P('x')), P())(f(8), m)
        sm(lambda w, v: jax.grad(jax.checkpoint(lambda w: jnp.sum(jnp.sin(v @ w))))(w), (P(), P('x')), P())(f(8), m)
        sm(lambda w, v: jax.grad(lambda w: jnp.sum(jax.vmap(lambda r: jnp.sin(r @ w))(v)))(w), (P(), P('x')), P())(f(8), m)
        sm(lambda w, v: jax.hessian(lambda w: jnp.sum(jnp.sin(v @ w)))(w), (P(), P('x')), P())(f(8), m)
        sm(lambda w, v: lax.fori_loop(0, 3, lambda i, w: w - 0.1 * jax.grad(lambda w: lax.pmean(jnp.mean((v @ w) ** 2), 'x'))(w), w), (P(), P('x')), P())(f(8) / 9, m / 9)
        jax.grad(lambda w: jnp.sum(sm(lambda w, v: jax.grad(lambda w: jnp.sum(jnp.sin(v @ w)))(w), (P(), P('x')), P())(w, m)))(f(8))
        jax.jit(sm(lambda w, v: jax.grad(lambda w: jnp.sum(jnp.sin(v @ w)))(w), (P(), P('x')), P()))(f(8), m)
        sm(lambda w, v: jax.grad(lambda w: jnp.sum(jax.nn.relu(v @ w)))(w), (P(), P('x')), P())(f(8), m)
        sm(lambda w, v: jax.grad(lambda w: jnp.sum(jax.nn.softmax(v * w) * v))(w), (P(), P('x')), P())(f(8) / 9, m / 9)
        sm(lambda w, v: jax.grad(lambda w: jax.nn.logsumexp(v * w))(w), (P(), P('x')), P())(f(8) / 9, m / 9)
        sm(lambda w, v: jax.grad(lambda w: jnp.linalg.norm(v * w))(w), (P(), P('x')), P())(f(8), m)
        sm(lambda w, v: jax.grad(lambda w: jnp.sum(jnp.linalg.solve(9 * jnp.eye(8) + jnp.outer(w, w), v.T)))(w), (P(), P('x')), P())(f(8) / 9, m)
        sm(lambda w, v: jax.grad(lambda w: jnp.sum(lax.dynamic_index_in_dim(w, lax.axis_index('x')) * v))(w), (P(), P('x')), P())(f(8), m)
        sm(lambda w, v: jax.grad(lambda w: jnp.sum(w[jnp.argmax(v, 0)]))(w), (P(), P('x')), P())(f(8), m)
        sm(lambda w, v: jax.grad(lambda w: jnp.sum(v.at[0].set(w) ** 2))(w), (P(), P('x')), P())(f(8), m)
        sm(lambda w, v: jax.grad(lambda w: jnp.sum(jnp.where(v > 0, w, w ** 2)))(w), (P(), P('x')), P())(f(8), m)
        sm(lambda w, v: jax.grad(lambda w: jnp.sum(jnp.concatenate([v, w[None]]) ** 2))(w), (P(), P('x')), P())(f(8), m)
        sm(lambda w, v: jax.grad(lambda w: jnp.sum(jnp.einsum('ij,jk->ik', v, w) ** 2))(w), (P(), P('x')), P())(f(8, 2), m)
        sm(lambda w, v: jax.grad(lambda w: jnp.sum(lax.stop_gradient(w) * w * v))(w), (P(), P('x')), P())(f(8), m)
        sm(lambda w, v: jax.jacrev(lambda w: lax.psum(v @ w, 'x'))(w), (P(), P('x')), P())(f(8), m)
        sm(lambda w, v: jax.jacfwd(lambda w: lax.psum(jnp.sin(v @ w), 'x'))(w), (P(), P('x')), P())(f(8), m)
        (lambda g: (g.defvjp(lambda x, y: (x * y, (x, y)), lambda r, ct: (ct * r[1], ct * r[0])), sm(lambda w, v: jax.grad(lambda v: jnp.sum(g(v, v)))(v[0])[None], (P(), P('x')), P('x'))(f(8), m))[1])(jax.custom_vjp(lambda x, y: x * y))
        (lambda g: (g.defvjp(lambda x, y: (x * y, (x, y)), lambda r, ct: (ct * r[1], ct * r[0])), sm(lambda w, v: jax.grad(lambda w: jnp.sum(g(w, v[0])))(w), (P(), P('x')), P())(f(8), m))[1])(jax.custom_vjp(lambda x, y: x * y))
        (lambda g: (g.defjvp(lambda p, t: (g(*p), t[0] * p[1] * 3)), sm(lambda w, v: jax.grad(lambda w: jnp.sum(g(w, v[0])))(w), (P(), P('x')), P())(f(8), m))[1])(jax.custom_jvp(lambda x, y: x * y))
        sm(lambda w, v: jax.grad(lambda w: lax.scan(jax.checkpoint(lambda c, a: (jnp.sin(c * w + a), None)), v[0], v)[0].sum())(w), (P(), P('x')), P())(f(8), m)
        sm(lambda w, v: jax.grad(lambda w: lax.fori_loop(0, 3, lambda i, c: jnp.sin(c * w), v[0]).sum())(w), (P(), P('x')), P())(f(8), m)
        sm(lambda w, v: jax.grad(lambda w: lax.scan(lambda c, a: (jnp.sin(c), c * a), lax.pcast(w, 'x', to='varying'), v)[1].sum())(w), (P(), P('x')), P())(f(8), m)
        sm(lambda w, v: jax.grad(lambda w: jnp.sum(lax.map(lambda a: jnp.sin(a * w), v)))(w), (P(), P('x')), P())(f(8), m)
        sm(lambda w, v: jax.grad(lambda w: jnp.sum(lax.all_gather(w, 'x') * v[:, None, :1]))(w), (P(), P('x')), P())(f(8), m)
        sm(lambda w, v: jax.grad(lambda w: jnp.sum(lax.psum_scatter(w, 'x', tiled=True) * v[0, :2]))(w), (P(), P('x')), P())(f(8), m)
        sm(lambda w, v: jax.grad(lambda w: lax.psum(jnp.sum(v @ w), ('x', 'y')))(w), (P(), P('x', 'y')), P())(f(4), m)
        sm(lambda w, v: jax.grad(lambda w: lax.psum(lax.pmean(jnp.sum(jnp.sin(v @ w)), 'x'), 'y'))(w), (P(), P('x', 'y')), P())(f(4), m)
        un(lambda w, v: jax.grad(lambda w: jnp.sum(v @ w))(w)[None], (P(), P('x')), P('x'))(f(8), m)
        un(lambda v: jax.grad(lambda u: lax.psum(jnp.sum(u ** 2), 'x'))(v), P('x'), P('x'))(m)
        un(lambda w, v: lax.psum(jax.grad(lambda w: jnp.sum(jnp.sin(v @ w)))(w), 'x'), (P(), P('x')), P())(f(8), m)
        un(lambda w, v: jax.grad(lambda w: lax.pmean(jnp.sum(jnp.sin(v @ w)), 'x'))(w)[None], (P(), P('x')), P('x'))(f(8), m)
    """,
}


@functools.cache
def _mesh(lib: Any) -> Any:
    kinds = getattr(lib.sharding, "AxisType", None)
    options = {} if kinds is None else {"axis_types": (kinds.Auto,) * 2}
    return lib.make_mesh((4, 2), ("x", "y"), **options)


def _names(lib: Any) -> dict[str, Any]:
    mesh = _mesh(lib)

    def over(fun: Any, in_specs: Any, out_specs: Any, **options: Any) -> Any:
        return lib.shard_map(fun, mesh=mesh, in_specs=in_specs, out_specs=out_specs, **options)

    known = names(lib)
    return known | {
        "P": lib.sharding.PartitionSpec,
        "mesh": mesh,
        "sm": over,
        "un": functools.partial(over, check_vma=False),
        "m": known["f"](8, 8),
    }


def _case(group: str, text: str, tolerance: float | None) -> Case:
    def run(lib: Any) -> Any:
        with lib.disable_jit(False), lib.threefry_partitionable(True):
            return lib.tree.leaves(eval(text, _names(lib)))

    return Case(group, text, run, tolerance)


def _cases() -> Iterable[Case]:
    for groups, tolerance in ((VALUES, None), (DERIVATIVES, 1e-4)):
        for group, text in groups.items():
            for line in lines(text):
                yield _case(group, line, tolerance)


TOPIC = Topic("shard_map", _cases())


# Each of these compiles a program of its own; the unit tests differentiate inside, too.
LONG = {"derivatives inside", "derivatives from outside"}


@pytest.mark.parametrize(
    "group",
    [pytest.param(g, marks=pytest.mark.full if g in LONG else ()) for g in TOPIC.groups],
)
def test_as_jax(group: str) -> None:
    TOPIC.check(group, kiln)
