"""Transformations give jax's values, types and kinds of errors."""

from __future__ import annotations

import pytest

import kiln
from tests.differential.expressions import cases, lines
from tests.differential.oracle import Topic

GROUPS: dict[str, str] = {
    "grad": """
        jax.grad(lambda x: x ** 2)(3.0)
        jax.grad(lambda x: x ** 2)(f())
        jax.grad(lambda x: jnp.sum(jnp.sin(x)))(f(2, 3))
        jax.grad(lambda x, y: jnp.sum(x * y), argnums=1)(f(3), f(3, seed='y'))
        jax.grad(lambda x, y: jnp.sum(x * y), argnums=(0, 1))(f(3), f(3, seed='y'))
        jax.grad(lambda x, y: jnp.sum(x * y), argnums=(-1,))(f(3), f(3, seed='y'))
        jax.grad(lambda x, y: jnp.sum(x * y), argnums=[1, 0])(f(3), f(3, seed='y'))
        jax.grad(lambda d: jnp.sum(d['a'] * d['b'][0]))({'a': f(3), 'b': (f(3, seed='y'), f(2))})
        jax.grad(lambda x: (jnp.sum(x), {'aux': x * 2}), has_aux=True)(f(3))
        jax.grad(lambda x, k: jnp.sum(x) * k)(f(3), k=2)
        jax.grad(jax.grad(lambda x: x ** 4))(2.0)
        jax.grad(jax.jit(jax.grad(lambda x: jnp.sin(x) * x)))(f())
        jax.jit(jax.grad(lambda x: jnp.sum(x ** 3)))(f(3))
        jax.grad(lambda x: jnp.real(x * jnp.conj(x)))(z())
        jax.grad(lambda x: x * x, holomorphic=True)(z())
        jax.grad(lambda x: jnp.sum(x * x), holomorphic=True)(f(2))
        jax.grad(lambda x: jnp.sum(x.astype(np.float32)))(bf(3))
        jax.grad(lambda x: jnp.sum(x.astype(bf(1).dtype) * 3).astype(np.float32))(f(3))
        jax.grad(lambda x: jnp.sum(x))(i(3))
        jax.grad(lambda x: jnp.sum(x).astype(np.float32), allow_int=True)(i(3))
        jax.grad(lambda x: x)(f(3))
        jax.grad(lambda x: (x, x))(f())
        jax.grad(lambda x: 1)(f())
        jax.grad(lambda x: 1.0)(f())
        jax.grad(lambda x: z())(f())
        jax.grad(lambda x: x, argnums=1)(f())
        jax.grad(lambda x: x, argnums='x')(f())
        jax.grad(lambda x: x, has_aux=True)(f())
        jax.grad(3)
        jax.grad(lambda x: x)('a')
        jax.grad(lambda x: jnp.sum(jnp.where(x > 0, jnp.sqrt(x), 0.0)))(arr([1.0, 4.0], 'f4'))
        jax.grad(lambda x: jnp.sum(jnp.sort(x) * arr([1., 2., 3.], 'f4')))(arr([3., 1., 2.], 'f4'))
        jax.grad(lambda x: jnp.max(x))(arr([1., 3., 3.], 'f4'))
        jax.grad(lambda x: jnp.prod(x))(arr([2., 0., 3.], 'f4'))
        jax.grad(lambda x: jnp.sum(jnp.abs(x)))(arr([-1., 0., 2.], 'f4'))
        jax.grad(lambda x: jnp.sum(jnp.maximum(x, 0)))(arr([-1., 0., 2.], 'f4'))
        jax.grad(lambda x: jnp.sum(jnp.clip(x, -1, 1)))(arr([-1., 0., 2.], 'f4'))
        jax.grad(lambda x: jnp.sum(x ** 0))(arr([0., 2.], 'f4'))
        jax.grad(lambda x: jnp.sum(x ** 1.5))(arr([0., 2.], 'f4'))
        jax.grad(lambda x, y: jnp.sum(x ** y), argnums=(0, 1))(arr([0., 2.], 'f4'), arr([2., 0.], 'f4'))
        jax.grad(lambda x: jnp.linalg.norm(x))(f(3))
        jax.grad(lambda x: jnp.sum(jnp.cumprod(x)))(f(4))
        jax.grad(lambda x: jnp.var(x))(f(5))
        jax.grad(lambda x: jnp.sum(x[jnp.array([0, 0, 2])] * f(3)))(f(4))
        jax.grad(lambda x: jnp.sum(x.at[1].set(5.0) ** 2))(f(4))
        jax.grad(lambda x: jnp.sum(x.at[jnp.array([1, 1])].multiply(x[:2])))(f(4))
    """,
    "value_and_grad": """
        jax.value_and_grad(lambda x: jnp.sum(x ** 2))(f(3))
        jax.value_and_grad(lambda x: (jnp.sum(x), x), has_aux=True)(f(3))
        jax.value_and_grad(lambda x, y: x * y, argnums=(0, 1))(2.0, 3.0)
        jax.value_and_grad(lambda x: x.astype(np.int32))(f())
    """,
    "jvp": """
        jax.jvp(jnp.sin, (f(3),), (f(3, seed='t'),))
        jax.jvp(lambda x, y: {'a': x * y}, (f(3), f(3)), (f(3), f(3)))
        jax.jvp(lambda x: (x, jnp.zeros(2)), (f(),), (f(),))
        jax.jvp(lambda x: (x, jnp.sum(x)), (f(3),), (f(3),), has_aux=True)
        jax.jvp(jnp.sin, (2.0,), (1.0,))
        jax.jvp(jnp.sin, [f()], [f()])
        jax.jvp(jnp.sin, f(), f())
        jax.jvp(jnp.sin, (f(3),), (f(2),))
        jax.jvp(jnp.sin, (f(3),), (i(3),))
        jax.jvp(jnp.sin, (f(3),), (f(3), f(3)))
        jax.jvp(lambda x: x, (i(3),), (i(3),))
        jax.jvp(lambda x: x * 2.0, (i(3),), (np.zeros(3, jax.dtypes.float0),))
        jax.jvp(lambda x: jnp.floor(x), (f(3),), (f(3),))
        jax.jvp(lambda x: jnp.argmax(x) * 1.0, (f(3),), (f(3),))
        jax.jvp(lambda x: lax.while_loop(lambda a: a < 10, lambda a: a * 2, x), (1.5,), (1.0,))
        jax.jvp(lambda x: lax.cond(x > 0, jnp.sin, jnp.cos, x), (f(),), (1.0,))
        jax.jvp(lambda x: lax.scan(lambda c, a: (c * a, c), 1.0, x), (f(4),), (f(4, seed='t'),))
        jax.jvp(lambda x: jax.jvp(jnp.tanh, (x,), (x,))[1], (f(3),), (f(3),))
        jax.jvp(jax.grad(lambda x: jnp.sum(x ** 3)), (f(3),), (f(3),))
    """,
    "vjp": """
        jax.vjp(jnp.sin, f(3))[1](f(3, seed='c'))
        jax.vjp(lambda x, y: (x @ y, x), f(2, 3), f(3))[1]((f(2), f(2, 3)))
        jax.vjp(lambda x: {'a': x, 'b': 2 * x}, f(3))[1]({'a': f(3), 'b': f(3)})
        jax.vjp(lambda x: (x * 2, x.shape[0]), f(3), has_aux=True)[1](f(3))
        jax.vjp(jnp.sin, f(3))[1](f(2))
        jax.vjp(jnp.sin, f(3))[1]((f(3),))
        jax.vjp(jnp.sin, f(3))[1](i(3))
        jax.vjp(jnp.sin, 1.0)[1](1.0)
        jax.vmap(jax.vjp(jnp.sin, f(3))[1])(jnp.eye(3))
        jax.vjp(lambda x: x * z(), f())[1](z())
        jax.vjp(lambda x, k: x * k, f(), i())[1](f())[0]
    """,
    "linearize": """
        jax.linearize(jnp.sin, f(3))[1](f(3, seed='t'))
        jax.linearize(lambda x, y: (x * y, x), f(3), f(3))[1](f(3), f(3, seed='t'))
        jax.linearize(lambda x: lax.scan(lambda c, a: (c * a, None), 1.0, x)[0], f(4))[1](f(4))
        jax.linearize(jnp.sin, f(3))[1](f(2))
        jax.linearize(jnp.sin, f(3))[1](i(3))
    """,
    "linear_transpose": """
        jax.linear_transpose(lambda x: 2 * x, f(3))(f(3))
        jax.linear_transpose(lambda x: f(2, 3) @ x, f(3))(f(2))
        jax.linear_transpose(lambda x, y: x + 3 * y, f(3), f(3))(f(3))
        jax.linear_transpose(lambda x: x[1:], f(3))(f(2))
        jax.linear_transpose(lambda x: x.astype(np.float16), f(3))(f16(3))
    """,
    "jacobians": """
        jax.jacfwd(jnp.sin)(f(3))
        jax.jacrev(jnp.sin)(f(3))
        jax.jacfwd(lambda x: f(2, 3) @ x)(f(3))
        jax.jacrev(lambda x: {'a': x ** 2, 'b': jnp.sum(x)})(f(2))
        jax.jacfwd(lambda x, y: x[:, None] * y, argnums=(0, 1))(f(2), f(3))
        jax.jacrev(lambda d: d['a'] * d['b'])({'a': f(2), 'b': f()})
        jax.jacrev(lambda x: (x * 2, x), has_aux=True)(f(2))
        jax.jacfwd(lambda x: x * 2.0)(i(3))
        jax.hessian(lambda x: jnp.sum(x ** 3))(f(3))
        jax.hessian(lambda x, y: jnp.sum(x * x * y), argnums=(0, 1))(f(2), f(2))
        jax.hessian(lambda d: jnp.sum(d['a'] ** 2) * d['b'])({'a': f(2), 'b': f()})
        jax.jit(jax.hessian(lambda x: jnp.prod(jnp.sin(x))))(f(3))
        jax.jacrev(lambda x: x * x, holomorphic=True)(z(2))
        jax.jacfwd(lambda x: x)(f(2, 2))
    """,
    "vmap": """
        jax.vmap(lambda x: x + 1)(f(3))
        jax.vmap(lambda x, y: x @ y)(f(2, 3), f(2, 3))
        jax.vmap(lambda x, y: x @ y, in_axes=(None, 1))(f(2, 3), f(3, 4))
        jax.vmap(lambda x, y: x @ y, in_axes=(0, None), out_axes=1)(f(4, 2), f(2, 3))
        jax.vmap(lambda x: (x, 2 * x), out_axes=(0, 1))(f(2, 3))
        jax.vmap(lambda x: x, in_axes=-1)(f(2, 3))
        jax.vmap(lambda x: x, out_axes=-1)(f(2, 3))
        jax.vmap(lambda d: d['a'] + d['b'], in_axes=({'a': 0, 'b': None},))({'a': f(3), 'b': f()})
        jax.vmap(lambda d, y: d['a'] + d['b'] + y, in_axes=(0, None))({'a': f(3), 'b': f(3)}, f())
        jax.vmap(lambda x: 1.0)(f(3))
        jax.vmap(lambda x: jnp.ones(2), out_axes=1)(f(3))
        jax.vmap(lambda x: (x, 3), out_axes=(0, None))(f(3))
        jax.vmap(lambda x, k=2: x * k)(f(3), k=f(3))
        jax.vmap(lambda x: x, axis_size=3, in_axes=None)(f(2))
        jax.vmap(jax.vmap(lambda x, y: x * y, (None, 0)), (0, None))(f(2), f(3))
        jax.vmap(lambda x: x)(f())
        jax.vmap(lambda x, y: x)(f(2), f(3))
        jax.vmap(lambda x: x, in_axes=1)(f(2))
        jax.vmap(lambda x: x, in_axes=(0, 0))(f(2))
        jax.vmap(lambda x: x, in_axes=None)(f(2))
        jax.vmap(lambda x: x, out_axes=None)(f(2))
        jax.vmap(lambda x: x, out_axes=5)(f(2))
        jax.vmap(lambda x: x, in_axes='a')(f(2))
        jax.vmap(lambda x: x, in_axes=({'a': 0},))({'b': f(2)})
        jax.vmap(lambda x: x)(1.0)
        jax.vmap(lambda x: x)()
        jax.vmap(3)
        jax.vmap(lambda x: jnp.where(x > 0, x, 0))(f(3))
        jax.vmap(lambda x, k: x[k])(f(3, 4), arr([0, 3, 9]))
        jax.vmap(lambda x, k: lax.dynamic_slice(x, (k,), (2,)))(f(3, 4), arr([0, 3, 1]))
        jax.vmap(lambda x, k: x.at[k].set(0.0))(f(3, 4), arr([0, 3, 9]))
        jax.vmap(lambda x, k: x.at[k].add(1.0), in_axes=(None, 0))(f(4), arr([0, 3]))
        jax.vmap(lambda x, k: lax.dynamic_update_slice(x, jnp.ones(2), (k,)))(f(3, 4), arr([0, 3, 1]))
        jax.vmap(lambda x: jnp.sort(x))(f(2, 4))
        jax.vmap(lambda x: jnp.argmax(x, axis=-1))(f(2, 4, 3))
        jax.vmap(lambda x: jnp.cumsum(x), in_axes=1)(f(4, 2))
        jax.vmap(lambda x: jnp.concatenate([x, f(2)]))(f(3, 1))
        jax.vmap(lambda x: x.reshape(3, 2).T, in_axes=1, out_axes=2)(f(6, 2))
        jax.vmap(lambda x: jnp.einsum('ij,jk->ki', x, f(3, 2)))(f(2, 4, 3))
        jax.vmap(lambda p, x: lax.cond(p, jnp.sin, jnp.cos, x))(arr([True, False]), f(2))
        jax.vmap(lambda p, x: lax.cond(p, jnp.sin, jnp.cos, x), in_axes=(None, 0))(True, f(2))
        jax.vmap(lambda k, x: lax.switch(k, [jnp.sin, jnp.cos, jnp.tan], x))(arr([0, 5, 1]), f(3))
        jax.vmap(lambda x: lax.while_loop(lambda a: a < 10, lambda a: a * 2, x))(arr([1., 3., 20.], 'f4'))
        jax.vmap(lambda n: lax.fori_loop(0, n, lambda i, c: c + i, 0))(arr([0, 3, 5]))
        jax.vmap(lambda x, n: lax.fori_loop(0, n, lambda i, c: c + x, 0.0), (0, None))(f(3), 2)
        jax.vmap(lambda x: lax.scan(lambda c, a: (c + a, c), 0.0, x))(f(2, 4))
        jax.vmap(lambda c, x: lax.scan(lambda c, a: (c * a, a), c, x), in_axes=(0, None))(f(2), f(4))
        jax.vmap(lambda x: lax.map(lambda a: a * x, f(3)))(f(2))
        jax.vmap(lambda x: jnp.linalg.norm(x))(f(2, 3))
        jax.vmap(lambda x: lax.reduce(x, 0.0, lambda a, b: a + b, (0,)))(f(2, 3))
        jax.vmap(lambda x, k: lax.conv_general_dilated(x, k, (1,), 'SAME'))(f(2, 1, 2, 5), f(2, 3, 2, 2))
        jax.vmap(lambda x: lax.reduce_window(x, 0.0, lax.add, (2,), (1,), 'VALID'))(f(2, 5))
        jax.vmap(lambda x: lax.top_k(x, 2))(f(3, 5))
        jax.vmap(lambda x: lax.pad(x, 0.0, [(1, 2, 0)]))(f(2, 3))
        jax.vmap(lambda x, y: lax.clamp(x, y, 2.0), in_axes=(0, None))(f(3), f(4))
        jax.vmap(lambda p, x, y: lax.select(p, x, y))(b(3), f(3, 2), f(3, 2))
        jax.vmap(lambda x: jnp.nonzero(x, size=2)[0])(arr([[0, 1, 1], [1, 0, 1]]))
    """,
    "custom_jvp": """
        (lambda g: (g.defjvp(lambda p, t: (g(*p), 5.0 * t[0])), jax.grad(g)(2.0))[1])(jax.custom_jvp(lambda x: x ** 2))
        (lambda g: (g.defjvps(lambda t, ans, x, y: t * y, lambda t, ans, x, y: t * x), jax.grad(g, (0, 1))(2.0, 3.0))[1])(jax.custom_jvp(lambda x, y: x * y))
        (lambda g: (g.defjvps(lambda t, ans, x, y: t * y, None), jax.grad(g, (0, 1))(2.0, 3.0))[1])(jax.custom_jvp(lambda x, y: x * y))
        (lambda g: (g.defjvp(lambda p, t: (g(*p), 5.0 * t[0])), jax.vmap(jax.grad(g))(f(3)))[1])(jax.custom_jvp(lambda x: x ** 2))
        (lambda g: (g.defjvp(lambda p, t: (g(*p), 5.0 * t[0])), jax.jit(g)(2.0))[1])(jax.custom_jvp(lambda x: x ** 2))
        (lambda g: (g.defjvp(lambda p, t: (g(*p), 5.0 * t[0] * p[0])), jax.hessian(g)(2.0))[1])(jax.custom_jvp(lambda x: x ** 2))
        (lambda g: (g.defjvp(lambda p, t: (g(*p), t[0][:1])), jax.grad(lambda x: jnp.sum(g(x)))(f(3)))[1])(jax.custom_jvp(lambda x: x ** 2))
        jax.grad(jax.custom_jvp(lambda x: x ** 2))(2.0)
        functools.partial(jax.custom_jvp, nondiff_argnums=(0,))(lambda h, x: h(x))(jnp.sin, 2.0)
    """,
    "custom_vjp": """
        (lambda g: (g.defvjp(lambda x: (g(x), x), lambda r, ct: (7.0 * ct * r,)), jax.grad(g)(2.0))[1])(jax.custom_vjp(lambda x: x ** 2))
        (lambda g: (g.defvjp(lambda x: (g(x), x), lambda r, ct: (7.0 * ct * r,)), jax.vmap(jax.grad(g))(f(3)))[1])(jax.custom_vjp(lambda x: x ** 2))
        (lambda g: (g.defvjp(lambda x: (g(x), x), lambda r, ct: (7.0 * ct * r,)), jax.jit(jax.grad(g))(2.0))[1])(jax.custom_vjp(lambda x: x ** 2))
        (lambda g: (g.defvjp(lambda x: (g(x), x), lambda r, ct: (7.0 * ct * r,)), jax.grad(jax.grad(g))(2.0))[1])(jax.custom_vjp(lambda x: x ** 2))
        (lambda g: (g.defvjp(lambda x: (g(x), x), lambda r, ct: (7.0 * ct * r,)), jax.jvp(g, (2.0,), (1.0,)))[1])(jax.custom_vjp(lambda x: x ** 2))
        (lambda g: (g.defvjp(lambda x, y: (x * y, (x, y)), lambda r, ct: (ct * r[1], None)), jax.grad(g, (0, 1))(2.0, 3.0))[1])(jax.custom_vjp(lambda x, y: x * y))
        (lambda g: (g.defvjp(lambda x: (x, None), lambda r, ct: (ct, ct)), jax.grad(g)(2.0))[1])(jax.custom_vjp(lambda x: x))
        (lambda g: (g.defvjp(lambda x: (x, None), lambda r, ct: ct), jax.grad(g)(2.0))[1])(jax.custom_vjp(lambda x: x))
        (lambda g: (g.defvjp(lambda x: x, lambda r, ct: (ct,)), jax.grad(g)(2.0))[1])(jax.custom_vjp(lambda x: x))
        (lambda g: (g.defvjp(lambda h, x: (h(x), x), lambda h, r, ct: (ct * 3.0,)), jax.grad(g, 1)(jnp.sin, 2.0))[1])(functools.partial(jax.custom_vjp, nondiff_argnums=(0,))(lambda h, x: h(x)))
        jax.grad(jax.custom_vjp(lambda x: x ** 2))(2.0)
    """,
    "checkpoint": """
        jax.grad(jax.checkpoint(lambda x: jnp.sum(jnp.sin(jnp.sin(x)))))(f(3))
        jax.grad(lambda x: jax.remat(lambda a, b: jnp.sum(a * b))(x, x))(f(3))
        jax.grad(jax.checkpoint(lambda x: jnp.sum(jnp.sin(x) @ f(3, 2)), policy=jax.checkpoint_policies.dots_saveable))(f(3))
        jax.grad(jax.checkpoint(lambda x, n: jnp.sum(x ** n), static_argnums=1))(f(3), 3)
        jax.jit(jax.vmap(jax.grad(jax.checkpoint(jnp.tanh))))(f(3))
        jax.checkpoint(lambda x: x * 2)(f(3))
        jax.jvp(jax.checkpoint(jnp.sin), (f(3),), (f(3),))
        jax.hessian(jax.checkpoint(lambda x: jnp.sum(x ** 3)))(f(2))
    """,
    "reverse mode of control flow": """
        jax.grad(lambda x: lax.scan(lambda c, a: (c * a, None), 1.0, x)[0])(f(4))
        jax.grad(lambda x: jnp.sum(lax.scan(lambda c, a: (jnp.sin(c + a), c * a), 0.5, x)[1]))(f(4))
        jax.grad(lambda w: lax.scan(lambda c, a: (c * w + a, None), 0.0, f(4))[0])(0.5)
        jax.grad(lambda x: jnp.sum(lax.scan(lambda c, a: (c + a, c), x[0], x, reverse=True, unroll=2)[1] ** 2))(f(5))
        jax.grad(lambda x: lax.fori_loop(0, 3, lambda i, c: c * x, 1.0))(2.0)
        jax.grad(lambda x: lax.fori_loop(0, jnp.int32(3), lambda i, c: c * x, 1.0))(2.0)
        jax.grad(lambda x: lax.while_loop(lambda c: c < 10, lambda c: c * 2, x))(1.0)
        jax.grad(lambda x: lax.cond(x > 0, lambda a: a ** 2, lambda a: -a, x))(2.0)
        jax.grad(lambda x: lax.cond(x > 0, lambda: x ** 2, lambda: -x))(-2.0)
        jax.grad(lambda x: lax.switch(1, [jnp.sin, jnp.cos], x))(2.0)
        jax.jit(jax.grad(lambda x: jnp.sum(lax.map(lambda a: a ** 2, x))))(f(3))
        jax.grad(lambda x: jnp.sum(jax.vmap(lambda a: lax.cond(a > 0, jnp.sin, jnp.cos, a))(x)))(f(4))
        jax.grad(lambda x: jnp.sum(lax.associative_scan(jnp.multiply, x)))(f(5))
        jax.hessian(lambda x: lax.scan(lambda c, a: (c * a * x[0], None), 1.0, x)[0])(f(3))
        jax.grad(lambda x: jnp.sum(lax.scan(lambda c, a: (c, lax.cond(a > 0, jnp.sin, jnp.cos, a)), 0, x)[1]))(f(4))
        jax.grad(lambda x: lax.scan(lambda c, a: ((c[0] * a, c[1] + 1), None), (1.0, 0), x)[0][0])(f(4))
        jax.grad(lambda x: lax.scan(lambda c, k: (c * x[k], None), 1.0, jnp.arange(3))[0])(f(3))
        jax.grad(lambda x: jnp.sum(jnp.where(x > 0, lax.stop_gradient(x) * x, x)))(f(4))
    """,
    "make_jaxpr and eval_shape": """
        jax.make_jaxpr(lambda x: x + 1)(f(3)).jaxpr.outvars[0].aval.shape[0]
        [o.shape[0] for o in jax.tree.leaves(jax.eval_shape(lambda x: {'a': x, 'b': x[1:]}, f(3)))]
        jax.eval_shape(lambda x: x @ x, f(2, 3)).shape
        jax.core.eval_jaxpr(jax.make_jaxpr(jnp.sin)(f(3)).jaxpr, [], f(3))
    """,
    "jit": """
        jax.jit(lambda x, n: x * n, static_argnums=1)(f(3), 2)
        jax.jit(lambda x, *, n: x * n, static_argnames='n')(f(3), n=2)
        jax.jit(lambda x: {'a': (x, [x, None])})(f(3))
        jax.jit(lambda x: 1)(f(3))
        jax.jit(lambda x: x)(2)
        jax.jit(lambda x: x)(np.float64(2))
        jax.jit(lambda x: x)(np.arange(3))
        jax.jit(lambda x: x)('a')
        jax.jit(lambda x: 'a')(f(3))
        jax.jit(lambda x: x + 1 if x > 0 else x)(f())
        jax.jit(lambda x: np.sin(x))(f())
        jax.jit(lambda x: int(x))(f())
        jax.jit(lambda x: list(range(x)))(2)
        jax.jit(lambda x: x[x > 0])(f(3))
        jax.jit(lambda x: jnp.nonzero(x))(f(3))
        jax.jit(lambda n: jnp.zeros(n))(3)
        jax.jit(lambda n: jnp.arange(n))(3)
        jax.jit(lambda x, n: x[:n])(f(3), 2)
        jax.jit(lambda x: x.at[0].set(1))(f(3))
        jax.jit(lambda x: 2 ** 40)(f(3))
        jax.jit(lambda x: x)(2 ** 40)
    """,
}
ODD = (
    "'text'",
    "b'bytes'",
    "jnp.sin",
    "object()",
    "slice(2)",
    "np.array(['a'])",
    "np.datetime64('2020-01-01')",
    "{1, 2}",
    "np.float32",
    "2 ** 40",
    "None",
    "3",
    "jax.ShapeDtypeStruct((3,), 'float32')",
)
"""Values that are no arrays, and some that may be; all know the first eight for what they are."""

