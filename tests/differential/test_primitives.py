"""Primitives that programs define for themselves give jax's numbers, types and kinds of errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

import kiln
from tests.differential import primitive_programs as own
from tests.differential.expressions import lines
from tests.differential.oracle import Case, Topic

GROUPS: dict[str, str] = {
    "calls": """
        axpy.bind(2.0, x, y)
        jax.jit(axpy.bind)(x, x, y)
        split.bind(x)
        jax.jit(split.bind)(x)
        own(lambda x: x + 1).bind(x)
        own(lambda x: x + 1).bind(3)
        own(lambda x, *, k: x * k).bind(x, k=2.5)
        jax.jit(lambda x: own(lambda x, *, k: x * k).bind(x, k=2.5))(x)
        jex.Primitive('bare').bind(x)
        jax.make_jaxpr(jex.Primitive('bare').bind)(x)
        jax.eval_shape(split.bind, x)[0].shape[0]
    """,
    "derivatives": """
        jax.jvp(axpy.bind, (x, x, y), (y, x, x))
        jax.jvp(lambda a: axpy.bind(a, x, y), (x,), (y,))
        jax.grad(lambda a, x, y: jnp.sum(axpy.bind(a, x, y) * y), (0, 1, 2))(x, y, x)
        jax.grad(lambda x: jnp.sum(axpy.bind(x, x, x) ** 2))(x)
        jax.hessian(lambda x: jnp.sum(axpy.bind(x, x, x)))(x)
        jax.jit(jax.grad(lambda x: jnp.sum(axpy.bind(x, x, x) ** 2)))(x)
        jax.linearize(lambda x: axpy.bind(x, y, x), x)[1](y)
        jax.linear_transpose(lambda z: axpy.bind(x, z, 0 * x), x)(y)
        jax.vjp(lambda x: split.bind(x)[1], x)[1](y)
        jax.grad(lambda x: sum(map(jnp.sum, split.bind(x))))(x)
        jax.jacfwd(lambda x: split.bind(x)[0])(x)
        jax.grad(lambda x: jnp.sum(own(lambda x: x).bind(x)))(x)
        ad.defjvp(p2, lambda t, x, y: t * 5, None) or jax.grad(p2.bind, (0, 1))(2.0, 3.0)
        ad.defjvp2(p2, lambda t, z, x, y: t * z, lambda t, z, x, y: t) or jax.grad(p2.bind)(2.0, 3.0)
        ad.defbilinear(p2, lambda ct, x, y: ct * 7, lambda ct, x, y: ct * x) or jax.grad(p2.bind, (0, 1))(2.0, 3.0)
        ad.deflinear2(p1, lambda ct, x: [ct * 3]) or jax.grad(lambda x: jnp.sum(p1.bind(x)))(x)
        ad.deflinear2(p1, lambda ct, x: [None]) or jax.grad(lambda x: jnp.sum(p1.bind(x)))(x)
        ad.instantiate_zeros(ad.Zero(core.ShapedArray((2,), jnp.float32)))
        ad.add_tangents(ad.Zero(core.ShapedArray((3,), jnp.float32)), x)
        ad.primitive_transposes[lax.sin_p]
    """,
    "stacks": """
        jax.vmap(axpy.bind)(x, x, y)
        jax.vmap(axpy.bind, (None, 0, None))(2.0, x, 1.0)
        jax.vmap(axpy.bind, (1, 0, None))(jnp.stack([x, y], 1), jnp.stack([x, y]), x)
        jax.vmap(jax.grad(lambda a, x: axpy.bind(a, x, a)), (0, None))(x, 2.0)
        jax.grad(lambda x: jnp.sum(jax.vmap(lambda v: axpy.bind(v, v, v))(x)))(x)
        jax.vmap(split.bind, out_axes=-1)(jnp.stack([x, y]))
        jax.vmap(own(lambda x: x).bind)(x)
        batching.defvectorized(p1) or jax.vmap(p1.bind, 1, 1)(jnp.stack([x, y]))
        batching.defbroadcasting(p2) or jax.vmap(p2.bind, (0, None))(jnp.stack([x, y]), x)
        batching.defbroadcasting(p2) or jax.vmap(p2.bind, (0, 1))(jnp.stack([x, y]), jnp.stack([y, x], 1))
        batching.defreducer(total) or jax.vmap(lambda v: total.bind(v, axes=(0,)), 1)(jnp.stack([x, y]))
        batching.bdim_at_front(jnp.stack([x, y]), 1, 3)
        batching.bdim_at_front(x, None, 2)
        batching.broadcast(x, 2, 0, None)
        jax.lax.scan(lambda c, v: (axpy.bind(c, v, c), c), x, jnp.stack([x, y]))
    """,
    "programs": """
        renamed(lambda x: jnp.sin(x) * 2, x)
        renamed(lambda x: jax.jit(lambda y: jnp.sin(y) + x)(x), x)
        jex.jaxpr_as_fun(jax.make_jaxpr(lambda x: axpy.bind(x, x, y))(x))(x)
        core.eval_jaxpr(jax.make_jaxpr(lambda x: split.bind(x))(x).jaxpr, [], x)
        pe.dce_jaxpr(jax.make_jaxpr(lambda x, y: (x + 1, y * 2))(x, y).jaxpr, [True, False])[1]
        len(pe.dce_jaxpr(jax.make_jaxpr(lambda x, y: (x + 1, y * 2))(x, y).jaxpr, [True, False])[0].eqns)
        jex.mapped_aval(3, 1, core.ShapedArray((2, 3), jnp.float32)).shape[0]
        jex.unmapped_aval(4, 0, core.ShapedArray((2, 3), jnp.float32)).shape[0]
        api_util.flatten_axes('x', jax.tree.structure((1, 2, (3, 4))), (None, 0, 1))[1:]
        api_util.flatten_axes('x', jax.tree.structure((1, 2, (3, 4))), (None, 0))
        int(api_util.donation_vector((0,), (), jax.tree.structure(((1, 2), {})))[0])
        api_util.rebase_donate_argnums((0, 2), (1,))
        jex.concrete_or_error(int, 3)
        int(jex.valid_jaxtype('a'))
    """,
    "custom_vmap": """
        tenfold(x, y)
        jax.vmap(tenfold)(x, y)
        jax.jit(jax.vmap(tenfold))(x, y)
        jax.vmap(jax.jit(tenfold), (0, None))(x, 2.0)
        jax.vmap(lambda x: jax.jvp(lambda v: tenfold(v, 1.0), (x,), (2.0,)))(x)
        jax.grad(lambda x: jnp.sum(jax.vmap(tenfold)(x, y)))(x)
        jax.vmap(custom_batching.sequential_vmap(lambda x: (x * 2, 1)))(x)
        jax.vmap(custom_batching.sequential_vmap(lambda x, y: x * y), (0, None))(x, 2.0)
        custom_batching.custom_vmap(lambda x: x)(1.0)
    """,
    "linear_call": """
        scaled(x, y)
        jax.grad(lambda v: jnp.sum(scaled(x, v)))(y)
        jax.jit(jax.grad(lambda v: jnp.sum(scaled(x, v))))(y)
        jax.linear_transpose(lambda v: scaled(x, v), y)(y)
    """,
    "zeros of trees": """
        custom_derivatives.zero_from_primal((x, 2.0))
        custom_derivatives.zero_from_primal({'a': np.ones((2, 1), np.float32)})['a']
    """,
}


def _cases() -> Iterable[Case]:
    for group, text in GROUPS.items():
        for line in lines(text):
            yield Case(group, line, lambda library, line=line: _run(library, line))


def _run(library: Any, line: str) -> Any:
    m = own.modules(library)
    names = {
        **vars(m),
        "np": own.np,
        "x": m.jnp.asarray(own.X),
        "y": m.jnp.asarray(own.Y),
        "own": lambda fun: own.primitive(m, fun),
        "p1": own.primitive(m, lambda x: x * 2),
        "p2": own.primitive(m, lambda x, y: x * y),
        "total": own.primitive(m, lambda x, *, axes: m.jnp.sum(x, axes)),
        "axpy": own.axpy(m),
        "split": own.split(m),
        "renamed": own.renamed(m),
        "tenfold": own.tenfold(m),
        "scaled": own.scaled(m),
    }
    return eval(line, names)


TOPIC = Topic("primitives", _cases())


@pytest.mark.parametrize("group", TOPIC.groups)
def test_as_jax(group: str) -> None:
    TOPIC.check(group, kiln)
