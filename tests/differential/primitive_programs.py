"""Primitives, rules and wrapped functions that a program written for jax defines for itself."""

from __future__ import annotations

import importlib
import types
from typing import Any

import numpy as np


def modules(library: Any) -> types.SimpleNamespace:
    """Return the modules of a library that such programs import."""

    def module(name: str) -> Any:
        return importlib.import_module(f"{library.__name__}.{name}")

    return types.SimpleNamespace(
        jax=library,
        jnp=library.numpy,
        lax=library.lax,
        core=module("core"),
        jex=module("extend.core"),
        lu=module("extend.linear_util"),
        ad=module("interpreters.ad"),
        batching=module("interpreters.batching"),
        mlir=module("interpreters.mlir"),
        pe=module("interpreters.partial_eval"),
        api_util=module("api_util"),
        custom_batching=module("custom_batching"),
        custom_derivatives=module("custom_derivatives"),
    )


def primitive(m: Any, fun: Any, multiple: bool = False, name: str = "own") -> Any:
    """Return a new primitive that does what a function does, without rules for derivatives."""
    p = m.jex.Primitive(name)
    p.multiple_results = multiple

    def abstract(*avals: Any, **params: Any) -> Any:
        structs = [m.jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals]
        outs = m.jax.eval_shape(lambda *xs: fun(*xs, **params), *structs)
        found = [m.core.ShapedArray(x.shape, x.dtype) for x in m.jax.tree.leaves(outs)]
        return found if multiple else found[0]

    p.def_impl(fun)
    p.def_abstract_eval(abstract)
    m.mlir.register_lowering(p, m.mlir.lower_fun(fun, multiple_results=multiple))
    return p


def axpy(m: Any) -> Any:
    """Return a primitive `a * x + y` with all rules."""
    p = primitive(m, lambda a, x, y: a * x + y, name="axpy")

    def jvp(primals: Any, tangents: Any) -> Any:
        a, x, y = primals
        ta, tx, ty = tangents
        out = p.bind(a, x, y)
        moved = ty
        for left, right, t in ((ta, x, ta), (a, tx, tx)):
            if type(t) is not m.ad.Zero:
                moved = p.bind(left, right, m.ad.instantiate_zeros(moved))
        return out, moved

    def transpose(ct: Any, a: Any, x: Any, y: Any) -> Any:
        undefined = m.ad.is_undefined_primal
        return [
            ct * x if undefined(a) else None,
            ct * a if undefined(x) else None,
            ct if undefined(y) else None,
        ]

    def batch(args: Any, dims: Any) -> Any:
        size = next(x.shape[d] for x, d in zip(args, dims, strict=True) if d is not None)
        moved = [m.batching.bdim_at_front(x, d, size) for x, d in zip(args, dims, strict=True)]
        return p.bind(*moved), 0

    m.ad.primitive_jvps[p] = jvp
    m.ad.primitive_transposes[p] = transpose
    m.batching.primitive_batchers[p] = batch
    return p


def split(m: Any) -> Any:
    """Return a primitive of two results: sine and cosine, each the other's derivative."""
    p = primitive(m, lambda x: [m.jnp.sin(x), m.jnp.cos(x)], multiple=True, name="split")

    def jvp(primals: Any, tangents: Any) -> Any:
        s, c = p.bind(*primals)
        (t,) = tangents
        return [s, c], [t * c, -t * s]

    m.ad.primitive_jvps[p] = jvp
    m.batching.primitive_batchers[p] = lambda args, dims: (p.bind(*args), [dims[0]] * 2)
    return p


def renamed(m: Any) -> Any:
    """Return a function that evaluates a program with cosines in place of sines."""

    def run(jaxpr: Any, consts: Any, *args: Any) -> Any:
        env = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args], strict=True))
        for eqn in jaxpr.eqns:
            values = [v.val if isinstance(v, m.jex.Literal) else env[v] for v in eqn.invars]
            if eqn.primitive is m.jex.primitives.jit_p:
                inner = eqn.params["jaxpr"]
                outs = run(inner.jaxpr, inner.consts, *values)
            elif eqn.primitive is m.lax.sin_p:
                outs = [m.jnp.cos(values[0])]
            else:
                outs = eqn.primitive.bind(*values, **eqn.primitive.get_bind_params(eqn.params))
                outs = outs if eqn.primitive.multiple_results else [outs]
            env.update(zip(eqn.outvars, outs, strict=True))
        return [v.val if isinstance(v, m.jex.Literal) else env[v] for v in jaxpr.outvars]

    return lambda f, *args: run(*_parts(m.jax.make_jaxpr(f)(*args)), *args)


def _parts(closed: Any) -> tuple[Any, Any]:
    return closed.jaxpr, closed.consts


def tenfold(m: Any) -> Any:
    """Return a function whose rule for stacks returns ten times as much."""

    @m.custom_batching.custom_vmap
    def add(x: Any, y: Any) -> Any:
        return m.jnp.sin(x) + y

    @add.def_vmap
    def rule(axis_size: Any, in_batched: Any, x: Any, y: Any) -> Any:
        return 10 * (m.jnp.sin(x) + y), True

    return add


def scaled(m: Any) -> Any:
    """Return a linear function of its second argument whose transpose is 100 times as large."""
    return lambda r, x: m.custom_derivatives.linear_call(
        lambda r, x: r * x, lambda r, ct: 100 * r * ct, r, x
    )


X = np.array([0.5, -1.0, 2.0], np.float32)
Y = np.array([3.0, 0.25, -2.0], np.float32)