WITH_ODD = {
    "auxiliary outputs that are no arrays": """
        (lambda o: jax.grad(lambda x: (x * x, o), has_aux=True)(f())[1] is o)(ODD)
        (lambda o: jax.grad(lambda x, y: (x * x, y), has_aux=True)(f(), o)[1] is o)(ODD)
        (lambda o: jax.value_and_grad(lambda x: (x * x, {'a': o}), has_aux=True)(f())[0][1]['a'] is o)(ODD)
        (lambda o: jax.vjp(lambda x: (x * x, (x, o)), f(), has_aux=True)[2][1] is o)(ODD)
        (lambda o: jax.jvp(lambda x: (x * x, (x, o)), (f(),), (f(),), has_aux=True)[2][1] is o)(ODD)
        (lambda o: jax.linearize(lambda x: (x * x, (x, o)), f(), has_aux=True)[2][1] is o)(ODD)
        (lambda o: jax.jacrev(lambda x: (x * x, (x, o)), has_aux=True)(f(3))[1][1] is o)(ODD)
        (lambda o: jax.vmap(lambda x: jax.grad(lambda x: (x * x, o), has_aux=True)(x)[0])(f(3)))(ODD)
        (lambda o: jax.jit(lambda x: jax.grad(lambda x: (x * x, o), has_aux=True)(x)[0])(f()))(ODD)
        (lambda o: jax.grad(lambda x: jax.grad(lambda x: (x ** 3, o), has_aux=True)(x)[0])(f()))(ODD)
    """,
    "arguments that are not mapped": """
        jax.vmap(lambda x, o: x * 2, in_axes=(0, None))(f(3), ODD)
        (lambda o: jax.vmap(lambda x, y: x * (y is o), in_axes=(0, None))(f(3), o))(ODD)
        jax.vmap(lambda x, d: x * 2, in_axes=(0, {'o': None, 'y': 0}))(f(3), {'o': ODD, 'y': f(3)})
        jax.vmap(lambda o: f(), in_axes=None, axis_size=3)(ODD)
        jax.grad(lambda x, o: x * x)(f(), ODD)
        jax.hessian(lambda x, o: x * x)(f(), o=ODD)
        jax.checkpoint(lambda x, o: x * x, static_argnums=1)(f(), ODD)
    """,
}
ARRAYS_ONLY = """
    jax.jvp(lambda x: x * x, (f(3),), (ODD,))
    jax.jvp(lambda x: x * x, (2.0,), (ODD,))
    jax.linearize(lambda x: x * x, f(3))[1](ODD)
    jax.linear_transpose(lambda x: 2 * x, f(3))(ODD)
    jax.vjp(lambda x: 2 * x, f(3))[1](ODD)
    jax.vjp(lambda x: (x * x, jnp.argmax(x)), f(3))[1]((f(3), ODD))
    jax.vmap(lambda x, o: x)(f(3), ODD)
    jax.vmap(lambda x: (x, ODD), out_axes=(0, None))(f(3))
    jax.grad(lambda x, o: x, argnums=(0, 1))(f(), ODD)
    jax.vjp(lambda x: (x, ODD), f())
"""


