"""A primitive as other libraries define one: a scaled product, with a rule in every table."""

from __future__ import annotations

from typing import Any

import kiln.numpy as jnp
from kiln.core import ShapedArray
from kiln.extend.core import Primitive
from kiln.interpreters import ad, batching, mlir

ENGINES = ("native", "xla", "reference")


def scaled_product(name: str = "scaled_product") -> Primitive:
    """Return a new primitive: `scale * x * y`, and the sum of all elements of that."""
    p = Primitive(name)
    p.multiple_results = True

    def meaning(x: Any, y: Any, *, scale: float) -> list[Any]:
        product = scale * x * y
        return [product, jnp.sum(product)]

    def abstract(x: Any, y: Any, *, scale: float) -> list[ShapedArray]:
        return [ShapedArray(x.shape, x.dtype), ShapedArray((), x.dtype)]

    def jvp(primals: Any, tangents: Any, *, scale: float) -> Any:
        x, y = primals
        outs = p.bind(x, y, scale=scale)
        moved = [ad.Zero(ShapedArray(x.shape, x.dtype)), ad.Zero(ShapedArray((), x.dtype))]
        for operands, t in (((tangents[0], y), tangents[0]), ((x, tangents[1]), tangents[1])):
            if type(t) is not ad.Zero:
                terms = p.bind(*operands, scale=scale)
                moved = [ad.add_tangents(a, b) for a, b in zip(moved, terms, strict=True)]
        return outs, moved

    def transpose(cts: Any, x: Any, y: Any, *, scale: float) -> Any:
        assert ad.is_undefined_primal(x) != ad.is_undefined_primal(y)
        ct = jnp.add(*map(ad.instantiate_zeros, cts))
        known = y if ad.is_undefined_primal(x) else x
        pulled = scale * ct * known
        return [pulled, None] if ad.is_undefined_primal(x) else [None, pulled]

    def batch(xs: Any, axes: Any, *, scale: float) -> Any:
        size = next(x.shape[a] for x, a in zip(xs, axes, strict=True) if a is not None)
        x, y = (batching.bdim_at_front(v, a, size) for v, a in zip(xs, axes, strict=True))
        product = scale * x * y
        return [product, jnp.sum(product, tuple(range(1, product.ndim)))], [0, 0]

    p.def_impl(meaning)
    p.def_abstract_eval(abstract)
    ad.primitive_jvps[p] = jvp
    ad.primitive_transposes[p] = transpose
    batching.primitive_batchers[p] = batch
    mlir.register_lowering(p, mlir.lower_fun(meaning, multiple_results=True))
    return p