def _with_odd(text: str, odd: tuple[str, ...] = ODD) -> str:
    return "\n".join(line.replace("ODD", value) for line in lines(text) for value in odd)


MORE: dict[str, str] = {
    "the older form of cond": """
        lax.cond(True, 2.0, lambda x: x * 2, 3.0, lambda y: y * 5)
        lax.cond(False, (2.0, 3), lambda x: x[0] * 2, 3.0, lambda y: y * 5)
        jax.jit(lambda p: lax.cond(p, (2.0, 3), lambda x: x[0] * 2, 3.0, lambda y: y * 5))(False)
        jax.vmap(lambda p: lax.cond(p, 2.0, lambda x: x * 2, 3.0, lambda y: y * 5))(b(3))
        jax.grad(lambda a: lax.cond(a > 0, a, jnp.sin, 2 * a, jnp.cos))(f())
        lax.cond(True, jnp.sin, 2.0, 3.0, jnp.cos)
        lax.cond(True, 2.0, jnp.sin, 3.0, 4.0)
        lax.cond(True, None, lambda x: 1., None, lambda x: 2.)
        lax.cond(pred=True, true_fun=lambda x: x, false_fun=lambda x: -x, operand=2.)
        lax.cond(True, lambda x: 1.0, lambda x: 2.0, operand=None)
        lax.cond(True, jnp.sin, jnp.cos, 1.0, operand=2.)
        lax.switch(index=1, branches=(jnp.sin, jnp.cos), operand=1.0)
        lax.cond(None, jnp.sin, jnp.cos, 1.0)
        lax.cond([True], jnp.sin, jnp.cos, 1.0)
        lax.cond('a', jnp.sin, jnp.cos, 1.0)
    """,
    "tangents and cotangents": """
        jax.jvp(lambda x: x * 2, (f16(),), (1.0,))
        jax.jvp(lambda x: x * 2, (f16(),), (1,))
        jax.jvp(lambda x: x * 2, (2.0,), (1,))
        jax.jvp(lambda x: x * 2, (2.0,), (1j,))
        jax.jvp(lambda x: x * 2, (2.0,), (True,))
        jax.jvp(lambda x: x * 2, (2.0,), (np.float64(1),))
        jax.jvp(lambda x: x * 2, (2.0,), (np.int32(1),))
        jax.jvp(lambda x: x * 2, (z(),), (1.0,))
        jax.jvp(lambda x: x * 2., (i(),), (np.zeros((1,), jax.dtypes.float0),))
        jax.jvp(lambda x: x * 2., (2,), (0,))
        jax.linearize(jnp.sin, 1.0)[1](1)
        jax.linearize(jnp.sin, 1.0)[1](1.0, 2.0)
        jax.linearize(jnp.sin, 1.0)[1](np.float32(1.0))
        jax.linearize(lambda x: x * 2.0, i(3))[1](i(3))
        jax.vjp(lambda x: x * 2, 2.0)[1](1)
        jax.vjp(lambda x: x * 2, f16())[1](1.0)
        jax.vjp(lambda x: x * 2, 2.0)[1](1.0, 2.0)
        jax.vjp(lambda x: x * 2, 2.0)[1]()
        jax.vjp(lambda x: (x * x, jnp.argmax(x)), f(3))[1]((f(3), 'text'))
        jax.vjp(lambda x: (x * x, jnp.argmax(x)), f(3))[1]((f(3), i(3)))
        jax.vjp(lambda x: (x * x, jnp.argmax(x)), f(3))[1]((f(3), 7))
        jax.vjp(lambda x: (x * x, jnp.argmax(x)), f(3))[1]((f(3), np.zeros((), jax.dtypes.float0)))
    """,
    "linear functions": """
        jax.linear_transpose(jnp.sin, f(3))(f(3))
        jax.linear_transpose(lambda x: x + 1, f(3))(f(3))
        jax.linear_transpose(lambda x: jnp.cumsum(x), f(3))(f(3))
        jax.linear_transpose(lambda x: lax.fori_loop(0, 3, lambda i, c: 2 * c, x), f(3))(f(3))
        jax.linear_transpose(lambda x: lax.scan(lambda c, a: (c + a, c), x[0], x)[1], f(3))(f(3))
        jax.linear_transpose(lambda x: lax.cond(True, lambda a: a * 2, lambda a: a * 3, x), f(3))(f(3))
        jax.linear_transpose(jax.jit(lambda x: x * 3), f(3))(f(3))
        jax.linear_transpose(lambda x: jnp.ones(3), f(3))(f(3))
        jax.linear_transpose(lambda x: x.astype('int32'), f(3))(i(3))
        jax.linear_transpose(lambda x: x * 2, i(3))(i(3))
        jax.linear_transpose(lambda x: x[jnp.array([0, 2])], i(3))(i(2))
        jax.linear_transpose(lambda x: x * (1+2j), z(3))(z(3))
        jax.linear_transpose(lambda x: x.real, z(3))(f(3))
        jax.linear_transpose(lambda x: x * 2, jax.ShapeDtypeStruct((3,), 'float32'))(f(3))
        jax.linear_transpose(lambda x: x * 2, jax.ShapeDtypeStruct((3,), 'float32'))(f(2))
        jax.linear_transpose(lambda x: x * 2, jax.ShapeDtypeStruct((3,), 'float32'))((f(3),))
        jax.linear_transpose(lambda x: x * 2, jax.ShapeDtypeStruct((3,), 'float32'))(i(3))
        jax.linear_transpose(lambda d: {'o': d['a'] + d['b']}, {'a': f(3), 'b': f(3)})({'o': f(3)})
        jax.linear_transpose(3, f(3))
        jax.jit(lambda x: jax.linear_transpose(lambda y: y * x, x))(f(3))(f(3))
        jax.jit(lambda x: jax.linearize(lambda y: (y * x, jnp.sin(y)), x))(f(3))[1](f(3))
        jax.jit(lambda x: jax.vjp(lambda y: (y * x, jnp.sin(y)), x))(f(3))[1]((f(3), f(3)))
        jax.jit(lambda g, t: g(t))(jax.linearize(jnp.sin, f(3))[1], f(3))
        jax.jit(lambda g, t: g(t))(jax.vjp(jnp.sin, f(3))[1], f(3))
        jax.vmap(lambda x: jax.linearize(jnp.sin, x)[1](x))(f(3))
        jax.vmap(lambda g, t: g(t))(jax.vmap(lambda x: jax.linearize(jnp.sin, x)[1])(f(3)), f(3))
        jax.vmap(lambda g, t: g(t))(jax.vmap(lambda x: jax.vjp(jnp.sin, x)[1])(f(3)), f(3))
        jax.vmap(jax.linearize(jnp.sin, f(3))[1])(jnp.eye(3))
    """,
    "checks of Jacobians": """
        jax.jacfwd(lambda x: x * 2)(z(2))
        jax.jacfwd(lambda x: x.astype('int32'))(f(2))
        jax.jacfwd(lambda x: x, holomorphic=True)(f(2))
        jax.jacfwd(lambda x: x.real, holomorphic=True)(z(2))
        jax.jacfwd(lambda x: x * x, holomorphic=True)(z(2))
        jax.jacrev(lambda x: x.real)(z(2))
        jax.jacrev(lambda x: x.astype('int32'))(f(2))
        jax.jacrev(lambda x: x * 1j)(f(2))
        jax.jacrev(lambda x: x * 2)(i())
        jax.jacrev(lambda x: x * 2.0, allow_int=True)(i())
        jax.jacfwd(lambda x: x)(i())
        jax.jacfwd(lambda x, y: x * y, argnums=2)(f(), f())
        jax.jacrev(lambda x, y: x * y, argnums=2)(f(), f())
        jax.grad(lambda x, y: x * y, argnums=-3)(f(), f())
        jax.grad(lambda x, y: x * y, argnums=2)(f(), f())
        jax.hessian(lambda x: (x * 2).astype('int32'))(f())
        jax.hessian(lambda x: x * x)(z())
        jax.grad(lambda x: None)(f())
        jax.grad(lambda x: [x])(f())
        jax.grad(lambda x: [x * x, x], has_aux=True)(f())
        jax.grad(lambda x: x, allow_int=True)(np.zeros((), jax.dtypes.float0))
        jax.jacrev(lambda x: x, allow_int=True)(np.zeros(3, jax.dtypes.float0))
        jax.jacrev(lambda x: None)(f())
        jax.jacfwd(lambda x: None)(f())
    """,
    "in_axes and out_axes": """
        jax.vmap(lambda x: x, in_axes=True)(f(3))
        jax.vmap(lambda x: x, in_axes=np.int64(0))(f(3))
        jax.vmap(lambda x: x, out_axes='a')
        jax.vmap(lambda x: x, out_axes=True)
        jax.vmap(lambda x, y: x, in_axes=(0, 'a'))
        jax.vmap(lambda x, n: x[:n], in_axes=(0, None))(f(3, 4), 2)
        jax.vmap(lambda x: 'text', out_axes=None)(f(3))
        jax.vmap(lambda x: (x, 'text'), out_axes=(0, None))(f(3))
        jax.vmap(lambda x: (x, jnp.sin))(f(3))
    """,
}
TYPES = """
    jax.eval_shape(lambda x: jax.ShapeDtypeStruct((3,), 'float32'), 1.0)
    jax.eval_shape(lambda x: (x, jax.ShapeDtypeStruct((3,), 'int32')), 1.0)
    jax.eval_shape(lambda: jax.eval_shape(lambda x: x * 2, f(3)))
    jax.eval_shape(lambda x: jax.jit(lambda y: y * 2)(jax.ShapeDtypeStruct((3,), 'float32')), 1.0)
    jax.eval_shape(lambda x: jax.jit(lambda y, z: y * z)(jax.ShapeDtypeStruct((3,), 'int32'), x), 1.0)
    jax.eval_shape(lambda s: jax.eval_shape(lambda x: x * 2, s), jax.ShapeDtypeStruct((3,), 'float32'))
    jax.make_jaxpr(lambda x: jax.ShapeDtypeStruct((3,), 'float32'))(1.0).out_avals
    jax.eval_shape(lambda x: lax.sin(jax.ShapeDtypeStruct((3,), 'float32')), 1.0)
    jax.eval_shape(lambda x: jax.vjp(lambda a: a * 2, jax.ShapeDtypeStruct((3,), 'float32'))[0], 1.0)
    jax.eval_shape(lambda x: jax.linearize(lambda a: a * 2, jax.ShapeDtypeStruct((3,), 'float32'))[0], 1.0)
    jax.eval_shape(lambda x: jax.vmap(lambda a: a * 2)(jax.ShapeDtypeStruct((3,), 'float32')), 1.0)
    jax.eval_shape(lambda x: jax.grad(lambda a: jnp.sum(a * 2))(jax.ShapeDtypeStruct((3,), 'float32')), 1.0)
    jax.eval_shape(lambda d: d['a'] * d['b'], {'a': jax.ShapeDtypeStruct((3,), 'float32'), 'b': 2.0})
    jax.jit(lambda x: jax.eval_shape(lambda y: y * 2, x))(f(3))
    jax.jit(lambda x: jax.jit(lambda y: y * 2)(jax.ShapeDtypeStruct((3,), 'float32')))(1.0)
    jax.jit(lambda x: x * 2)(jax.ShapeDtypeStruct((3,), 'float32'))
    lax.sin(jax.ShapeDtypeStruct((3,), 'float32'))
    jax.grad(lambda a: jnp.sum(a * 2))(jax.ShapeDtypeStruct((3,), 'float32'))
"""
GROUPS["types in place of arrays"] = "\n".join(
    f"jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), {line})" for line in lines(TYPES)
)
GROUPS["arguments that must be arrays"] = _with_odd(ARRAYS_ONLY, ODD[:8])
GROUPS |= MORE | {group: _with_odd(text) for group, text in WITH_ODD.items()}
LOOSE = {"jacobians": 1e-4, "grad": 1e-4}

TOPIC = Topic("transforms", cases(GROUPS, LOOSE))


@pytest.mark.parametrize("group", TOPIC.groups)
def test_as_jax(group: str) -> None:
    TOPIC.check(group, kiln)
